"""The policy of a soft prompt and an adapter, against forwards built by hand on tiny models with random weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from apm_lab.errors import ConfigError
from apm_lab.language.hf_engine import load_engine
from apm_lab.language.hf_generation import written_answers
from apm_lab.language.hf_sampling import Sampling
from apm_lab.language.pair_batch import EncodedPair, pair_batch
from apm_lab.language.soft_prompt import PolicySettings, SoftPromptPolicy

WIDTH = 6
PAIRS = [
    EncodedPair((3, 40, 41, 42, 9), (50, 51, 52, 2), (60, 2), 0),
    EncodedPair((3, 44, 9), (2,), (70, 71, 72, 73, 74, 2), 1),
    EncodedPair((3, 45, 46, 47, 48, 49, 9), (80, 2), (81, 82, 2), 0),
]
EMBEDDINGS = np.random.default_rng(0).normal(size=(2, WIDTH)).astype(np.float32)


@pytest.fixture
def engine(tiny):
    one = load_engine(tiny, None, "float32", "cpu")
    yield one
    assert not [name for name, _ in one.network.model.named_parameters() if "lora" in name], "an adapter was left"


def policy_of(engine, **changes):
    settings = PolicySettings(width=WIDTH, lora_rank=4, lora_dropout=0.0, **changes)
    policy = SoftPromptPolicy(engine, settings, seed=1)
    with torch.no_grad():
        for name, value in policy.trained().items():
            if "lora_B" in name:  # zeros at first: the adapter would do nothing
                value.normal_(0, 0.3, generator=torch.Generator().manual_seed(2))
    return policy


def by_hand(policy, prompt, answer, embedding):
    """Return log P(answer | soft tokens, prompt) with one sequence alone and nothing padded."""
    model = policy.network.model
    embed = model.get_input_embeddings()
    soft = policy.projector(torch.from_numpy(embedding)[None])[0] if policy.projector else torch.zeros(0, 48)
    first = 1 if prompt[0] == policy.begin else 0
    ids = torch.tensor(prompt)
    vectors = torch.cat([embed(ids[:first]), soft, embed(ids[first:]), embed(torch.tensor(answer))])
    logits = model(inputs_embeds=vectors[None]).logits[0, -len(answer) - 1 : -1]
    return torch.log_softmax(logits.float(), -1)[torch.arange(len(answer)), torch.tensor(answer)].sum()


@pytest.mark.parametrize("begin", [None, 3])
@pytest.mark.parametrize("soft_tokens", [0, 1, 3])
@pytest.mark.parametrize(("shared", "left"), [(True, False), (False, False), (False, True)])
def test_log_probabilities_equal_a_forward_built_by_hand(engine, begin, soft_tokens, shared, left, monkeypatch):
    monkeypatch.setattr(SoftPromptPolicy, "begin", begin)
    policy = policy_of(engine, soft_tokens=soft_tokens)
    batch = pair_batch(PAIRS, EMBEDDINGS, policy.with_soft, shared=shared, left=left)
    with policy.active(), torch.no_grad():
        found = policy.log_probs(batch)
        expected = [by_hand(policy, pair.prompt, pair.chosen, EMBEDDINGS[pair.user]) for pair in PAIRS]
        expected += [by_hand(policy, pair.prompt, pair.rejected, EMBEDDINGS[pair.user]) for pair in PAIRS]
    policy.detach()
    assert torch.allclose(found, torch.stack(expected), atol=1e-5, rtol=1e-5)


def test_soft_tokens_stand_behind_the_token_that_begins_a_text(engine, monkeypatch):
    policy = policy_of(engine, soft_tokens=2)
    monkeypatch.setattr(SoftPromptPolicy, "begin", 3)
    assert policy.with_soft([3, 40], 1) == [3, -3, -4, 40]
    assert policy.with_soft([40, 3], 0) == [-1, -2, 40, 3]
    policy.detach()


def test_gradients_reach_projector_and_adapter_and_nothing_else(engine):
    policy = policy_of(engine)
    with policy.active():
        policy.log_probs(pair_batch(PAIRS, EMBEDDINGS, policy.with_soft, shared=True)).sum().backward()
    moved = [name for name, value in policy.trained().items() if value.grad is not None and value.grad.abs().sum() > 0]
    others = [
        name for name, value in engine.network.model.named_parameters() if "lora" not in name and value.requires_grad
    ]
    trained = list(policy.trained())
    policy.detach()
    assert moved == trained
    assert len(trained) == 4 + 2 * 4 * 2  # two layers of the projector; A and B in four places of two layers
    assert not others


def test_a_shared_prompt_gives_the_gradients_of_separate_ones(engine):
    policy, found = policy_of(engine), []
    for shared in (True, False):
        policy.zero_grad()
        with policy.active():
            sums = policy.log_probs(pair_batch(PAIRS, EMBEDDINGS, policy.with_soft, shared=shared))
            (sums[:3] - 0.5 * sums[3:]).sum().backward()
        found.append([value.grad.clone() for value in policy.trained().values()])
    policy.detach()
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-3, rtol=1e-3)


def test_with_both_parts_off_it_is_the_base_model_bit_for_bit(engine):
    ids = torch.tensor([[3, 40, 41, 50, 51]])
    before = engine.network.model(input_ids=ids).logits
    policy = policy_of(engine)
    off = engine.network.model(input_ids=ids).logits
    with policy.active():
        on = engine.network.model(input_ids=ids).logits
    policy.detach()
    assert torch.equal(before, off)
    assert not torch.equal(before, on)
    assert torch.equal(before, engine.network.model(input_ids=ids).logits)


@pytest.mark.parametrize(("place", "shares"), [("tiny", True), ("recurrent", False)])
def test_it_finds_out_whether_answers_may_share_a_prompt(place, shares, request):
    engine = load_engine(request.getfixturevalue(place), None, "float32", "cpu")
    policy = SoftPromptPolicy(engine, PolicySettings(width=WIDTH, lora_rank=0), seed=0)
    assert policy.shares_prompts() is shares


def test_answers_behind_a_soft_prompt_are_those_of_generate(engine):
    policy = policy_of(engine, soft_tokens=2)
    prompts = [[3, 40, 41, 42, 9], [3, 44, 9], [3, 45, 46, 47, 48, 49, 9]]
    users = torch.from_numpy(EMBEDDINGS[[0, 1, 1]])
    greedy = Sampling(0.0, 1.0, 1.0, 12)
    with policy.active(), torch.no_grad():
        table = policy.soft_table(users)
        placed = [policy.with_soft(prompt, place) for place, prompt in enumerate(prompts)]
        with engine.network.prefixed(table):
            groups = list(written_answers(engine.network, placed, [b"s"] * 3, greedy, engine.ends, 2))
        found = dict(one for group in groups for one in group)
        model = engine.network.model
        for place, tokens in enumerate(placed):
            vectors = engine.network.embedded(torch.tensor([tokens]), table)
            expected = model.generate(
                inputs_embeds=vectors, attention_mask=torch.ones(vectors.shape[:2]), do_sample=False, max_new_tokens=12
            )[0].tolist()
            kept = [token for token in expected if token not in engine.ends]
            assert found[place] == kept
    policy.detach()


def test_layers_that_the_model_has_not_are_named(engine):
    with pytest.raises(ConfigError, match=r"lora_targets=\['query'\].*its linear layers are .*q_proj"):
        SoftPromptPolicy(engine, PolicySettings(width=WIDTH, targets=("query",)), seed=0)


def test_the_same_seed_gives_the_same_policy_and_leaves_the_generator_alone(engine):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, found = policy_of(engine), {}
    found = {name: value.clone() for name, value in first.trained().items()}
    first.detach()
    second = policy_of(engine)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(found[name], value) for name, value in second.trained().items())
    second.detach()
