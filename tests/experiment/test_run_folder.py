"""Nothing half-written is ever read back."""

import errno

import numpy as np
import pyarrow.parquet as pq
import pytest

from apm_lab.errors import DataError
from apm_lab.experiment.run_folder import DrawParts, RunFolder, full_disk_named
from apm_lab.studies.arms import ArmDraw


def arm(shift=0.0):
    values, flags = np.array([1.0, np.nan]) + shift, np.array([True, False])
    return ArmDraw(np.array([3, -1]), values, flags, values, values, flags)


@pytest.fixture
def parts(tmp_path):
    return DrawParts(RunFolder(tmp_path))


def test_a_draw_comes_back_as_it_was_kept(parts):
    parts.save(7, {"routing[ngrams]": arm(), "mine/toy": arm(1.0)})
    found = parts.load(7)
    assert list(found) == ["routing[ngrams]", "mine/toy"]
    for name, shift in (("routing[ngrams]", 0.0), ("mine/toy", 1.0)):
        for field, array in arm(shift).arrays().items():
            np.testing.assert_array_equal(found[name].arrays()[field], array)
    assert parts.load(8) is None


@pytest.mark.parametrize("keep", [0, 10, 200, -30])
def test_a_damaged_draw_is_computed_again(parts, tmp_path, keep):
    parts.save(0, {"routing": arm()})
    file = tmp_path / "parts" / "draw-0000.npz"
    file.write_bytes(file.read_bytes()[:keep])
    assert parts.load(0) is None


def test_a_draw_that_lacks_a_field_is_computed_again(parts, tmp_path):
    (tmp_path / "parts").mkdir()
    np.savez(tmp_path / "parts" / "draw-0000.npz", **{"routing/column": np.array([1])})
    assert parts.load(0) is None


def test_a_pickle_is_never_read(parts, tmp_path):
    (tmp_path / "parts").mkdir()
    np.savez(tmp_path / "parts" / "draw-0000.npz", **{"routing/column": np.array([print], dtype=object)})
    assert parts.load(0) is None


def test_a_full_disk_is_one_message_and_leaves_the_old_file(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_text("notes.txt", "old")

    def full(draft):
        draft.write_text("ne")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DataError, match=r"notes\.txt can't be written: No space left on device; free space"):
        folder.appear("notes.txt", full)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "old"


def test_a_full_disk_is_named_whoever_was_writing():
    with (
        pytest.raises(DataError, match=r"metrics\.csv can't be written: No space left on device; free space"),
        full_disk_named(),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", "metrics.csv")
    with pytest.raises(PermissionError), full_disk_named():
        raise PermissionError(errno.EACCES, "Permission denied", "metrics.csv")


@pytest.mark.parametrize(
    ("names", "named"),
    [(("draft", None, "last.ckpt"), r"last\.ckpt"), ((), r"a file below .+ or .+")],
    ids=["copy", "write"],
)
def test_a_full_disk_names_where_a_copy_went_and_where_a_write_may_have(names, named):
    with (
        pytest.raises(DataError, match=f"^{named} can't be written: No space left on device; free space"),
        full_disk_named(),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", *names)


def test_a_table_keeps_missing_values(tmp_path):
    RunFolder(tmp_path).write_parquet("t.parquet", {"draw": [0, None], "value": [1.5, None]})
    assert pq.read_table(tmp_path / "t.parquet").to_pylist() == [
        {"draw": 0, "value": 1.5},
        {"draw": None, "value": None},
    ]
