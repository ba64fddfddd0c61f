"""The store beside plain sqlite3 and diskcache, and what planning a paper-size run takes.

    python bench/store.py            # 30,000 texts and 240,000 scores, median of three; a plan of 1.8m questions
    python bench/store.py --quick    # a third of the rows once; a plan of 0.3m

Plain sqlite3 keeps the same rows (key, source, value, tokens, checksum) in a table each for texts and scores with its
own defaults, and is written and read 2000 rows at a time, like the store; it checks nothing that it reads. diskcache
keeps key and value and is used as a dictionary, which is what it offers: it has no call for many keys. The store
verifies every checksum and keeps files of other machines in view. All read every row once, in another order than it was
written. Above 1 the store does more rows a second; `ratio` and `diskcache` are the lesser of writing and reading.
"""

import argparse
import os
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from apm_lab.data.store import Store

_AT_ONCE = 2000
_TABLE = (
    "CREATE TABLE {name} (key BLOB PRIMARY KEY, source INTEGER, value {kind}, tokens_in INTEGER, tokens_out INTEGER, "
    "checksum INTEGER)"
)
Rows = list[tuple[bytes, Any]]
Way = tuple[Callable[[str, Rows], None], Callable[[str, Sequence[bytes]], dict[bytes, Any]]]
"""How rows of one kind are written, and read."""


class Usage:
    """What an answer took."""

    tokens_in, tokens_out = 120, 200


def rows(count: int) -> dict[str, Rows]:
    """Return `count` texts of about 900 characters, and eight scores for each."""
    rng = random.Random(0)
    words = [rng.randbytes(3).hex() for _ in range(500)]
    texts = [" ".join(rng.choices(words, k=130)) for _ in range(1000)]
    return {
        "texts": [(rng.randbytes(16), f"{number} {texts[number % 1000]}") for number in range(count)],
        "scores": [(rng.randbytes(16), float(number % 10 + 1)) for number in range(8 * count)],
    }


def parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the values some at a time."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def in_store(folder: Path) -> Way:
    """Return the store's write and read."""
    store = Store(folder)
    shelves: dict[str, Any] = {"texts": store.texts.of(("generate", "m")), "scores": store.scores.of(("score", "m"))}
    usage = Usage()
    return lambda kind, part: shelves[kind].put((*row, usage) for row in part), lambda kind, keys: shelves[kind].get(
        keys
    )


def in_sqlite(folder: Path) -> Way:
    """Return plain sqlite3's write and read."""
    connection = sqlite3.connect(folder / "plain.sqlite")
    for name, kind in (("texts", "TEXT"), ("scores", "REAL")):
        connection.execute(_TABLE.format(name=name, kind=kind))

    def write(name: str, part: Rows) -> None:
        with connection:
            content = [(key, 1, value, 120, 200, 0) for key, value in part]
            connection.executemany(f"INSERT OR IGNORE INTO {name} VALUES (?, ?, ?, ?, ?, ?)", content)

    def read(name: str, keys: Sequence[bytes]) -> dict[bytes, Any]:
        marks = ",".join("?" * len(keys))
        return dict(connection.execute(f"SELECT key, value FROM {name} WHERE key IN ({marks})", keys))

    return write, read


def in_diskcache(
    folder: Path,
) -> tuple[Callable[[str, Rows], None], Callable[[str, Sequence[bytes]], dict[bytes, Any]]]:
    """Return diskcache's write and read."""
    import diskcache  # type: ignore[import-not-found]

    caches = {name: diskcache.Cache(str(folder / name)) for name in ("texts", "scores")}

    def write(name: str, part: Rows) -> None:
        for key, value in part:
            caches[name][key] = value

    def read(name: str, keys: Sequence[bytes]) -> dict[bytes, Any]:
        cache = caches[name]
        return {key: cache[key] for key in keys}

    return write, read


def rates(way: Callable[[Path], Any], content: dict[str, Rows]) -> tuple[float, float]:
    """Return rows written and read a second; every value must come back."""
    total = sum(map(len, content.values()))
    with tempfile.TemporaryDirectory() as folder:
        write, read = way(Path(folder))
        started = time.perf_counter()
        for name, values in content.items():
            for part in parts(values):
                write(name, part)
        written = time.perf_counter() - started
        wanted = {name: random.Random(1).sample(values, len(values)) for name, values in content.items()}
        started = time.perf_counter()
        for name, values in wanted.items():
            for part in parts(values):
                found = read(name, [key for key, _ in part])
                assert len(found) == len(part)
                assert found[part[0][0]] == part[0][1]
        return total / written, total / (time.perf_counter() - started)


def planning(users: int) -> tuple[int, float, float]:
    """Return the judge questions of a plan with N = M = 10 and 10 dense draws, its seconds, and its peak MB."""
    code = (
        "import resource, sys\nfrom apm_lab.experiment.cli import main\ncode = main(sys.argv[1:])\n"
        "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\nsys.exit(code)\n"
    )
    overrides = ["plan=true", "+scale=paper", "mapping=gaussian", f"users.train={users}", f"users.test={users // 4}"]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        command = [sys.executable, "-c", code, *overrides]
        done = subprocess.run(command, cwd=folder, env={**os.environ}, capture_output=True, text=True)
        took = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(done.stderr[-1000:])
    questions = re.search(r"judge .*?at most ([\d,]+)", done.stdout)
    peak = re.search(r"^peak ([\d.]+)", done.stdout, re.MULTILINE)
    assert questions is not None
    assert peak is not None
    return int(questions[1].replace(",", "")), took, float(peak[1])


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    ways: dict[str, Callable[[Path], Any]] = {"store": in_store, "sqlite3": in_sqlite}
    try:
        import diskcache  # noqa: F401

        ways["diskcache"] = in_diskcache
    except ImportError:
        print("diskcache is not installed (pip install diskcache): left out")
    content = rows(10_000 if quick else 30_000)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(1 if quick else 3):  # in turns, so that a busy minute of the machine does not fall on one alone
        for name, way in ways.items():
            found[name].append(rates(way, content))
    print(f"{'':10s} {'rows written/s':>15s} {'rows read/s':>12s}")
    for name, measured in found.items():
        written, read = (statistics.median(each[place] for each in measured) for place in (0, 1))
        print(f"{name:10s} {written:15,.0f} {read:12,.0f}")

    def ratio(peer: str) -> str:
        if peer not in found:
            return "missing"
        pairs = list(zip(found["store"], found[peer], strict=True))
        return (
            f"{min(statistics.median(ours[place] / theirs[place] for ours, theirs in pairs) for place in (0, 1)):.2f}"
        )

    questions, seconds, peak = planning(600 if quick else 4000)
    print(f"plan of {questions:,} judge questions: {seconds:.1f} s, {peak:.0f} MB")
    print(f"ratio={ratio('sqlite3')} diskcache={ratio('diskcache')} plan_s={seconds:.1f} plan_mb={peak:.0f}")


if __name__ == "__main__":
    main()
