"""Launches at the same time: of one command, and of different ones that share a store."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launches import assert_equal_tables, complete, draws, launch, store_rows, tables, wait_for

pytestmark = pytest.mark.slow

ROUTER = ["+scale=smoke", "logger=csv"]
SWEEP = [*ROUTER, "router=ngrams", "-m", "users.active=1,2", "mapping=signed_permutation,gaussian"]
SKIPPED = re.compile(r"^skipped: (process \d+ on \S+ is computing this run in|this run is done already, .* in) (\S+)$")
MOST_BUSY = 6


def outcomes(out):
    """Return (folders computed, folders said to be computed or done elsewhere) as the launch printed them."""
    skipped = [match[2] for line in out.splitlines() if (match := SKIPPED.match(line))]
    assert len(skipped) == out.count("skipped: "), out
    return re.findall(r"^results: (\S+)", out, re.MULTILINE), skipped


@pytest.mark.parametrize("interrupted", [False, True], ids=["fresh", "interrupted"])
@pytest.mark.parametrize(("arguments", "jobs"), [(ROUTER, 1), (SWEEP, 4)], ids=["single", "multirun"])
def test_six_launches_at_once_are_one_run_and_five_skips(tmp_path, arguments, jobs, interrupted):
    """Every job is computed by one launch, and each of the others says who computes it or where its results are."""
    together, alone = tmp_path / "together", tmp_path / "alone"
    complete(alone, arguments)
    if interrupted:
        first = launch(together, arguments)
        wait_for(first, lambda: draws(together) > jobs // 2)
        assert first.kill(), "the launch ended before it was killed"
    begun = [launch(together, arguments) for _ in range(MOST_BUSY)]
    ended = [one.end() for one in begun]
    assert [one.code for one in ended] == [0] * MOST_BUSY, [one.err for one in ended]
    assert all("error" not in one.err and "Traceback" not in one.err for one in ended)
    found = [outcomes(one.out) for one in ended]
    computed = [folder for results, _ in found for folder in results]
    assert len(computed) == len(set(computed))
    assert all(len(results) + len(skipped) == jobs for results, skipped in found)
    assert {folder for _, skipped in found for folder in skipped} >= set(computed)
    assert len(computed) == jobs or interrupted
    assert_equal_tables(tables(together), tables(alone))
    assert store_rows(together) == store_rows(alone)


def test_two_overlapping_multiruns_at_once_share_a_store(tmp_path):
    """Each has jobs of its own and one in common, which one of them computes."""
    grids = [["mapping=signed_permutation,gaussian", "seed=0"], ["mapping=gaussian", "seed=0,1"]]
    together, alone = tmp_path / "together", tmp_path / "alone"
    begun = [launch(together, [*ROUTER, "-m", *grid]) for grid in grids]
    ended = [one.end() for one in begun]
    assert [one.code for one in ended] == [0, 0], [one.err for one in ended]
    for grid in grids:
        complete(alone, [*ROUTER, "-m", *grid])
    assert len(tables(alone)) == 3
    assert_equal_tables(tables(together), tables(alone))
    assert store_rows(together) == store_rows(alone)
    assert sorted(len(outcomes(one.out)[0]) for one in ended) == [1, 2]
    for one, grid in zip(ended, grids, strict=True):
        assert "2 jobs" in one.out
        summary = together / re.search(r"^summary: (\S+)", one.out, re.MULTILINE)[1]
        lines = summary.read_text().splitlines()
        assert len(lines) == 3
        assert all(part in lines[-1] for part in (grid[0].split(",")[-1], f"seed={grid[1][-1]}"))
