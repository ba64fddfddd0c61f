"""RQ1 on small surveys: alignment by hand, ranks, references, temperature, and all that has no verdict."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from surveys import survey

from apm_lab.errors import DataError
from apm_lab.maths.distance import DISTANCES
from apm_lab.studies.opinions import DistanceSettings, audit_opinions, kept_groups


def audit(data, rewards, **changes):
    given = {"temperature": 1.0, "standardize": False, "min_respondents": 30, "seed": 0} | changes
    settings = given.pop("settings", DistanceSettings())
    return audit_opinions(data, np.asarray(rewards, dtype=np.float64), settings, **given)


def one_hot(*places, K=3):
    return np.eye(K)[list(places)]


def test_alignment_is_that_of_the_worked_case():
    # CHECKS.md 4: N = 5, p = (.1, .2, .4, .2, .1), q = (.3, .3, .2, .1, .1): .850, .714, .700, .776, .293
    p, q = np.array([0.1, 0.2, 0.4, 0.2, 0.1]), np.array([0.3, 0.3, 0.2, 0.1, 0.1])
    found = audit(survey([[q]]), [np.log(p)])
    values = {name: found.by_distance[name].value.item() for name in DISTANCES}
    expected = {"wasserstein": 0.85, "jensen_shannon": 0.714, "total_variation": 0.7, "euclidean": 0.776}
    assert values == pytest.approx(expected | {"correlation": 0.293}, abs=5e-4)
    assert found.distance == "wasserstein"


def test_the_nearest_group_has_rank_one_and_everybody_has_none():
    data = survey([[one_hot(0)[0]] * 4, [one_hot(1)[0]] * 4, [one_hot(2)[0]] * 4])
    found = audit(data, [[9.0, 0.0, 0.0]] * 4).by_distance["wasserstein"]
    assert found.rank.tolist() == [1.0, 2.0, 3.0]
    assert found.value == pytest.approx([1.0, 0.5, 0.0], abs=2e-3)
    assert found.overall == pytest.approx(0.5, abs=2e-3)  # everybody is a third on each choice: distance 1 of 2
    assert (found.rank_low == found.rank_high).all()  # every resample of equal questions ranks alike


def test_groups_with_too_few_people_are_left_out_and_listed():
    data = survey(np.full((3, 2, 2), 0.5), people=[29, 30, 0])
    assert kept_groups(data, 30) == ((1,), (0, 2))
    assert audit(data, np.zeros((2, 2))).small == (0, 2)
    assert kept_groups(data, 0) == ((0, 1), (2,))  # a group nobody belongs to has no opinion, whatever is asked for
    with pytest.raises(DataError, match=r"no group has 31 respondents.*the largest has 30"):
        kept_groups(data, 31)


def test_a_question_with_a_missing_reward_is_left_out_and_counted():
    data = survey(np.tile(one_hot(0)[0], (2, 3, 1)))
    rewards = np.array([[9.0, 0, 0], [np.nan, 9.0, 0], [9.0, 0, 0]])
    found = audit(data, rewards)
    assert found.unknown == 1
    assert found.by_distance["wasserstein"].questions.tolist() == [2, 2]
    assert found.by_distance["wasserstein"].value == pytest.approx([1.0, 1.0], abs=1e-3)
    with pytest.raises(DataError, match="rated no question whole"):
        audit(data, np.full((3, 3), np.nan))


def test_a_group_without_a_common_question_has_no_value_and_no_rank():
    answered = [[100, 0], [0, 100]]
    data = survey(np.full((2, 2, 2), 0.5), answered=answered)
    rewards = np.array([[1.0, 0.0], [np.nan, 0.0]])
    found = audit(data, rewards).by_distance["total_variation"]
    assert np.isnan(found.value).tolist() == [False, True]
    assert np.isnan(found.rank).tolist() == [False, True]
    assert found.questions.tolist() == [1, 0]


def test_a_survey_nothing_of_which_can_be_compared_is_refused():
    nobody = survey(np.full((2, 2, 2), 0.5), answered=np.zeros((2, 2)))
    with pytest.raises(DataError, match="no question of two choices or more has both an opinion and answers of people"):
        audit(nobody, np.zeros((2, 2)))


def test_a_question_of_one_choice_says_nothing():
    shares = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    found = audit(survey(shares, sizes=[1, 2]), np.zeros((2, 2)))
    assert all(aligned.questions.tolist() == [1] for aligned in found.by_distance.values())


def test_the_surveys_own_positions_count_when_asked_for():
    # "About the same" is listed last and lies in the middle: position 1.5 of 1..2, so half of the range away.
    positions = np.array([[1.0, 2.0, 1.5]])
    data = survey([[one_hot(2)[0]]], positions=positions)
    rewards = [[99.0, 0.0, 0.0]]
    assert audit(data, rewards).by_distance["wasserstein"].value.item() == pytest.approx(0.0)
    own = audit(data, rewards, settings=DistanceSettings(positions="dataset"))
    assert own.by_distance["wasserstein"].value.item() == pytest.approx(0.5)
    flat = survey([[one_hot(2)[0]]], positions=np.ones((1, 3)))
    nominal = audit(flat, rewards, settings=DistanceSettings(positions="dataset"))
    assert nominal.by_distance["wasserstein"].questions.tolist() == [0]
    assert nominal.by_distance["wasserstein"].overall is None


def test_without_an_order_the_distance_is_jensen_shannons_and_there_is_no_wasserstein():
    found = audit(survey(np.full((1, 2, 2), 0.5), positions=None), np.zeros((2, 2)))
    assert found.distance == "jensen_shannon"
    assert "wasserstein" not in found.by_distance


def test_flat_distributions_are_counted_where_correlation_is_taken():
    shares = np.array([[[0.5, 0.5], [0.9, 0.1]]])
    found = audit(survey(shares), [[1.0, 0.0], [1.0, 0.0]]).by_distance["correlation"]
    # The group is flat on the first question, with the group and with everybody: two pairs, each at distance sqrt(.5).
    assert found.constant == 2
    assert found.value.item() == pytest.approx((1 - np.sqrt(0.5) + 1) / 2)


def test_the_reference_rows_say_what_they_are():
    shares = np.array([[[0.6, 0.4]], [[0.4, 0.6]]])
    half = (shares, np.ones((2, 1), dtype=bool)), (shares[::-1], np.ones((2, 1), dtype=bool))
    found = audit(survey(shares, halves=lambda _rng: half), [[0.0, 0.0]])
    rows = {row.name: row for row in found.references}
    assert rows["uniform model"].mean == pytest.approx(0.9)
    assert rows["uniform model"].overall == pytest.approx(1.0)
    assert rows["a group for everybody"].least == pytest.approx(0.9)
    assert rows["half a group against the other half"].mean == pytest.approx(0.8)
    assert rows["reward model"].overall == pytest.approx(1.0)


def test_reference_rows_are_over_the_questions_that_the_model_rated():
    shares = [[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]]
    everywhere = np.ones((2, 2), dtype=bool)
    halves = (
        (np.asarray(shares), everywhere),
        (np.asarray(shares)[::-1], everywhere),
    )  # the second question divides them
    data = survey(shares, halves=lambda rng: halves)
    rows = {row.name: row for row in audit(data, [[0.0, 0.0], [np.nan, 0.0]]).references}
    assert rows["reward model"].mean == rows["uniform model"].mean == pytest.approx(1.0)
    assert rows["uniform model"].overall == rows["a group for everybody"].mean == pytest.approx(1.0)
    assert rows["half a group against the other half"].mean == pytest.approx(1.0)


def test_where_everybody_is_one_person_no_group_is_held_against_everybody():
    data = survey(np.full((1, 2, 2), 0.5), answered=[[1, 0]])
    assert {row.name for row in audit(data, np.zeros((2, 2))).references} == {"reward model", "uniform model"}


def test_scaling_rewards_moves_alignment_unless_they_are_standardized():
    rng = np.random.default_rng(0)
    data = survey(rng.dirichlet(np.ones(3), size=(4, 20)))
    rewards = rng.normal(size=(20, 3))
    plain = [audit(data, factor * rewards).by_distance["wasserstein"].overall for factor in (1.0, 5.0)]
    own = [audit(data, factor * rewards, standardize=True).by_distance["wasserstein"].overall for factor in (1.0, 5.0)]
    assert abs(plain[0] - plain[1]) > 0.02
    assert own[0] == pytest.approx(own[1])


def test_the_curve_goes_through_the_runs_own_temperature():
    rng = np.random.default_rng(1)
    data = survey(rng.dirichlet(np.ones(3), size=(5, 30)))
    found = audit(data, rng.normal(size=(30, 3)), temperature=0.7)
    own = next(step for step in found.curve if step.temperature == pytest.approx(0.7))
    assert own.overall == pytest.approx(found.by_distance["wasserstein"].overall)
    assert own.spearman == pytest.approx(1.0)
    hottest = found.curve[-1]
    assert hottest.overall == pytest.approx(found.references[1].overall, abs=0.02)  # nearly a uniform model


def test_bounds_hold_the_value_and_narrow_with_more_questions():
    rng = np.random.default_rng(2)
    widths = []
    for Q in (20, 320):
        data = survey(rng.dirichlet(np.ones(3), size=(2, Q)))
        found = audit(data, rng.normal(size=(Q, 3))).by_distance["wasserstein"]
        assert (found.low <= found.value).all() and (found.value <= found.high).all()
        widths.append((found.high - found.low).mean())
    assert widths[0] / widths[1] == pytest.approx(4.0, rel=0.35)
