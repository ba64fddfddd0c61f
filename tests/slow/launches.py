"""Launches of the command line in processes of their own, and what they leave behind, for tests."""

import contextlib
import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

MOST_S = 600  # a launch that takes longer hangs


@dataclass
class Ended:
    """A launch that has ended: exit code, what it printed, and how long it took."""

    code: int
    out: str
    err: str
    seconds: float


class Launch:
    """`command` running in `folder` as the head of its own process group; its output goes to files, never to a pipe.

    A pipe would stay open for as long as any process that the command has started.
    """

    def __init__(self, folder, command, **options):
        self._files = [Path(folder) / f".{name}-{time.monotonic_ns()}" for name in ("out", "err")]
        self._begun = time.monotonic()
        with self._files[0].open("w") as out, self._files[1].open("w") as err:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment(), stdout=out, stderr=err, start_new_session=True, **options
            )

    def seconds(self):
        """Return how long ago it began."""
        return time.monotonic() - self._begun

    def end(self):
        """Return how it ended by itself."""
        try:
            code = self.process.wait(MOST_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return Ended(code, *(file.read_text() for file in self._files), self.seconds())

    def kill(self):
        """Kill the whole group and return whether the head was still alive."""
        alive = self.process.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return alive


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"}


def launch(folder, arguments, **options):
    folder.mkdir(parents=True, exist_ok=True)
    return Launch(folder, [sys.executable, "-m", "apm_lab", *arguments], **options)


def complete(folder, arguments, **options):
    """Return how the command ended in `folder`, which must be well."""
    ended = launch(folder, arguments, **options).end()
    assert ended.code == 0, ended.err[-3000:]
    assert "Traceback" not in ended.err
    return ended


def draws(folder):
    """Return how many draws are finished, in all runs."""
    return len(list(folder.glob("outputs/personalization/*/*/parts/draw-*.npz")))


def claimed_by(folder, process):
    """Return whether some run is claimed by this process (a claim's lock and its drafts have longer names)."""
    files = [file for file in folder.glob("outputs/.claims/*") if len(file.name) == 32]
    return any(json.loads(file.read_text()).get("pid") == process.pid for file in files)


def wait_for(begun, reached):
    """Wait until `reached()`, or until the launch has ended."""
    while begun.process.poll() is None and not reached():
        time.sleep(0.005)


def tables(folder):
    """Return {identity: (results, users)} of all finished runs below `folder`."""
    found = {}
    for file in (folder / "outputs" / "personalization").rglob("manifest.json"):
        identity = json.loads(file.read_text())["identity"]
        assert identity not in found, f"{file}: computed twice"
        found[identity] = tuple(pq.read_table(file.parent / f"{name}.parquet") for name in ("results", "users"))
    return found


def assert_equal_tables(found, expected):
    """Every run, value for value; `nan` equals `nan`."""
    assert set(found) == set(expected)
    for identity, pair in expected.items():
        for one, other in zip(found[identity], pair, strict=True):
            assert one.num_rows == other.num_rows > 0
            assert one.schema == other.schema
            for name in other.column_names:
                assert repr(one[name].to_pylist()) == repr(other[name].to_pylist()), (identity, name)


def figures(folder):
    """Return what the `metrics.csv` of all runs say; a draw that was begun again says the same again."""
    found = {}
    for file in folder.glob("outputs/personalization/*/*/metrics.csv"):
        with file.open(newline="") as handle:
            head, *lines = csv.reader(handle)
        assert head == ["step", "name", "value"]
        for step, name, value in lines:
            assert found.setdefault((file.parent.name[-8:], step, name), float(value)) == float(value)
    return found


def store_rows(folder, name="outputs/store"):
    """Return everything in the store of `folder`, having checked that SQLite finds it intact."""
    found = {}
    for file in sorted((folder / name).glob("*/*.sqlite")):
        with contextlib.closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            query = "SELECT key, header, value, rows.tokens_in, checksum FROM rows JOIN sources ON id = source"
            found[file.stem] = sorted(connection.execute(query))
    assert set(found) == {"texts", "scores"}
    assert not list((folder / name).rglob("*damaged*"))
    return found
