import numpy as np
import pytest

from apm_lab.training.validation_set import ValidationSet

HISTORIES = [("a",), ("b",)]
RATINGS = np.array([[9.0, 4.0, 5.0], [2.0, 7.0, 100.0]])


def test_differences_are_to_the_mean_of_the_users_own_candidates():
    differences, known = ValidationSet(HISTORIES, np.array([0, 1]), RATINGS).differences()
    assert differences[0].tolist() == [3.0, -2.0, -1.0]
    assert known.all()


def test_missing_ratings_are_in_no_mean():
    known = np.array([[True, True, True], [True, True, False]])
    differences, mask = ValidationSet(HISTORIES, np.array([0, 1]), RATINGS, known=known).differences()
    # (2 + 7) / 2 = 4.5; the third is missing, whatever stands there.
    assert differences[1].tolist() == [-2.5, 2.5, 0.0]
    assert (mask == known).all()
    nobody = np.zeros((2, 3), dtype=bool)
    differences, mask = ValidationSet(HISTORIES, np.array([0, 1]), RATINGS * np.nan, known=nobody).differences()
    assert (differences == 0).all()
    assert not mask.any()


def test_lengths_and_shapes_must_agree():
    with pytest.raises(ValueError, match="2 validation histories"):
        ValidationSet(HISTORIES, np.array([0]), RATINGS)
    with pytest.raises(ValueError, match="2 validation histories"):
        ValidationSet(HISTORIES, np.array([0, 1]), RATINGS[:1])
    with pytest.raises(ValueError, match=r"known has shape \(3,\)"):
        ValidationSet(HISTORIES, np.array([0, 1]), RATINGS, known=np.ones(3, dtype=bool))
