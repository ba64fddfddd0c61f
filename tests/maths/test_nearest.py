import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apm_lab.maths.nearest import nearest


def brute(queries, rows, k):
    """Return the neighbours by sorting all products."""
    products = queries.astype(np.float64) @ rows.astype(np.float64).T
    return np.argsort(-products, axis=1, kind="stable")[:, :k]


def test_by_hand():
    rows = np.array([[1, 0], [0, 1], [0.6, 0.8], [-1, 0], [0, 1]], dtype=np.float32)
    queries = np.array([[0, 1], [1, 0], [-1, 0]], dtype=np.float32)
    # products with (0, 1): 0, 1, .8, 0, 1; with (1, 0): 1, 0, .6, -1, 0
    assert nearest(queries, rows, 3).tolist() == [[1, 4, 2], [0, 2, 1], [3, 1, 4]]
    assert nearest(queries, rows, 5)[0].tolist() == [1, 4, 2, 0, 3]


@pytest.mark.parametrize("block", [1, 7, 64, 100, 4096])
def test_the_same_as_sorting_everything_whatever_the_block(block):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((777, 12)).astype(np.float32)
    queries = rng.standard_normal((50, 12)).astype(np.float32)
    for k in (1, 3, 20, 777):
        np.testing.assert_array_equal(nearest(queries, rows, k, block), brute(queries, rows, k))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 30), st.integers(1, 5))
def test_ties_go_to_the_lowest_index(seed, count, block, width):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (count, width)).astype(np.float32)  # small whole numbers: products are exact
    queries = rng.integers(-1, 2, (6, width)).astype(np.float32)
    k = int(rng.integers(1, count + 1))
    np.testing.assert_array_equal(nearest(queries, rows, k, block), brute(queries, rows, k))


def test_many_equal_rows_and_a_zero_query_take_the_first(monkeypatch):
    monkeypatch.setattr("apm_lab.maths.nearest._QUERIES", 2)
    rows = np.ones((1000, 4), dtype=np.float32)
    queries = np.array([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=np.float32)
    assert nearest(queries, rows, 3, 128).tolist() == [[0, 1, 2]] * 3


def test_nearly_equal_rows_are_told_apart_in_float64():
    rng = np.random.default_rng(1)
    base = rng.standard_normal(1024).astype(np.float32)
    rows = np.stack([base, base, base])
    rows[2, 0] = np.nextafter(base[0], np.float32(np.inf) * np.sign(base[0]))  # longer by one unit in the last place
    for block in (1, 2, 3):
        assert nearest(base[None], rows, 3, block).tolist() == [[2, 0, 1]]


@pytest.mark.parametrize(
    ("queries", "rows", "k"), [((2, 3), (4, 2), 1), ((2,), (4, 2), 1), ((2, 3), (4, 3), 5), ((2, 3), (4, 3), 0)]
)
def test_what_does_not_fit_is_named(queries, rows, k):
    with pytest.raises(ValueError, match="expected"):
        nearest(np.zeros(queries, np.float32), np.zeros(rows, np.float32), k)
