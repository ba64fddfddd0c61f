"""Opinions of models and groups, and their alignment: hand-worked, and what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from apm_lab.errors import ConfigError
from apm_lab.maths.opinion import alignment, group_opinions, model_opinions, reward_sd

REAL = np.array([[True, True, True], [True, True, False]])


def test_a_models_opinion_is_the_softmax_of_its_rewards():
    found, known = model_opinions([[np.log(1.0), np.log(2.0), np.log(5.0)], [0.0, 0.0, 99.0]], REAL)
    assert np.allclose(found, [[0.125, 0.25, 0.625], [0.5, 0.5, 0.0]])
    assert known.all()


def test_a_shift_changes_nothing_and_a_scale_does():
    rewards = np.array([[0.1, -0.4, 2.0], [1.0, 0.0, 0.0]])
    plain, _ = model_opinions(rewards, REAL)
    assert np.allclose(model_opinions(rewards + 1e3, REAL)[0], plain)
    assert not np.allclose(model_opinions(rewards * 2, REAL)[0], plain)
    assert np.allclose(model_opinions(rewards, REAL, temperature=0.5)[0], model_opinions(rewards * 2, REAL)[0])


def test_huge_rewards_overflow_nothing():
    found, known = model_opinions([[1e300, 0.0, -1e300], [-1e8, -1e8, 0.0]], REAL)
    assert np.allclose(found, [[1, 0, 0], [0.5, 0.5, 0]])
    assert known.all()
    found, known = model_opinions([[1.7e308, -1.7e308, 0.0], [1.0, 0.0, 0.0]], REAL, temperature=1e-320)
    assert np.allclose(found, [[1, 0, 0], [1, 0, 0]])
    assert known.all()


def test_a_reward_that_is_no_number_leaves_its_question_out():
    found, known = model_opinions([[np.nan, 1.0, 2.0], [1.0, 1.0, np.nan]], REAL)
    assert known.tolist() == [False, True]  # the second one's third choice is not real
    assert found.tolist() == [[0, 0, 0], [0.5, 0.5, 0]]
    assert model_opinions([[np.inf, 1.0, 2.0], [1.0, 1.0, 0.0]], REAL)[1].tolist() == [False, True]


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_a_temperature_must_be_above_zero(temperature):
    with pytest.raises(ConfigError, match=r"reward_model.temperature"):
        model_opinions(np.zeros((2, 3)), REAL, temperature)


def test_the_spread_of_rewards_counts_real_and_finite_ones():
    assert reward_sd([[1.0, 3.0, np.nan], [1.0, 3.0, 50.0]], REAL) == pytest.approx(1.0)
    assert reward_sd(np.ones((2, 3)), REAL) == 1.0
    assert reward_sd(np.empty((0, 3)), REAL[:0]) == 1.0


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_the_spread_of_huge_and_tiny_rewards_is_in_their_own_scale(scale):
    rewards = np.array([[1.0, 3.0, np.nan], [1.0, 3.0, np.inf]])
    assert reward_sd(rewards * scale, REAL) / scale == pytest.approx(1.0)


ANSWERS = np.array([[0, 1], [0, -1], [2, 0], [1, 1]])
MEMBERS = np.array([[True, True, True, True], [True, False, True, False], [False, False, False, False]])


def test_a_groups_opinion_is_the_share_of_its_answers():
    found, answered = group_opinions(ANSWERS, None, MEMBERS, 3)
    assert np.allclose(found[0], [[0.5, 0.25, 0.25], [1 / 3, 2 / 3, 0]])
    assert np.allclose(found[1], [[0.5, 0, 0.5], [0.5, 0.5, 0]])
    assert answered.tolist() == [[4, 3], [2, 2], [0, 0]]
    assert np.allclose(found[2], 0)  # nobody belongs to it


def test_survey_weights_weigh_by_person_or_by_question():
    found, _ = group_opinions(ANSWERS, [1.0, 1.0, 2.0, 0.0], MEMBERS, 3)
    assert np.allclose(found[0], [[0.5, 0, 0.5], [2 / 3, 1 / 3, 0]])
    waves = np.array([[1.0, 4.0], [1.0, 1.0], [2.0, 1.0], [0.0, 1.0]])
    assert np.allclose(group_opinions(ANSWERS, waves, MEMBERS, 3)[0][0][1], [1 / 6, 5 / 6, 0])
    assert np.isfinite(group_opinions(ANSWERS, np.zeros(4), MEMBERS, 3)[0]).all()


def test_alignment_is_the_mean_over_the_questions_that_both_sides_have():
    one = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), np.array([True, True])
    other = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), np.array([True, True])
    found = alignment("wasserstein", one, other, REAL)
    assert (found.value, found.questions) == (0.5, 2)
    without = alignment("wasserstein", one, (other[0], np.array([False, True])), REAL)
    assert (without.value, without.questions) == (1.0, 1)
    assert without.by_question.tolist() == [0.0, 1.0]
    nothing = alignment("wasserstein", one, (other[0], np.array([False, False])), REAL)
    assert (nothing.value, nothing.questions) == (0.0, 0)


def test_a_question_whose_ordinals_are_equal_has_no_alignment():
    uniform = np.array([[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0]]), np.array([True, True])
    positions = np.array([[0.0, 1.0, 2.0], [4.0, 4.0, 0.0]])
    found = alignment("wasserstein", uniform, uniform, REAL, positions)
    assert found.counted.tolist() == [True, False]
    assert (found.value, found.questions) == (1.0, 1)


def test_seven_models_against_sixty_groups_at_once():
    rng = np.random.default_rng(0)
    real = np.arange(5) < rng.integers(2, 6, size=(40, 1))
    models = model_opinions(rng.normal(size=(7, 1, 40, 5)), real)
    groups = model_opinions(rng.normal(size=(60, 40, 5)), real)
    found = alignment("jensen_shannon", models, groups, real)
    assert found.value.shape == (7, 60)
    assert ((found.value > 0) & (found.value < 1)).all()
