"""Alignment of 7 models with 60 groups over 493 questions by five distances, against a loop over scipy's.

    python bench/alignment.py [--quick]

The loop runs over some of the groups and is scaled to all of them; both must agree to 1e-9. Then 1000 bootstrap samples
over questions of all of it.
"""

import argparse
import statistics
import time

import numpy as np
from scipy.spatial.distance import correlation, jensenshannon
from scipy.stats import wasserstein_distance

from apm_lab.maths.distance import DISTANCES, largest_distance
from apm_lab.maths.opinion import Alignment, alignment, model_opinions

MODELS, GROUPS, QUESTIONS, CHOICES, SAMPLES = 7, 60, 493, 5, 1000


def by_scipy(models: np.ndarray, groups: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Return alignment (distances, R, G) one question at a time."""
    found = np.zeros((len(DISTANCES), len(models), len(groups)))
    for r, model in enumerate(models):
        for g, group in enumerate(groups):
            for q in range(len(real)):
                n = int(real[q].sum())
                a, b, at = model[q, :n], group[q, :n], np.arange(n)
                found[:, r, g] += (
                    1 - jensenshannon(a, b, base=2),
                    1 - wasserstein_distance(at, at, a, b) / (n - 1),
                    1 - np.linalg.norm(a - b) / np.sqrt(2),
                    1 - np.sqrt(correlation(a, b) / 2),
                    1 - np.abs(a - b).sum() / 2,
                )
    return found / len(real)


def ours(models: np.ndarray, groups: np.ndarray, real: np.ndarray) -> list[Alignment]:
    """Return alignment by each distance, (R, G)."""
    everywhere = np.ones(len(real), dtype=bool)
    return [alignment(name, (models[:, None], everywhere), (groups, everywhere), real) for name in DISTANCES]


def main() -> None:
    """Print a line per side and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(0)
    real = np.arange(CHOICES) < rng.integers(2, CHOICES + 1, size=(QUESTIONS, 1))
    models = model_opinions(rng.normal(size=(MODELS, QUESTIONS, CHOICES)), real)[0]
    groups = model_opinions(rng.normal(size=(GROUPS, QUESTIONS, CHOICES)), real)[0]
    few = 1 if quick else 6
    begun = time.perf_counter()
    expected = by_scipy(models, groups[:few], real)
    theirs = (time.perf_counter() - begun) * GROUPS / few
    seconds = []
    for _ in range(3 if quick else 7):
        begun = time.perf_counter()
        found = ours(models, groups, real)
        seconds.append(time.perf_counter() - begun)
    mine = statistics.median(seconds)
    apart = np.abs(np.stack([one.value for one in found])[:, :, :few] - expected).max()
    begun = time.perf_counter()
    counts = rng.multinomial(QUESTIONS, np.full(QUESTIONS, 1 / QUESTIONS), size=SAMPLES).astype(np.float64)
    spread = [np.tensordot(counts, one.by_question, axes=(1, 2)).std(axis=0) / QUESTIONS for one in found]
    bootstrap = time.perf_counter() - begun
    print(f"{MODELS} models x {GROUPS} groups x {QUESTIONS} questions x {len(DISTANCES)} distances")
    print(f"scipy loop {theirs:8.1f} s (scaled from {few} groups)\nours       {mine:8.3f} s, apart by {apart:.1e}")
    print(f"{SAMPLES} bootstrap samples {bootstrap:.2f} s, mean s.e. {np.mean(spread):.4f}")
    assert all((largest_distance(name, real) > 0).all() for name in DISTANCES)
    print(f"ratio={theirs / mine:.0f} seconds={mine:.3f} bootstrap={bootstrap:.2f} apart={apart:.1e}")


if __name__ == "__main__":
    main()
