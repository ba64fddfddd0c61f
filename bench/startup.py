"""Start-up of the command line against a bare Hydra application, side by side in one run.

    python bench/startup.py [--quick]

Medians of alternating runs of `--help` and `--cfg job`. `ratio`: our `--help` over the bare one (wanted: below 1);
`cfg`: our `--cfg job` over the bare one (wanted: at most 2.2).
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = """
import hydra

@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    pass

main()
"""


def seconds(command: list[str], folder: str) -> float:
    """Return the wall time of a command."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Print a table and the line of ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    repeats = 3 if parser.parse_args().quick else 11
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "conf").mkdir()
        (Path(folder) / "conf" / "config.yaml").write_text("seed: 0\nusers: {train: 10}\n")
        (Path(folder) / "bare.py").write_text(BARE)
        ours, bare = [sys.executable, "-m", "apm_lab"], [sys.executable, "bare.py"]
        medians = {}
        for flags in (["--help"], ["--cfg", "job"]):
            taken: dict[str, list[float]] = {"apm_lab": [], "bare Hydra": []}
            for _ in range(repeats + 1):  # the first pair warms the disk
                taken["apm_lab"].append(seconds([*ours, *flags], folder))
                taken["bare Hydra"].append(seconds([*bare, *flags], folder))
            medians[flags[0]] = {name: statistics.median(values[1:]) for name, values in taken.items()}
    for flag, row in medians.items():
        print(f"{flag:8s} " + "  ".join(f"{name} {value * 1000:.0f} ms" for name, value in row.items()))
    ratios = {flag: row["apm_lab"] / row["bare Hydra"] for flag, row in medians.items()}
    print(f"ratio={ratios['--help']:.2f} help={ratios['--help']:.2f} cfg={ratios['--cfg']:.2f}")


if __name__ == "__main__":
    main()
