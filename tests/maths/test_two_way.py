import numpy as np
import pytest

from apm_lab.maths.two_way import standard_error, two_way

NAN = np.nan


def table(values, blocks):
    return two_way(values, np.isfinite(values), blocks)


def test_means_by_hand():
    t = table([[1, 2, 3], [3, 4, 5], [0, 0, 3], [2, 2, 5]], ["a", "a", "b", "b"])
    assert t.draw_means.tolist() == [2, 4, 1, 3]
    assert t.user_means.tolist() == [1.5, 2, 4]
    assert t.block_means().tolist() == [3, 2]
    assert t.block_means(np.array([1.0, 2, 3, 4])).tolist() == [1.5, 3.5]
    assert (t.blocks, t.users, t.note) == (2, 3, "")


def test_unknown_values_have_no_part():
    t = table([[1, 2, NAN], [3, NAN, NAN]], [0, 1])
    assert t.draw_means.tolist() == [1.5, 3]
    assert t.user_means.tolist() == [2, 2]  # the third user is left out
    assert (t.users, t.dropped) == (2, 0)


def test_a_block_with_an_unknown_draw_is_left_out_whole():
    t = table([[1, 2], [3, 4], [5, 6], [NAN, NAN]], [7, 7, 9, 9])
    assert t.block_means().tolist() == [2.5]
    assert (t.blocks, t.dropped) == (1, 1)
    assert t.note == "for these draws; 1 block(s) left out: a draw without a known value"


def test_nothing_known():
    t = table([[NAN, NAN]], [0])
    assert (t.blocks, t.users) == (0, 0)
    assert t.note.startswith("no known value")
    assert len(t.block_means()) == 0


def test_standard_error():
    assert standard_error(np.array([2.0, 4.0])) == pytest.approx(1)
    assert np.isnan(standard_error(np.array([2.0])))


@pytest.mark.parametrize(
    ("values", "known", "blocks", "message"),
    [
        ([[1.0, 2.0]], [[True]], [0], r"values \(1, 2\), known \(1, 1\), blocks \(1,\)"),
        ([[1.0, 2.0]], [[1, 1]], [0], "expected bool"),
        ([[1.0], [2.0], [3.0]], [[True]] * 3, [0, 0, 1], r"blocks have \[1, 2\] draws"),
        ([[np.inf]], [[True]], [0], "isn't finite"),
    ],
)
def test_bad_tables_are_refused(values, known, blocks, message):
    with pytest.raises(ValueError, match=message):
        two_way(values, known, blocks)
