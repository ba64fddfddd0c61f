"""Exact top-3 neighbours beside faiss-cpu's IndexFlatIP.

    python bench/retrieval.py [--quick]    # needs faiss-cpu: pip install --target FOLDER faiss-cpu --no-deps, then
                                           # PYTHONPATH=FOLDER:src python bench/retrieval.py

1000 queries among 100,000 users (--quick: 20,000), random rows of length 1; both are given the rows as they are, and
take turns. A row's seconds are medians; building the index is given apart, since a fit may do it once. `ratio`: faiss's
search over ours, the worst row (wanted: at least 1); `built`: the same with its index built; `same`: the share of
queries with the same neighbours in the same order.
"""

import argparse
import os
import statistics
import time

import numpy as np
from threadpoolctl import threadpool_limits

from apm_lab.maths.nearest import nearest

QUERIES, NEIGHBOURS = 1000, 3


def unit(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    """Return rows (count, width) of length 1."""
    rows = rng.standard_normal((count, width), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def compare(count: int, width: int, threads: int, repeats: int) -> tuple[float, float, float, float]:
    """Return the median seconds of ours, of faiss's search and of building its index, and the share found alike."""
    import faiss

    faiss.omp_set_num_threads(threads)
    rng = np.random.default_rng(width)
    rows, queries = unit(rng, count, width), unit(rng, QUERIES, width)
    ours, theirs, built, same = [], [], [], 0.0
    for _ in range(repeats):
        began = time.perf_counter()
        with threadpool_limits(threads):
            mine = nearest(queries, rows, NEIGHBOURS)
        ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        index = faiss.IndexFlatIP(width)
        index.add(rows)
        built.append(time.perf_counter() - began)
        began = time.perf_counter()
        _, found = index.search(queries, NEIGHBOURS)
        theirs.append(time.perf_counter() - began)
        same = float((mine == found).all(axis=1).mean())
    return statistics.median(ours), statistics.median(theirs), statistics.median(built), same


def main() -> None:
    """Print a row per width, and the worst ratios last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    try:
        import faiss  # noqa: F401
    except ModuleNotFoundError:
        raise SystemExit(
            "faiss is not installed: pip install --target FOLDER faiss-cpu --no-deps, then "
            "PYTHONPATH=FOLDER:src python bench/retrieval.py"
        ) from None
    count, repeats, threads = 20_000 if quick else 100_000, 3 if quick else 5, int(os.environ.get("OMP_NUM_THREADS", 1))
    ratios, built_ratios, alike = [], [], []
    print(f"{QUERIES} queries, {count} rows, {threads} thread(s), medians of {repeats}")
    print(f"{'width':>6s} {'ours s':>8s} {'faiss s':>8s} {'index s':>8s} {'ratio':>6s} {'same':>6s}")
    for width in (1024, 384):
        ours, theirs, built, same = compare(count, width, threads, repeats)
        ratios.append(theirs / ours)
        built_ratios.append((theirs + built) / ours)
        alike.append(same)
        print(f"{width:6d} {ours:8.2f} {theirs:8.2f} {built:8.2f} {ratios[-1]:6.2f} {same:6.3f}")
    print(f"ratio={min(ratios):.2f} built={min(built_ratios):.2f} same={min(alike):.3f}")


if __name__ == "__main__":
    main()
