"""DPO's loss, rewards and token log-probabilities, against hand-worked numbers and torch's own softmax."""

from __future__ import annotations

import math

import pytest
import torch

from apm_lab.maths import dpo
from apm_lab.maths.dpo import dpo_loss, implicit_reward, sums_by_sequence, token_log_probs


def test_a_pair_worked_by_hand() -> None:
    # rewards .1 (-10 + 12) = .2 and .1 (-20 + 19) = -.1; margin .3; loss -log sigmoid(.3)
    loss, *rewards = dpo_loss(
        torch.tensor([-10.0]), torch.tensor([-20.0]), (torch.tensor([-12.0]), torch.tensor([-19.0])), 0.1
    )
    assert [reward.item() for reward in rewards] == pytest.approx([0.2, -0.1])
    assert loss.item() == pytest.approx(math.log1p(math.exp(-0.3)))


def test_a_policy_that_is_the_reference_has_loss_ln_2_and_no_margin() -> None:
    same = torch.tensor([-3.0, -70.0])
    loss, chosen, rejected = dpo_loss(same, same - 5, (same, same - 5), 0.1)
    assert loss.tolist() == pytest.approx([math.log(2)] * 2)
    assert (chosen - rejected).tolist() == [0.0, 0.0]


def test_the_loss_of_a_hopeless_pair_is_finite() -> None:
    loss, *_ = dpo_loss(torch.tensor([-1e4]), torch.tensor([0.0]), (torch.tensor([0.0]), torch.tensor([-1e4])), 1.0)
    assert loss.item() == pytest.approx(2e4)


def test_implicit_reward_is_beta_times_the_log_ratio() -> None:
    assert implicit_reward(torch.tensor([-1.0]), torch.tensor([-3.0]), 0.5).item() == 1.0


def test_sums_by_sequence() -> None:
    found = sums_by_sequence(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1, 1, 0]), 3)
    assert found.tolist() == [4.0, 3.0, 0.0]


def test_token_log_probs_and_their_gradient_equal_a_plain_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpo, "_CHUNK", 3)  # several chunks, the last one cut
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(7, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    head = torch.randn(11, 5, generator=generator, dtype=torch.float64)
    targets, upstream = torch.tensor([0, 10, 3, 3, 7, 1, 2]), torch.randn(7, generator=generator)
    plain = torch.log_softmax(hidden @ head.T, dim=1).gather(1, targets[:, None])[:, 0]
    (expected,) = torch.autograd.grad(plain, hidden, upstream.double())
    ours = token_log_probs(hidden, head, targets)
    (found,) = torch.autograd.grad(ours, hidden, upstream)
    assert torch.allclose(ours.double(), plain, atol=1e-6)
    assert torch.allclose(found, expected, atol=1e-6)


def test_without_a_gradient_nothing_is_kept() -> None:
    found = token_log_probs(torch.zeros(2, 3), torch.zeros(4, 3), torch.tensor([0, 3]))
    assert found.tolist() == pytest.approx([-math.log(4)] * 2)
    assert not found.requires_grad
