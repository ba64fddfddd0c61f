import numpy as np
import pytest

from apm_lab.judging.balance import correlation, imbalance


def array(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("plus", "minus", "distance", "pearson"),
    [
        (array(1, 5, 10), array(10, 6, 1), 0.0, -1.0),  # s+ + s- = 11 on every text
        (array(8, 8), array(8, 2), (5 + 1) / 2, 0.0),  # s+ never moves
        (array(2, 4, 6), array(2, 4, 6), (7 + 3 + 1) / 3, 1.0),  # "avoid" is not heard
        (array(1, 2, 3, 4), array(4, 4, 2, 2), (6 + 5 + 6 + 5) / 4, -2 / 5**0.5),
    ],
)
def test_by_hand(plus, minus, distance, pearson):
    assert imbalance(plus, minus) == pytest.approx(distance)
    assert correlation(plus, minus) == pytest.approx(pearson, abs=1e-6)
    assert correlation(minus, plus) == correlation(plus, minus)


def test_without_texts_there_are_no_figures():
    assert imbalance(array(), array()) is correlation(array(), array()) is None
