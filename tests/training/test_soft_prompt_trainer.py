"""DPO of a soft-prompt policy: against TRL, and continued in the middle of an epoch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.hf_engine import load_engine
from apm_lab.language.pair_batch import EncodedPair, pair_batch
from apm_lab.language.soft_prompt import PolicySettings, SoftPromptPolicy
from apm_lab.training.pair_datamodule import Pairs
from apm_lab.training.soft_prompt_trainer import DpoSettings, train_policy, with_reference
from apm_lab.training.trainer_settings import TrainerSettings

WIDTH = 6


def made_pairs(count, seed=0):
    rng = np.random.default_rng(seed)

    def tokens(most):
        return tuple(rng.integers(5, 200, rng.integers(1, most)).tolist())

    return [EncodedPair((3, *tokens(16), 9), (*tokens(12), 2), (*tokens(12), 2), user % 5) for user in range(count)]


EMBEDDINGS = np.random.default_rng(1).normal(size=(5, WIDTH)).astype(np.float32)


@pytest.fixture
def engine(tiny):
    return load_engine(tiny, None, "float32", "cpu")


def trained(engine, pairs, settings, *, soft_tokens=1, start=None, folder=None, lora_rank=4, stop=None, **trainer):
    """Return the figures of every step and the trained tensors of one training."""
    policy = SoftPromptPolicy(
        engine,
        PolicySettings(width=WIDTH, soft_tokens=soft_tokens, lora_rank=lora_rank, lora_dropout=settings_dropout),
        seed=3,
    )
    steps = []

    def log(figures):
        steps.append(figures)
        if stop is not None and len(steps) == stop:
            raise KeyboardInterrupt

    try:
        if start is not None:
            policy.fill(start)
        trains = TrainerSettings(threads=1, **trainer)
        train_policy(policy, Pairs(pairs, EMBEDDINGS), settings, trains, seed=7, folder=folder, log=log)
        return steps, {name: value.detach().clone() for name, value in policy.trained().items()}
    finally:
        policy.detach()


settings_dropout = 0.0


@pytest.mark.parametrize("from_trained", [False, True])
def test_losses_and_rewards_are_those_of_trl(engine, from_trained):
    pairs = made_pairs(8)
    both = {"batch_size": 8, "accumulate": 1, "epochs": 6, "learning_rate": 5e-3}
    start = trained(engine, made_pairs(8, 5), DpoSettings(**both), soft_tokens=0)[1] if from_trained else None
    ours, weights = trained(engine, pairs, DpoSettings(**both), soft_tokens=0, start=start)
    theirs, reference = trained(engine, pairs, DpoSettings(**both, engine="trl"), soft_tokens=0, start=start)
    assert len(ours) == len(theirs) == 6
    assert ours[0]["train/loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert ours[0]["train/reward_chosen"] == pytest.approx(0, abs=1e-5)
    assert ours[-1]["train/loss"] < 0.5
    for mine, other in zip(ours, theirs, strict=True):
        for name in ("train/loss", "train/reward_chosen", "train/reward_rejected"):
            assert mine[name] == pytest.approx(other[name], abs=1e-4), name
    for name, value in weights.items():
        assert torch.allclose(value, reference[name], atol=1e-4), name


def test_after_trl_the_network_is_the_base_model_again(engine):
    ids = torch.tensor([[3, 40, 41, 50, 51]])
    before = engine.network.model(input_ids=ids).logits
    trained(engine, made_pairs(4), DpoSettings(batch_size=2, accumulate=1, engine="trl"), soft_tokens=0)
    assert torch.equal(before, engine.network.model(input_ids=ids).logits)
    assert not [name for name, _ in engine.network.model.named_parameters() if "lora" in name]


def test_trl_knows_no_soft_tokens(engine):
    with pytest.raises(ConfigError, match=r"method.engine=trl trains an adapter alone: set method.soft_tokens=0"):
        trained(engine, made_pairs(4), DpoSettings(engine="trl"), soft_tokens=2)


def test_reference_log_probabilities_are_those_of_the_base_model(engine):
    pairs = made_pairs(5)
    policy = SoftPromptPolicy(engine, PolicySettings(width=WIDTH), seed=0)
    with policy.active():
        found = with_reference(policy, pairs, shared=True, batch_size=2)
    policy.detach()
    bare = SoftPromptPolicy(engine, PolicySettings(width=WIDTH, soft_tokens=0, lora_rank=0), seed=0)
    sums = bare.log_probs(pair_batch(pairs, EMBEDDINGS, lambda prompt, _: list(prompt), shared=False))
    told = torch.tensor([pair.reference for pair in found]).T.reshape(-1)
    assert torch.allclose(told, sums.detach(), atol=1e-4)


def test_a_training_that_was_interrupted_in_an_epoch_goes_on_to_the_same_losses(engine, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "settings_dropout", 0.3)  # what is drawn at random must come back too
    settings = DpoSettings(batch_size=2, accumulate=2, epochs=2, learning_rate=5e-3, every_n_steps=2)
    pairs = made_pairs(18)  # 9 batches, 5 steps an epoch
    whole, weights = trained(engine, pairs, settings)
    with pytest.raises(KeyboardInterrupt):
        trained(engine, pairs, settings, folder=tmp_path, stop=8)
    assert (tmp_path / "last.ckpt").is_file()
    rest, continued = trained(engine, pairs, settings, folder=tmp_path)
    assert 0 < len(rest) < len(whole)
    assert rest == whole[-len(rest) :]
    assert all(torch.equal(value, continued[name]) for name, value in weights.items())
    assert not (tmp_path / "last.ckpt").exists()


def test_the_state_of_an_interrupted_training_holds_what_is_trained_and_no_more(engine, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        settings = DpoSettings(batch_size=2, accumulate=1, every_n_steps=1)
        trained(engine, made_pairs(8), settings, folder=tmp_path, stop=3)
    state = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]
    policy = SoftPromptPolicy(engine, PolicySettings(width=WIDTH, lora_rank=4), seed=0)
    names = set(policy.trained())
    policy.detach()
    assert set(state) == names


def test_gradient_checkpointing_changes_no_loss(engine):
    plain = DpoSettings(batch_size=2, accumulate=1, learning_rate=5e-3)
    saving = DpoSettings(batch_size=2, accumulate=1, learning_rate=5e-3, gradient_checkpointing=True)
    one, other = (trained(engine, made_pairs(8), settings)[0] for settings in (plain, saving))
    assert [step["train/loss"] for step in one] == pytest.approx([step["train/loss"] for step in other], abs=1e-5)


def test_gradient_checkpointing_really_computes_twice(engine, monkeypatch):
    layer, calls = engine.network.model.model.layers[0].mlp, []
    layer.register_forward_pre_hook(lambda *_: calls.append(1))
    saving = DpoSettings(batch_size=8, accumulate=1, gradient_checkpointing=True)
    trained(engine, made_pairs(8), saving)
    layer._forward_pre_hooks.clear()
    # the probe reads twice, the reference once, the one training step twice
    assert len(calls) == 5


def test_a_training_that_diverges_is_told(engine):
    with pytest.raises(DataError, match=r"diverged .*method.learning_rate"):
        trained(engine, made_pairs(8), DpoSettings(batch_size=4, accumulate=1, epochs=8, learning_rate=1e30))


def test_a_model_on_another_device_than_the_trainer(engine, monkeypatch):
    monkeypatch.setattr(engine.network, "device", "cuda")
    policy = SoftPromptPolicy.__new__(SoftPromptPolicy)
    torch.nn.Module.__init__(policy)
    policy.network = engine.network
    with pytest.raises(ConfigError, match=r"trains on cpu, and the model is on cuda"):
        train_policy(policy, Pairs([], EMBEDDINGS), DpoSettings(), TrainerSettings(), seed=0)


def test_two_processes_share_the_pairs_and_hand_back_what_they_trained(engine):
    settings = DpoSettings(batch_size=2, accumulate=1, epochs=2, learning_rate=5e-3)
    pairs = made_pairs(16)
    alone, _ = trained(engine, pairs, settings)
    steps, weights = trained(engine, pairs, settings, devices=2, strategy="ddp_fork")
    untrained = trained(engine, pairs, DpoSettings(batch_size=2, learning_rate=1e-30))[1]
    assert (len(alone), len(steps)) == (16, 8)
    assert steps[-1]["train/loss"] < 0.69
    assert all(not torch.equal(value, untrained[name]) for name, value in weights.items())
