import numpy as np

from apm_lab.methods.preference_pairs import PreferencePair, preference_pairs
from apm_lab.records import Style

NAN = float("nan")


def pairs(rows):
    """Return the pairs of ratings (U, T, S) in which NaN is unknown."""
    ratings = np.array(rows, dtype=float)
    return preference_pairs(ratings, ~np.isnan(ratings))


def test_best_and_worst_of_a_prompt_by_hand():
    found, dropped = pairs([[[3, 8, 1, 5], [9, 2, 4, 4]], [[5, 5, 5, 6], [1, 2, 3, 4]]])
    assert found == [
        PreferencePair(0, 0, Style(0, -1), Style(1, 1), 8.0, 1.0),
        PreferencePair(0, 1, Style(0, 1), Style(0, -1), 9.0, 2.0),
        PreferencePair(1, 0, Style(1, -1), Style(0, 1), 6.0, 5.0),
        PreferencePair(1, 1, Style(1, -1), Style(0, 1), 4.0, 1.0),
    ]
    assert dropped == 0


def test_ties_go_to_the_lowest_style_also_where_only_rounding_parts_them():
    found, _ = pairs([[[2, 7, 2 - 1e-12, 7 + 1e-12]]])
    assert (found[0].chosen, found[0].rejected) == (Style(0, -1), Style(0, 1))


def test_equal_ratings_and_too_few_known_ones_give_no_pair_and_are_counted():
    found, dropped = pairs([[[4, 4, 4, 4 + 1e-12], [NAN, 3, NAN, NAN]], [[NAN] * 4, [NAN, 3, NAN, 2]]])
    assert [(pair.user, pair.turn, pair.chosen.index, pair.rejected.index) for pair in found] == [(1, 1, 1, 3)]
    assert dropped == 3


def test_what_stands_in_an_unknown_rating_has_no_part():
    ratings = np.array([[[100.0, 3.0, 2.0, -100.0]]])
    found, _ = preference_pairs(ratings, np.array([[[False, True, True, False]]]))
    assert (found[0].chosen_rating, found[0].rejected_rating) == (3.0, 2.0)
