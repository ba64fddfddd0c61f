"""A run that is killed again and again ends with the figures of one that never was.

Moments are random, but counted from what the launch itself has reached (its start, its claim, a further finished draw):
counted in seconds from the start alone they miss the work as soon as the machine is busier or quieter than it was.
"""

import random
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from launches import (
    Launch,
    assert_equal_tables,
    claimed_by,
    complete,
    draws,
    figures,
    launch,
    store_rows,
    tables,
    wait_for,
)

pytestmark = pytest.mark.slow

# More draws than the smoke size has: ten launches that are killed within a few draws must not reach the end.
SINGLE = ["+scale=smoke", "mapping.draws=24"]
MULTIRUN = [
    *("method=routing,routing_oracle", "mapping=signed_permutation,gaussian", "-m"),
    *("+scale=smoke", "mapping.draws=10"),
]
KILLS = ["start"] * 2 + ["claim"] * 3 + ["draw"] * 5


def unbroken(folder, arguments):
    """Return how many draws there are, and the seconds to a claim, from there to a draw, and on to each further one."""
    begun = launch(folder, arguments)
    wait_for(begun, lambda: claimed_by(folder, begun.process))
    claim = begun.seconds()
    wait_for(begun, lambda: draws(folder) > 0)
    first = begun.seconds()
    ended = begun.end()
    assert ended.code == 0, ended.err[-3000:]
    count = draws(folder)
    return count, {"start": claim, "claim": first - claim, "draw": (ended.seconds - first) / count}


def kill(folder, arguments, kind, most_draws, lengths, rng):
    """Launch, kill at a moment of that kind, and return whether the command was still running.

    A launch that finishes one draw more than it was meant to is killed there: the last jobs of a multirun are quick.
    """
    wanted = rng.randint(1, most_draws) if kind == "draw" else 0
    goal = draws(folder) + wanted
    begun = launch(folder, arguments)
    if kind != "start":
        wait_for(begun, lambda: claimed_by(folder, begun.process))
    wait_for(begun, lambda: draws(folder) >= goal)
    moment = begun.seconds() + rng.uniform(0, lengths[kind])
    wait_for(begun, lambda: begun.seconds() >= moment or draws(folder) > goal)
    return begun.kill()


# Seeds with which the kills reach three quarters of the draws, each launch one too far, and leave work for the last.
@pytest.mark.parametrize(("arguments", "seed"), [(SINGLE, 0), (MULTIRUN, 14)], ids=["single", "multirun"])
def test_ten_kills_at_random_moments_change_nothing(tmp_path, arguments, seed):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    count, lengths = unbroken(whole, arguments)
    rng, alive, finished = random.Random(seed), [], []
    for kind in rng.sample(KILLS, len(KILLS)):
        alive.append(kill(killed, arguments, kind, count // 6, lengths, rng))
        finished.append(draws(killed))
        print(f"{kind}: {'killed' if alive[-1] else 'had ended'} with {finished[-1]} of {count} draws finished")
    assert sum(alive) >= 8
    assert len(set(finished)) > 2, "the kills did not fall among the draws"
    assert "continuing the run that was interrupted" in complete(killed, arguments).out or not alive[-1]
    assert_equal_tables(tables(killed), tables(whole))
    assert store_rows(killed) == store_rows(whole)
    assert figures(killed) == figures(whole)
    assert "skipped: this run is done already" in complete(killed, arguments).out


STRUCK = Path(__file__).with_name("struck.py")
NGRAMS = ["+scale=smoke", "router=ngrams", "logger=csv"]
CHECKPOINTS = ["+scale=smoke", "logger=csv", "trainer.checkpoint_folder=checkpoints"]


def struck(folder, arguments, *at):
    """Return how the command ended that dies at a step, and the steps that it took."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(STRUCK), "steps.txt", *at, "--", *arguments]
    ended = Launch(folder, command).end()
    return ended, (folder / "steps.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("arguments", "about"), [(NGRAMS, "outputs"), (CHECKPOINTS, "checkpoints")], ids=["outputs", "checkpoints"]
)
def test_a_kill_at_every_step_on_files_changes_nothing(tmp_path, arguments, about):
    """One run, killed in turn just before every kind of step that it takes, each time continued as far as the next."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    ended, steps = struck(whole, arguments)
    assert ended.code == 0, ended.err
    steps = [name for name in dict.fromkeys(steps) if about in name]
    assert len(steps) > (20 if about == "outputs" else 4)
    for name in steps:
        ended, _ = struck(killed, arguments, name)
        assert ended.code == -signal.SIGKILL, (name, ended.out, ended.err)
    complete(killed, arguments)
    assert_equal_tables(tables(killed), tables(whole))
    assert store_rows(killed) == store_rows(whole)
    assert figures(killed) == figures(whole)
