"""Alignment as a metric: batches add up, and what has no opinion is left out."""

import numpy as np
import pytest
import torch

from apm_lab.maths.opinion import alignment, model_opinions
from apm_lab.training.opinion_metric import OpinionAlignment

RNG = np.random.default_rng(0)
REAL = np.arange(4) < RNG.integers(2, 5, size=(30, 1))
REWARDS = RNG.normal(size=(30, 4))
SHARES = model_opinions(RNG.normal(size=(30, 4)), REAL)[0]


def tensors(rows):
    return (torch.from_numpy(part[rows]) for part in (REWARDS, SHARES, REAL))


@pytest.mark.parametrize("distance", ["wasserstein", "jensen_shannon", "correlation"])
def test_batches_add_up_to_the_alignment_of_all(distance):
    metric = OpinionAlignment(distance, temperature=0.5)
    for start in range(0, 30, 7):
        metric.update(*tensors(slice(start, start + 7)))
    everywhere = np.ones(30, dtype=bool)
    model = model_opinions(REWARDS, REAL, 0.5)
    assert metric.compute().item() == pytest.approx(alignment(distance, model, (SHARES, everywhere), REAL).value.item())


def test_the_worked_case():
    metric = OpinionAlignment("wasserstein")
    p, q = [[0.1, 0.2, 0.4, 0.2, 0.1]], [[0.3, 0.3, 0.2, 0.1, 0.1]]
    real = torch.ones(1, 5, dtype=torch.bool)
    metric.update(torch.tensor(p, dtype=torch.float64).log(), torch.tensor(q, dtype=torch.float64), real)
    assert metric.compute().item() == pytest.approx(0.85)


def test_questions_without_a_reward_or_an_answer_are_left_out():
    metric = OpinionAlignment()
    rewards, shares, real = (part.clone() for part in tensors(slice(0, 30)))
    rewards[3, 0], shares[4] = torch.nan, 0.0
    metric.update(rewards, shares, real)
    assert metric.questions.item() == 28


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"rewards \(2, 3\), shares \(2, 4\)"):
        OpinionAlignment().update(torch.zeros(2, 3), torch.zeros(2, 4), torch.ones(2, 4))
