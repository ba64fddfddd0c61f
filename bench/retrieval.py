"""Exact top-3 neighbours beside faiss-cpu's IndexFlatIP.

    python bench/retrieval.py [--quick]    # needs faiss-cpu: pip install --target FOLDER faiss-cpu --no-deps, then
                                           # PYTHONPATH=FOLDER:src python bench/retrieval.py

1000 queries among 100,000 users (--quick: 20,000), random rows of length 1; both are given the rows as they are, and
take turns. A row's seconds are medians; building the index is given apart, since a fit may do it once. `ratio`: faiss's
search over ours, the worst row (wanted: at least 1); `cpu`: the same in processor time, which other work on the machine
moves less; `built`: `ratio` with faiss's index built; `same`: the share of queries with the same neighbours in the same
order.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from apm_lab.maths.nearest import nearest

QUERIES, NEIGHBOURS = 1000, 3


def unit(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    """Return rows (count, width) of length 1."""
    rows = rng.standard_normal((count, width), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def timed(work: Callable[[], Any]) -> tuple[Any, np.ndarray]:
    """Return what `work` returns, and the seconds and the processor seconds that it took."""
    began = time.perf_counter(), time.process_time()
    found = work()
    return found, np.array([time.perf_counter() - began[0], time.process_time() - began[1]])


def compare(count: int, width: int, threads: int, repeats: int) -> tuple[np.ndarray, float]:
    """Return median seconds (ours, faiss's search, its index; as timed), and the share found alike."""
    import faiss

    faiss.omp_set_num_threads(threads)
    rng = np.random.default_rng(width)
    rows, queries = unit(rng, count, width), unit(rng, QUERIES, width)
    taken, same = [], 0.0
    for _ in range(repeats):
        index = faiss.IndexFlatIP(width)
        with threadpool_limits(threads):
            mine, ours = timed(lambda: nearest(queries, rows, NEIGHBOURS))
        _, built = timed(lambda index=index: index.add(rows))
        (_, found), theirs = timed(lambda index=index: index.search(queries, NEIGHBOURS))
        taken.append([ours, theirs, built])
        same = float((mine == found).all(axis=1).mean())
    return np.median(taken, axis=0), same


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
    ratios: dict[str, list[float]] = {"ratio": [], "cpu": [], "built": [], "same": []}
    print(f"{QUERIES} queries, {count} rows, {threads} thread(s), medians of {repeats}")
    print(f"{'width':>6s} {'ours s':>8s} {'faiss s':>8s} {'index s':>8s} {'ratio':>6s} {'cpu':>6s} {'same':>6s}")
    for width in (1024, 384):
        ((ours, our_cpu), (theirs, their_cpu), (built, _)), same = compare(count, width, threads, repeats)
        row = {"ratio": theirs / ours, "cpu": their_cpu / our_cpu, "built": (theirs + built) / ours, "same": same}
        for name, value in row.items():
            ratios[name].append(value)
        print(
            f"{width:6d} {ours:8.2f} {theirs:8.2f} {built:8.2f} {row['ratio']:6.2f} {row['cpu']:6.2f} {same:6.3f}",
            flush=True,
        )
    print(" ".join(f"{name}={min(values):.{3 if name == 'same' else 2}f}" for name, values in ratios.items()))


if __name__ == "__main__":
    main()
