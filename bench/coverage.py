"""The table of docs/statistics.md: how often the two-way interval holds the truth, and how wide it is.

    python bench/coverage.py [--quick] [--jobs N]

A t interval on the draw means alone, which forgets that draws share their users, stands beside it in the last line.
"""

import argparse
import itertools
import math
import os
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from apm_lab.maths.power import Coverage, simulate_coverage
from apm_lab.maths.seeding import stream

SETTINGS = list(itertools.product((3, 4, 10), (0.0, 0.25), (False, True)))
REPETITIONS = 20_000


def simulated(setting: tuple[int, float, bool], repetitions: int) -> Coverage:
    """Return the coverage at one setting."""
    return simulate_coverage(*setting, repetitions, seed=0)


def row(found: Coverage) -> str:
    """Return a row of the table, figures as the docs print them."""
    sd = f"{found.sd_draw:.2f}".lstrip("0").replace(".00", "0")
    shares = [f"{share:.3f}".lstrip("0") for share in (found.at_95, found.at_999)]
    return f"| {found.blocks} | {sd} | {'yes' if found.shared else 'no'} | {' | '.join(shares)} | {found.width:.2f} |"


def coverage_of_draw_means(repetitions: int, blocks: int = 10, users: int = 1000, sd_user: float = 3.0) -> float:
    """Return how often a 95% t interval on `blocks` draw means holds 0 where the draws differ by next to nothing.

    The users' noise is shared, and each draw adds a hundredth of its variance of its own.
    """
    from scipy.special import stdtrit

    rng, error = stream(0, "draw means alone"), sd_user / math.sqrt(users)
    means = error * (rng.standard_normal((repetitions, 1)) + 0.1 * rng.standard_normal((repetitions, blocks)))
    half = stdtrit(blocks - 1, 0.975) * means.std(axis=1, ddof=1) / math.sqrt(blocks)
    return float((np.abs(means.mean(axis=1)) <= half).mean())


def main() -> None:
    """Print the table; the last line is `ratio=...`: the two-way interval's least coverage over the naive one's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    repetitions = 500 if asked.quick else REPETITIONS
    print("| blocks | s.d. between draws | user noise shared by draws | at 95% | at 99.9% | width |")
    print("|---|---|---|---|---|---|")
    least, widest = 1.0, 0.0
    with ProcessPoolExecutor(asked.jobs) as pool:
        for found in pool.map(simulated, SETTINGS, itertools.repeat(repetitions)):
            print(row(found), flush=True)
            least = min(least, found.at_95)
            widest = max(widest, found.width if found.blocks == 10 else 0.0)
    naive = coverage_of_draw_means(repetitions)
    print(
        f"ratio={least / naive:.1f} least_at_95={least:.4f} draw_means_alone={naive:.3f} width_10_blocks={widest:.2f} "
        f"repetitions={repetitions}"
    )


if __name__ == "__main__":
    main()
