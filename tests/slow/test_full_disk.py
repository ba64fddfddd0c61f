"""A full disk, wherever it strikes, is one message; with space again the same command ends as if nothing had been.

Two ways to a full disk: a limit on every file's size, which any system has, and a small file system of its own, for
which the system must let us mount one in a name space (`unshare --map-root-user --mount`).
"""

import contextlib
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launches import Launch, assert_equal_tables, complete, figures, store_rows, tables

pytestmark = pytest.mark.slow

NGRAMS = ["+scale=smoke", "router=ngrams", "logger=csv"]
ENCODER = ["+scale=smoke", "logger=csv"]
STATE = [*ENCODER, "callbacks.checkpoints=false", "trainer.checkpoint_folder=checkpoints"]


def assert_one_message(err):
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert re.search("can't be written|database or disk is full|disk I/O error", line)
    return line


def limited(folder, arguments, most_kib):
    """Return how the command ended that may let no file grow beyond `most_kib` KiB."""
    folder.mkdir(exist_ok=True)
    script = f'ulimit -f {most_kib}; exec "$@"'
    return Launch(folder, ["bash", "-c", script, "bash", sys.executable, "-m", "apm_lab", *arguments]).end()


def with_store_only(folder, arguments):
    """Let a run fill the store of `folder`, and remove the rest: what then grows is the run's own."""
    complete(folder, arguments)
    for name in ("personalization", ".claims"):
        shutil.rmtree(folder / "outputs" / name)


@pytest.mark.parametrize(
    ("arguments", "stored", "most_kib", "named"),
    [
        (NGRAMS, False, 2, "store outputs/store"),  # making it
        (NGRAMS, False, 20, "store outputs/store"),  # its shared memory
        (NGRAMS, False, 150, "store outputs/store"),  # the training users' texts
        (NGRAMS, False, 1500, "store outputs/store"),  # the test users'
        ([*NGRAMS, "users.test=200"], True, 40, "parts/draw-0000.npz"),
        ([*NGRAMS, "method=nonpersonalized", "users.test=10", "mapping.draws=400"], True, 33, "results.parquet"),
        ([*NGRAMS, "method=nonpersonalized", "users.test=100", "mapping.draws=80"], True, 33, "users.parquet"),
        (
            [*ENCODER, "callbacks.checkpoints=false", "users.train=16", "users.validation=4", "trainer.max_epochs=80"],
            True,
            33,
            "metrics.csv",
        ),
        (ENCODER, True, 100, "checkpoints/draw-0000/routing/router.safetensors"),
        (STATE, True, 100, "a file below"),  # the encoder's state, which Lightning writes to the temporary folder
    ],
    ids=[
        "store-made",
        "store-memory",
        "store-training",
        "store-test",
        "parts",
        "results",
        "users",
        "metrics",
        "checkpoint",
        "state",
    ],
)
def test_a_file_that_may_not_grow(tmp_path, arguments, stored, most_kib, named):
    folder, whole = tmp_path / "full", tmp_path / "whole"
    folder.mkdir()
    if stored:
        with_store_only(folder, arguments)
    ended = limited(folder, arguments, most_kib)
    assert ended.code == 2, ended.out + ended.err
    assert named in assert_one_message(ended.err)
    assert not list(folder.rglob("manifest.json"))
    for file in (folder / "outputs" / "store").glob("*/*.sqlite"):
        with contextlib.closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    complete(folder, arguments)
    complete(whole, arguments)
    assert_equal_tables(tables(folder), tables(whole))
    assert figures(folder) == figures(whole)
    assert store_rows(folder) == store_rows(whole)


GROWING = """
set -u
steps=$1; shift
mkdir -p outputs
mount -t tmpfs -o size=4k none outputs || exit 99
for size in $steps; do
    mount -o remount,size=${size}k outputs
    "$@" > out 2> err
    code=$?
    cp err err-$size
    [ $code = 2 ] || break
done
cat out; cat err >&2
cp -r outputs kept
exit $code
"""


def growing(folder, arguments, sizes):
    """Return how the command ended at last on a disk of the first of `sizes` (KiB), of the next when that was full, and
    so on, and what it said each time before; its outputs are kept in `folder`.
    """
    folder.mkdir(exist_ok=True)
    apart = ["unshare", "--map-root-user", "--mount"]
    probe = [*apart, "mount", "-t", "tmpfs", "none", str(folder)]
    if shutil.which("unshare") is None:
        pytest.skip("no file system can be mounted here: there is no unshare")
    if (failed := subprocess.run(probe, capture_output=True, text=True)).returncode != 0:
        pytest.skip(f"no file system can be mounted here: {failed.stderr.strip()}")
    command = [*apart, "bash", "-c", GROWING, "bash"]
    ended = Launch(folder, [*command, " ".join(map(str, sizes)), sys.executable, "-m", "apm_lab", *arguments]).end()
    said = {int(file.name[4:]): file.read_text() for file in folder.glob("err-*")}
    shutil.rmtree(folder / "outputs")
    (folder / "kept").rename(folder / "outputs")
    return ended, [said[size] for size in sorted(said)[:-1]]


def test_a_disk_that_grows_page_by_page(tmp_path):
    """The run's folder alone lies on it: each of its files in turn is the one that finds no space."""
    full, whole = tmp_path / "full", tmp_path / "whole"
    arguments = [*NGRAMS, "store.path=store"]
    ended, said = growing(full, arguments, range(4, 400, 4))
    assert ended.code == 0, ended.err
    assert len(said) > 15
    messages = [assert_one_message(err) for err in said]
    # Smaller files share a page with one of these or take one that a draft has left.
    for name in ("config.yaml", "metrics.csv", "parts/draw-0001.npz", "results.parquet"):
        assert any(name in message for message in messages), name
    complete(whole, arguments)
    assert_equal_tables(tables(full), tables(whole))
    assert figures(full) == figures(whole)
    assert store_rows(full, "store") == store_rows(whole, "store")


def test_a_disk_that_grows_by_half_holds_the_store_too(tmp_path):
    full, whole = tmp_path / "full", tmp_path / "whole"
    arguments = [*NGRAMS, "trainer.checkpoint_folder=outputs/checkpoints"]
    ended, said = growing(full, arguments, [int(20 * 1.5**step) for step in range(20)])
    assert ended.code == 0, ended.err
    assert len(said) > 5
    assert all("store outputs/store/" in assert_one_message(err) for err in said[:3])
    complete(whole, arguments)
    assert_equal_tables(tables(full), tables(whole))
    assert figures(full) == figures(whole)
    assert store_rows(full) == store_rows(whole)


def test_a_checkpoint_on_a_full_disk_is_named(tmp_path):
    full, whole = tmp_path / "full", tmp_path / "whole"
    arguments = ["+scale=smoke", "logger=csv", "store.path=store", "trainer.checkpoint_folder=outputs/state"]
    ended, said = growing(full, arguments, [100, 20_000])
    assert ended.code == 0, ended.err
    assert re.search(r"outputs/state/\w+/last.ckpt can't be written: No space left", assert_one_message(said[0]))
    complete(whole, arguments)
    assert_equal_tables(tables(full), tables(whole))
    assert figures(full) == figures(whole)
