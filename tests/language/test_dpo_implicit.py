import json
import math
import random
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.dpo_implicit import DpoImplicit
from apm_lab.language.hashed_encoder import HashedEncoder
from apm_lab.language.hf_engine import fresh_engine, load_engine
from apm_lab.language.hf_weights import identity_of, load_language_model
from apm_lab.language.history_embedding import history_embeddings
from apm_lab.language.reward_model import RewardCall, RewardModel
from apm_lab.language.soft_prompt import PolicySettings, SoftPromptPolicy
from apm_lab.language.soft_prompt_checkpoint import PolicyDescription, write_policy

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from reward_checkpoints import CALLS, rewards_of

WIDTH, BETA = 16, 0.3
HISTORY = ("Why should I learn to swim?", "Be casual.")


def trained(tiny, folder, fresh=False, **changes):
    """Write a checkpoint with random weights (or one as before the first step) and return its policy."""
    settings = PolicySettings(width=WIDTH, **{"lora_rank": 4, "soft_tokens": 2, **changes})
    policy = SoftPromptPolicy(fresh_engine(tiny, None, "float32", "cpu"), settings, seed=1)
    if not fresh:
        draw = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for name, value in policy.trained().items():
                if "lora_B" in name:
                    value.normal_(0, 0.3, generator=draw)
    told = PolicyDescription(
        base=identity_of(tiny),
        encoder=HashedEncoder(WIDTH).identity,
        pooling="mean",
        settings=asdict(settings),
        beta=BETA,
    )
    write_policy(folder, policy.trained(), told)
    return policy


@pytest.fixture(scope="module")
def checkpoint(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("policy") / "soft_prompt"
    return str(folder), trained(tiny, folder)


def made(tiny, folder, template="raw", **given):
    return DpoImplicit(folder, tiny, template, dtype="float32", device="cpu", **given)


def log_probability(model, before, behind, soft=None):
    """Return log P(behind | soft, before) by one plain pass."""
    embed = model.get_input_embeddings()
    parts = [embed(torch.tensor(before)), embed(torch.tensor(behind))]
    vectors = torch.cat([soft, *parts] if soft is not None else parts)
    with torch.no_grad():
        logits = model(inputs_embeds=vectors[None]).logits[0, -len(behind) - 1 : -1]
    return float(torch.log_softmax(logits.float(), -1)[torch.arange(len(behind)), torch.tensor(behind)].sum())


def tokens(tiny, call, answer, template):
    engine = load_engine(tiny, None, "float32", "cpu")
    if template == "raw":
        before = engine.tokenizer(call.prompt)["input_ids"]
        return before, engine.tokenizer(call.prompt + answer)["input_ids"][len(before) :]
    text = f"<|start|>user\n{call.prompt.rstrip()}<|end|>\n<|start|>assistant\n"
    before = engine.tokenizer(text, add_special_tokens=False)["input_ids"]
    return before, [*engine.tokenizer(answer.lstrip())["input_ids"], engine.tokenizer.eos_token_id]


@pytest.mark.parametrize("template", ["raw", "chat"])
@pytest.mark.parametrize("history", [(), HISTORY])
def test_the_reward_is_that_of_passes_written_by_hand(tiny, checkpoint, template, history):
    folder, policy = checkpoint
    base, encoder = load_language_model(tiny, None, "float32", "cpu").model, HashedEncoder(WIDTH)
    model = made(tiny, folder, template, history=history, encoder=encoder)
    assert isinstance(model, RewardModel)
    soft = None
    if history:
        with torch.no_grad():
            soft = policy.projector(torch.from_numpy(history_embeddings(encoder, [history])))[0]
    for call, found in zip(CALLS, rewards_of(model, CALLS), strict=True):
        for answer, value in zip(call.answers, found, strict=True):
            before, behind = tokens(tiny, call, answer, template)
            with policy.active():
                after = log_probability(policy.network.model, before, behind, soft)
            assert value == pytest.approx(BETA * (after - log_probability(base, before, behind)), abs=1e-4)
            assert abs(value) > 1e-3


def test_neither_neighbours_nor_order_has_a_say(tiny, checkpoint):
    together = rewards_of(made(tiny, checkpoint[0]), CALLS)
    order = list(range(len(CALLS)))
    random.Random(1).shuffle(order)
    shuffled = rewards_of(made(tiny, checkpoint[0], batch_size=2), [CALLS[place] for place in order])
    for place, call in enumerate(CALLS):
        assert rewards_of(made(tiny, checkpoint[0]), [call])[0] == pytest.approx(together[place], abs=1e-4)
        assert shuffled[order.index(place)] == pytest.approx(together[place], abs=1e-4)


def test_before_the_first_step_there_is_no_reward(tiny, tmp_path):
    trained(tiny, tmp_path / "fresh", fresh=True)
    for found in rewards_of(made(tiny, str(tmp_path / "fresh")), CALLS):
        assert found == pytest.approx([0.0] * len(found), abs=1e-5)


def test_beta_may_be_another(tiny, checkpoint):
    one, two = (rewards_of(made(tiny, checkpoint[0], beta=beta), CALLS[:1])[0] for beta in (None, 0.6))
    assert two == pytest.approx([2 * value for value in one], rel=1e-5)


def test_an_answer_without_text_is_its_end_or_nothing(tiny, checkpoint):
    calls = [RewardCall("Why?", ("", "fun"))]
    assert math.isnan(rewards_of(made(tiny, checkpoint[0]), calls)[0][0])
    assert not math.isnan(rewards_of(made(tiny, checkpoint[0], "chat"), calls)[0][0])
    assert list(made(tiny, checkpoint[0]).rewards([])) == []


def test_the_base_model_of_others_is_left_alone(tiny, checkpoint):
    list(made(tiny, checkpoint[0]).rewards(CALLS[:1]))
    shared = load_engine(tiny, None, "float32", "cpu").network.model
    assert not [name for name, _ in shared.named_parameters() if "lora" in name]


def test_the_checkpoint_and_the_user_are_in_the_key(tiny, checkpoint, tmp_path):
    other = trained(tiny, tmp_path / "other", soft_tokens=0)
    assert other.projector is None
    one, two = made(tiny, checkpoint[0]), made(tiny, str(tmp_path / "other"))
    assert one.identity != two.identity
    assert one.identity.startswith(f"{identity_of(tiny)}+soft_prompt@")
    led = [made(tiny, checkpoint[0], history=told, encoder=HashedEncoder(WIDTH)) for told in (HISTORY, HISTORY[:1])]
    assert len({model.sampling for model in (one, *led, made(tiny, checkpoint[0], beta=1.0))}) == 4
    assert json.loads(one.sampling)["beta"] == BETA


def test_user_mistakes_are_named(tiny, windowed, checkpoint, tmp_path):
    folder = checkpoint[0]
    for given in ((None, tiny), (folder, None)):
        with pytest.raises(ConfigError, match=r"dpo_implicit needs reward_model\.model\.checkpoint"):
            DpoImplicit(*given, "raw")
    with pytest.raises(ConfigError, match="template='pair', expected raw or chat"):
        made(tiny, folder, "pair")
    with pytest.raises(ConfigError, match="beta=0 must be above 0"):
        made(tiny, folder, beta=0)
    with pytest.raises(ConfigError, match="a history needs the encoder"):
        made(tiny, folder, history=HISTORY)
    with pytest.raises(ConfigError, match=r"trained with the base model tiny.*reward_model\.model\.base is windowed"):
        made(windowed, folder).ready()
    with pytest.raises(ConfigError, match="trained with the encoder"):
        made(tiny, folder, history=HISTORY, encoder=HashedEncoder(8)).ready()
    with pytest.raises(DataError, match=r"can't be read.*expected a folder with soft_prompt\.safetensors"):
        made(tiny, str(tmp_path)).ready()
    trained(tiny, tmp_path / "soft", lora_rank=0)
    with pytest.raises(ConfigError, match="has no adapter: without a history it is the base model itself"):
        made(tiny, str(tmp_path / "soft")).ready()
    with pytest.raises(ConfigError, match="more than its context of 512"):
        rewards_of(made(tiny, folder), [RewardCall("Why should I learn to swim? " * 100, ("fit",))])
