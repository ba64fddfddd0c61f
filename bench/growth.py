"""How world building grows with training users: seconds per added user, and peak memory.

    python bench/growth.py             # 1k, 4k, 16k users, median of three; then 64k users once (one turn)
    python bench/growth.py --quick     # 0.1k, 0.4k, 1.6k users once

Each size is a run of its own with an empty store: one preset, N = M = 4, a method that reads the training view and
learns nothing, so that what is measured is users, texts and scores. The peer is linear growth: ratio = seconds per
added user in the second step over those in the first (1: linear).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from apm_lab.records import Response


class ReadsNothing:
    """A method for which training users are made, and that answers neutrally."""

    def fit(self, view: object) -> None:
        """Learn nothing."""

    def respond(self, view: object) -> list[Response]:
        """Return the neutral response for everybody."""
        return [Response()] * len(view.histories)  # type: ignore[attr-defined]


def build(users: int, turns: int) -> tuple[float, float]:
    """Return the seconds of world building and the process's peak memory in MB, in an empty folder."""
    overrides = [
        "method._target_=growth.ReadsNothing",
        "~method.label",
        "plugins=[growth]",
        "study.baseline_router=null",
        "study.bayes=false",
        "pool.size=4",
        f"users.train={users}",
        f"users.turns={turns}",
        "users.validation=0",
        "users.test=10",
        "mapping.draws=2",
        "logger=csv",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "apm_lab", *overrides]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr[-1000:])
        (file,) = Path(folder).rglob("manifest.json")
        manifest = json.loads(file.read_text())
    seconds = sum(stage["seconds"] for name, stage in manifest["stages"].items() if name.startswith("train"))
    return seconds, manifest["peak_mb"]


def main() -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    sizes, repeats = ((100, 400, 1600), 1) if quick else ((1000, 4000, 16000), 3)
    # Sizes take turns, so that a busy minute of the machine does not fall on one of them alone.
    measured = [{size: build(size, 2) for size in sizes} for _ in range(repeats)]
    seconds = {size: statistics.median(found[size][0] for found in measured) for size in sizes}
    peaks = {size: statistics.median(found[size][1] for found in measured) for size in sizes}
    print(f"{'users':>6s} {'turns':>5s} {'seconds':>8s} {'ms/added user':>13s} {'peak MB':>8s}")
    steps = {}
    for before, size in zip((0, *sizes), sizes, strict=False):
        steps[size] = 1000 * (seconds[size] - seconds.get(before, 0.0)) / (size - before)
        print(f"{size:6d} {2:5d} {seconds[size]:8.1f} {steps[size]:13.2f} {peaks[size]:8.0f}")
    if not quick:
        took, peak = build(64000, 1)
        print(f"{64000:6d} {1:5d} {took:8.1f} {1000 * took / 64000:13.2f} {peak:8.0f}")
    _, middle, most = sizes
    print(f"ratio={steps[most] / steps[middle]:.2f} memory={peaks[most] / peaks[middle]:.2f} repeats={repeats}")


if __name__ == "__main__":
    main()
