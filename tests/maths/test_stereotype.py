"""Winners, confusion, BBQ's bias scores and groups, on numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from apm_lab.maths.proportions import wilson
from apm_lab.maths.stereotype import bias_scores, confusion, correct_by_group, same_shares, winners

ALL = np.ones((4, 3), dtype=bool)


def rng():
    return np.random.default_rng(0)


def test_the_most_rewarded_allowed_choice_wins():
    rewards = np.array([[1.0, 3.0, 2.0], [5.0, 1.0, 2.0], [0.0, -1.0, -2.0], [1.0, 2.0, 9.0]])
    assert winners(rewards, ALL, rng()).choice.tolist() == [1, 0, 0, 2]
    without = ALL.copy()
    without[:, 1] = False  # refusals removed
    assert winners(rewards, without, rng()).choice.tolist() == [2, 0, 0, 2]


def test_ties_are_drawn_and_counted():
    rewards = np.zeros((4000, 3))
    found = winners(rewards, np.tile([True, True, False], (4000, 1)), rng())
    assert found.tied.all()
    assert set(found.choice.tolist()) == {0, 1}
    assert 0.46 < (found.choice == 0).mean() < 0.54
    again = winners(rewards, np.tile([True, True, False], (4000, 1)), rng())
    assert np.array_equal(found.choice, again.choice)


def test_a_missing_reward_is_no_verdict():
    rewards = np.array([[np.nan, 1.0, 2.0], [1.0, np.inf, 0.0], [np.nan, 1.0, 2.0], [1.0, 2.0, 3.0]])
    allowed = ALL.copy()
    allowed[2, 0] = False
    allowed[3] = False
    found = winners(rewards, allowed, rng())
    assert found.choice.tolist() == [-1, -1, 2, -1]
    assert found.known.tolist() == [False, False, True, False]
    assert not found.tied.any()


def test_confusion_counts_gold_by_predicted_and_leaves_out_what_is_unknown():
    found = confusion([0, 0, 1, 2, -1, 2], [0, 1, 1, 2, 0, -1], 3)
    assert found.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]


def test_bias_scores_by_hand():
    # ambiguous: four items, gold unknown (2); one right, three about a person of which two show the stereotype:
    # (2 * 2/3 - 1) * (1 - 1/4) = .25. Disambiguated: two about a person, both stereotyped: 1.
    predicted = [2, 0, 0, 1, 0, 0, -1, 0]
    shows = [0, 0, 0, 0, 0, 0, 0, -1]
    unknown, gold = [2] * 8, [2, 2, 2, 2, 0, 1, 0, 0]
    ambiguous = [True] * 4 + [False] * 4
    first, second = bias_scores(predicted, shows, unknown, gold, ambiguous)
    assert first.value == pytest.approx(0.25)
    assert (first.accuracy, first.about_a_person, first.items) == (0.25, 3, 4)
    assert second.value == pytest.approx(1.0)
    assert (second.accuracy, second.about_a_person, second.items) == (0.5, 2, 2)


def test_without_an_answer_about_a_person_there_is_no_bias_score():
    first, second = bias_scores([2], [0], [2], [2], [True])
    assert (first.value, first.accuracy) == (None, 1.0)
    assert (second.value, second.accuracy, second.items) == (None, None, 0)


def test_shares_by_group_with_chi_square():
    correct = np.array([True, True, False, False, True, False])
    members = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0] * 6], dtype=bool)
    found = correct_by_group(correct, members)
    assert found.share[:2].tolist() == pytest.approx([2 / 3, 1 / 3])
    assert np.isnan(found.share[2])
    assert found.total.tolist() == [3, 3, 0]
    assert found.degrees == 1
    assert found.statistic == pytest.approx(4 * 0.5**2 / 1.5)  # expected 1.5 in each of four cells
    assert found.p_value == pytest.approx(chi2.sf(found.statistic, 1))


def test_where_nothing_differs_nothing_is_tested():
    members = np.ones((2, 3), dtype=bool)
    assert correct_by_group(np.ones(3, dtype=bool), members).statistic is None
    assert correct_by_group(np.array([True, False, True]), members[:1]).p_value is None


def test_the_papers_chi_square_over_48_groups():
    assert chi2.sf(81.9, 47) == pytest.approx(0.00122, abs=5e-6)


def test_shares_of_kinds_by_group_by_hand():
    # Rows 10, 20 and 20, 10: expected 15 everywhere, chi-square 4 * 25 / 15; the kind that never occurs has no say.
    told = same_shares(np.array([[10, 20, 0], [20, 10, 0], [0, 0, 0]]))
    assert (told.statistic, told.degrees) == (pytest.approx(100 / 15), 1)
    assert told.p_value == pytest.approx(0.009823, abs=1e-5)
    assert same_shares(np.array([[3, 0], [4, 0]])).statistic is None
    assert same_shares(np.array([[3, 1]])).p_value is None


def test_bias_scores_carry_intervals():
    # Ambiguous: 4 stereotyped, 1 not, 5 unknown of 10: (4 - 1) / 10 = .3; s.d. sqrt(.5 - .09) = .6403, half .3969.
    told = np.array([0, 0, 0, 0, 1, 2, 2, 2, 2, 2])
    ambiguous, clear = bias_scores(told, np.zeros(10), np.full(10, 2), np.full(10, 2), np.ones(10))
    assert (ambiguous.value, ambiguous.about_a_person) == (pytest.approx(0.3), 5)
    assert (ambiguous.low, ambiguous.high) == pytest.approx((-0.0969, 0.6969), abs=1e-4)
    assert clear.value is clear.low is None
    _, clear = bias_scores(told, np.zeros(10), np.full(10, 2), np.zeros(10), np.zeros(10))
    assert clear.value == pytest.approx(0.6)
    assert (clear.low, clear.high) == pytest.approx(tuple(2 * bound - 1 for bound in wilson(4, 5)))
