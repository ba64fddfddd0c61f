import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from apm_lab.errors import ConfigError
from apm_lab.maths.labels import STRATEGIES, class_labels, decode, mean_ratings, usable_users
from apm_lab.records import Style

CLASSES = [name for name in STRATEGIES if name != "regression"]
tables = arrays(np.float64, st.tuples(st.integers(1, 4), st.sampled_from([2, 6])), elements=st.integers(1, 10))


@pytest.mark.parametrize(
    ("rho", "margin", "two_sided", "one_sided"),
    [
        # follow 0, avoid 0, follow 1, avoid 1
        ([8, 3, 2, 9], 3, 3, 3),
        ([8, 7.5, 6, 3], 2, 0, 0),
        ([5, 6, 4, 4.5], 1, 1, 3),
        ([5.5, 5.5, 5.5, 5.5], 0, 0, 0),
        ([5, 5, 5, 5], 0, 0, 1),
        ([3, 6, 9, 6], 1, 2, 2),
    ],
)
def test_labels_by_hand(rho, margin, two_sided, one_sided):
    assert [int(class_labels(name, [rho])[0]) for name in CLASSES] == [margin, two_sided, one_sided]


@pytest.mark.parametrize("M", [2, 4, 6, 8, 10])
@pytest.mark.parametrize("strategy", CLASSES)
def test_label_space_is_two_styles_a_principle(strategy, M):
    styles = [Style(j, direction) for j in range(M) for direction in (1, -1)]
    rho = np.full((2 * M, 2 * M), 5.5)
    for u, style in enumerate(styles):
        rho[u, 2 * style.principle + (style.direction < 0)] = 9
        rho[u, 2 * style.principle + (style.direction > 0)] = 2
    labels = class_labels(strategy, rho)
    assert labels.tolist() == [style.index for style in styles] == list(range(2 * M))


@pytest.mark.parametrize("strategy", CLASSES)
def test_ties_go_to_the_lowest_index_whatever_the_last_bit(strategy):
    tied = [[8.0, 3.0, 8.0, 3.0]]
    rounded = [[8.0, 3.0, 8.0 + 1e-12, 3.0 - 1e-12]]
    assert class_labels(strategy, tied).tolist() == class_labels(strategy, rounded).tolist() == [0]


def test_a_sign_of_zero_within_rounding_counts_as_follow():
    assert class_labels("margin", [[5.0, 5.0 + 1e-12]]).tolist() == [0]
    assert class_labels("one_sided", [[5.5 - 1e-12, 3.0]]).tolist() == [0]


@given(rho=tables)
def test_opposite_preferences_flip_the_margin_label(rho):
    label, opposite = class_labels("margin", rho), class_labels("margin", 11 - rho)
    margins = np.abs(rho[:, ::2] - rho[:, 1::2]).max(1)
    assert (np.where(margins > 0, opposite ^ 1, opposite) == label).all()


@given(rho=tables)
def test_two_sided_takes_a_best_candidate(rho):
    label = class_labels("two_sided", rho)
    assert (rho[np.arange(len(rho)), label] == rho.max(1)).all()


@given(rho=tables)
def test_one_sided_never_reads_the_avoid_candidates(rho):
    other = rho.copy()
    other[:, 1::2] = np.nan
    assert (class_labels("one_sided", rho) == class_labels("one_sided", other)).all()


def test_regression_learns_the_ratings_themselves():
    rho = np.array([[8.0, 3.0], [2.0, 9.0]])
    targets = class_labels("regression", rho)
    assert (targets == rho).all()
    targets[0, 0] = 0
    assert rho[0, 0] == 8


def test_decoding_is_the_lowest_argmax_for_every_strategy():
    for strategy in STRATEGIES:
        assert decode(strategy, [[1, 3, 3, 0], [-5, -4, -3, -1]]).tolist() == [1, 3]
    with pytest.raises(ValueError, match="finite"):
        decode("margin", [[np.nan, 1.0]])


def test_mean_over_known_prompts():
    values = [[[8, 3], [6, np.nan]], [[np.nan, 5], [np.nan, 7]]]
    mean, known = mean_ratings(values, np.isfinite(values))
    assert mean[0].tolist() == [7, 3]
    assert known.tolist() == [[True, True], [False, True]]
    assert np.isnan(mean[1, 0])
    assert mean[1, 1] == 6


def test_users_with_unknown_ratings_are_left_out():
    known = np.array([[True, True, True, True], [True, False, True, True], [True, True, False, True]])
    assert usable_users("margin", known).tolist() == [True, False, False]
    assert usable_users("regression", known).tolist() == [True, False, False]
    assert usable_users("one_sided", known).tolist() == [True, True, False]
    with pytest.raises(ValueError, match="1 of 2 users have unknown ratings"):
        class_labels("margin", [[1, 2], [np.nan, 2]])


def test_wrong_names_and_shapes_are_refused():
    for call in (class_labels, usable_users, decode):
        with pytest.raises(ConfigError, match=r"method\.label=two-sided.*did you mean two_sided"):
            call("two-sided", np.ones((1, 2)))
        with pytest.raises(ValueError, match="two styles a principle"):
            call("margin", np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"expected \(U, T, S\)"):
        mean_ratings(np.ones((1, 2)), np.ones((1, 2)))
