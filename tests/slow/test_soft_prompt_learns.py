"""On the simulated language model: it follows styles, and a soft prompt that is told the style learns to ask for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from apm_lab.data.pool import PRINCIPLES, slug, styled_messages
from apm_lab.data.prompts import read_prompts
from apm_lab.language.encoded_pairs import PairTexts, encoded_pairs
from apm_lab.language.hf import HfModel
from apm_lab.language.protocols import GenerationCall, Question
from apm_lab.language.simulated.judge import SimulatedJudge
from apm_lab.language.simulated.responder import SimulatedResponder
from apm_lab.language.soft_prompt import PolicySettings, SoftPromptPolicy
from apm_lab.records import Message, Style
from apm_lab.training.pair_datamodule import Pairs
from apm_lab.training.soft_prompt_trainer import DpoSettings, train_policy
from apm_lab.training.trainer_settings import TrainerSettings

pytestmark = pytest.mark.slow

POOL = PRINCIPLES[:4]
PROMPTS = [prompt.text for prompt in read_prompts(None)]


@pytest.fixture(scope="module")
def model():
    one = HfModel("simulated_lm", dtype="float32", device="cpu", max_tokens=80, batch_size=64)
    one.ready()  # minutes, where this machine has not trained it yet
    return one


def write(model, prompts, styles, first):
    calls = [
        GenerationCall(styled_messages(POOL, "system", prompt, style), first + place)
        for place, (prompt, style) in enumerate(zip(prompts, styles, strict=True))
    ]
    return model.generate(calls)


def gain(texts, neutral, styles):
    """Return by how many points each text is nearer to its style than the neutral answer is."""
    judge = SimulatedJudge("expected")

    def rated(text, style):
        (score,) = judge.score(text, [Question(slug(POOL[style.principle]), 1)], [bytes(16)])
        return score * style.direction

    pairs = zip(texts, neutral, styles, strict=True)
    return np.array([rated(text, style) - rated(plain, style) for text, plain, style in pairs])


def test_its_oracle_clearly_beats_its_twin(model):
    rng = np.random.default_rng(1)
    prompts, styles = PROMPTS[:400], [Style.of(int(index)) for index in rng.integers(2 * len(POOL), size=400)]
    neutral = write(model, prompts, [None] * 400, 0)
    oracle = gain(write(model, prompts, styles, 0), neutral, styles)
    twin = gain(write(model, prompts, [None] * 400, 10**6), neutral, styles)
    assert oracle.mean() > 0.6
    assert (oracle - twin).mean() > 4 * (oracle - twin).std() / 20
    assert abs(twin.mean()) < 4 * twin.std() / 20


def test_a_soft_prompt_learns_what_its_embedding_tells(model):
    rng, engine = np.random.default_rng(0), model.opened()
    liked = rng.integers(2 * len(POOL), size=1000)
    prompts = [PROMPTS[place] for place in rng.integers(400, size=1000)]
    writer = SimulatedResponder("simulated_generator", 0.9, 1.5)
    best = write(writer, prompts, [Style.of(int(index)) for index in liked], 0)
    worst = write(writer, prompts, [Style.of(int(index) ^ 1) for index in liked], 10**6)
    texts = [PairTexts(*each) for each in zip(prompts, best, worst, range(1000), strict=True)]
    pairs = encoded_pairs(engine, texts, None, 1).pairs
    told = np.eye(2 * len(POOL), dtype=np.float32)  # the style itself: what no encoder of a history could say
    policy = SoftPromptPolicy(engine, PolicySettings(width=2 * len(POOL)), seed=0)
    try:
        settings = DpoSettings(batch_size=8, accumulate=1, learning_rate=2e-3)
        train_policy(policy, Pairs(pairs, told[liked]), settings, TrainerSettings(threads=1), seed=0)
        asked, wanted = PROMPTS[400:], rng.integers(2 * len(POOL), size=len(PROMPTS) - 400)
        with torch.inference_mode(), policy.active():
            table = policy.soft_table(torch.from_numpy(told[wanted]))
            chats = engine.encoder.prompts([(Message("user", prompt),) for prompt in asked], 90)
            placed = [policy.with_soft(chat, place) for place, chat in enumerate(chats)]
            with engine.network.prefixed(table):
                own = model.answers_to(placed, [place.to_bytes(16, "little") for place in range(len(placed))])
    finally:
        policy.detach()
    found = gain(own, write(model, asked, [None] * len(asked), 0), [Style.of(int(index)) for index in wanted])
    assert found.mean() > 2.0
    assert (found > 0).sum() > 4 * (found < 0).sum()
