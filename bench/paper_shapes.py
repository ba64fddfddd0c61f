"""Simulated figures beside those of the APM paper: oracle and routing rows of Tables 1, 2a, 2b, 3, Figs. 4 and 5.

    python bench/paper_shapes.py --prompts prompts.jsonl.gz     # paper size: hours; continues where it was stopped
    python bench/paper_shapes.py --quick                        # the same rows at smoke size: shows that it runs

Every row is a run of `python -m apm_lab`, so each is skipped when its results exist. Printed are the paper's values,
the simulated oracle, routing with the small ModernBERT and with n-grams, and the Bayes reader; then which of the
paper's orderings hold. The two numbers of a preset were fitted to the oracle's k = 1 cells; everything else is what
came out. The rows of the retrieval methods: `bench/paper_retrieval.py`.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

import pyarrow.parquet as pq

ARMS = ("routing_oracle", "routing", "routing[ngrams]", "bayes", "nonpersonalized")
SIZES = {
    "paper": ["+scale=paper"],
    "quick": ["+scale=smoke", "users.validation=0", "trainer.max_epochs=1"],
}


@dataclass(frozen=True)
class Row:
    """One row of the paper: where it stands, how to run it, and the printed (W/L, Delta) of oracle and routing."""

    table: str
    name: str
    overrides: tuple[str, ...]
    oracle: tuple[float | None, float | None]
    routing: tuple[float | None, float | None]


QWEN, LLAMA = "model=simulated_qwen27b", "model=simulated_llama8b"
MAIN = Row("Table 1", "Qwen k=1", (QWEN,), (2.88, 1.93), (1.79, 1.11))
ROWS = (
    MAIN,
    Row("Table 1", "Qwen k=2", (QWEN, "users.active=2"), (2.68, 1.35), (1.68, 0.71)),
    Row("Table 1", "Llama k=1", (LLAMA,), (1.64, 1.00), (1.40, 0.65)),
    Row("Table 1", "Llama k=2", (LLAMA, "users.active=2"), (1.72, 0.73), (1.27, 0.32)),
    Row("Table 2a", "500 users", (QWEN, "users.train=500"), (2.88, 1.93), (1.23, 0.38)),
    Row("Table 2a", "1000 users", (QWEN, "users.train=1000"), (2.88, 1.93), (1.32, 0.49)),
    Row("Table 2a", "2000 users", (QWEN, "users.train=2000"), (2.88, 1.93), (1.56, 0.87)),
    Row("Table 2b", "1 conversation", (QWEN, "users.turns=1"), (2.88, 1.93), (1.52, 0.76)),
    Row("Table 2b", "4 conversations", (QWEN, "users.turns=4"), (2.88, 1.93), (2.21, 1.50)),
    Row("Table 3", "N=2", (QWEN, "pool.size=2"), (5.22, 2.43), (4.61, 2.47)),
    Row("Table 3", "N=4", (QWEN, "pool.size=4"), (3.23, 2.29), (3.78, 2.32)),
    Row("Table 3", "N=6", (QWEN, "pool.size=6"), (2.85, 2.12), (2.58, 1.91)),
    Row("Table 3", "N=8", (QWEN, "pool.size=8"), (2.89, 2.04), (2.18, 1.39)),
    Row("Fig. 4", "Qwen regression", (QWEN, "method.label=regression"), (2.88, 1.93), (1.90, 1.33)),
    Row("Fig. 4", "Qwen two_sided", (QWEN, "method.label=two_sided"), (2.88, 1.93), (1.79, 1.17)),
    Row("Fig. 4", "Qwen one_sided", (QWEN, "method.label=one_sided"), (2.88, 1.93), (None, 0.49)),
    Row("Fig. 4", "Llama regression", (LLAMA, "method.label=regression"), (1.64, 1.00), (1.39, 0.76)),
    Row("Fig. 4", "Llama two_sided", (LLAMA, "method.label=two_sided"), (1.64, 1.00), (None, None)),
    Row("Fig. 4", "Llama one_sided", (LLAMA, "method.label=one_sided"), (1.64, 1.00), (None, 0.25)),
    Row("Fig. 5", "Gaussian k=1", (QWEN, "mapping=gaussian"), (None, None), (None, None)),
    Row("Fig. 5", "Gaussian k=2", (QWEN, "mapping=gaussian", "users.active=2"), (None, None), (None, None)),
)

Figures = dict[str, dict[str, tuple[float, float]]]
"""Arm -> metric (`delta`, `wl`, `accuracy`) -> mean and s.d. over draws."""


def finished(row: Row, common: list[str], folder: Path) -> list[dict]:
    """Return what a row's run in `folder` found over all draws: a dict per arm and metric."""
    command = [sys.executable, "-m", "apm_lab", *common, *row.overrides]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{row.table}, {row.name}: {done.stderr[-500:]}")
    place = re.search(r"^(?:results:|skipped: this run is done already, its results are in) (\S+)", done.stdout, re.M)
    if place is None:
        raise SystemExit(f"{row.table}, {row.name}: {done.stdout[-500:]}")
    found = pq.read_table(folder / place[1] / "results.parquet").to_pylist()
    return [figure for figure in found if figure["draw"] is None]


def run(row: Row, common: list[str], folder: Path) -> Figures:
    """Return the figures of a row, from its run in `folder`."""
    figures: Figures = {}
    for found in finished(row, common, folder):
        figures.setdefault(found["method"], {})[found["metric"]] = (found["value"], found["sd"])
    if "router=ngrams" in common:  # then it is no baseline beside another router but the method itself
        figures["routing[ngrams]"] = figures.pop("routing")
    return figures


def timed(row: Row, common: list[str], folder: Path) -> tuple[Figures, float]:
    """Return the figures of a row and how many seconds they took."""
    started = time.monotonic()
    return run(row, common, folder), time.monotonic() - started


def cell(figures: Figures, arm: str) -> str:
    """Return an arm's Delta and W/L with their s.d., as the paper prints them."""
    if arm not in figures:
        return f"{'-':>26s}"
    (delta, delta_sd), (ratio, ratio_sd) = figures[arm]["delta"], figures[arm]["wl"]
    return f"{delta:+.2f} ({delta_sd:.2f}) {ratio:.2f} ({ratio_sd:.2f})".rjust(26)


def published(pair: tuple[float | None, float | None]) -> str:
    """Return the paper's Delta and W/L."""
    ratio, delta = pair
    return f"{'-' if delta is None else f'{delta:+.2f}'} {'-' if ratio is None else f'{ratio:.2f}'}".rjust(11)


def orderings(found: dict[str, Figures]) -> Iterator[tuple[str, bool]]:
    """Yield each of the paper's orderings with whether the simulated point estimates show it."""

    def delta(row: str, arm: str) -> float:
        return found[row][arm]["delta"][0]

    for row in ("Qwen k=1", "Qwen k=2", "Llama k=1", "Llama k=2", "Gaussian k=1", "Gaussian k=2"):
        for arm in _routers(found):
            order = delta(row, "routing_oracle") > delta(row, arm) > delta(row, "nonpersonalized")
            yield f"{row}: oracle > {arm} > twin", order
    for arm in _routers(found):
        yield from _ladders(arm, lambda row, arm=arm: delta(row, arm), lambda row: delta(row, "routing_oracle"))
    for model in ("Qwen", "Llama"):
        ratio = delta(f"{model} k=2", "routing_oracle") / delta(f"{model} k=1", "routing_oracle")
        yield (
            f"{model}: the oracle's k=2 Delta is {ratio:.2f} of its k=1 (paper .70, .73; 1/sqrt 2)",
            0.64 < ratio < 0.78,
        )
    rows = ("N=2", "N=4", "N=6", "N=8", "Qwen k=1")
    yield "the oracle falls with N", _falls([delta(row, "routing_oracle") for row in rows])


def _routers(found: dict[str, Figures]) -> list[str]:
    return [arm for arm in ("routing", "routing[ngrams]") if arm in found[MAIN.name]]


def _ladders(arm: str, delta: Callable[[str], float], oracle: Callable[[str], float]) -> Iterator[tuple[str, bool]]:
    users = ("500 users", "1000 users", "2000 users", "Qwen k=1")
    yield f"{arm}: rises with users 500..4000", _falls([-delta(row) for row in users])
    turns = ("1 conversation", "Qwen k=1", "4 conversations")
    yield f"{arm}: rises with conversations 1, 2, 4", _falls([-delta(row) for row in turns])
    sizes = ("N=2", "N=4", "N=6", "N=8", "Qwen k=1")
    yield f"{arm}: falls with N", _falls([delta(row) for row in sizes])
    yield f"{arm}: share of the oracle falls with N", _falls([delta(row) / oracle(row) for row in sizes])
    for model in ("Qwen", "Llama"):
        labels = {name: delta(f"{model} {name}") for name in ("regression", "two_sided", "one_sided")}
        labels["margin"] = delta(f"{model} k=1")
        yield f"{arm}, {model}: regression is the best label", max(labels, key=labels.__getitem__) == "regression"
        yield f"{arm}, {model}: one_sided is the worst label", min(labels, key=labels.__getitem__) == "one_sided"


def _falls(values: list[float]) -> bool:
    return all(one > other for one, other in pairwise(values))


def arguments(text: str | None) -> argparse.ArgumentParser:
    """Return a parser of the arguments that both benches of the paper's tables take; `text` describes the bench."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, help="JSON-lines file of prompts (default: the packaged ones)")
    parser.add_argument("--folder", type=Path, default=Path("outputs/paper_shapes"), help="where the runs are kept")
    parser.add_argument("--draws", type=int, default=10, help="mapping draws (the paper's 10)")
    parser.add_argument("--quick", action="store_true", help="smoke size")
    return parser


def place_and_overrides(given: argparse.Namespace, router: str) -> tuple[Path, list[str]]:
    """Return the folder of the runs, made, and the overrides that all rows share."""
    common = [*SIZES["quick" if given.quick else "paper"], "logger=csv", "callbacks.checkpoints=false"]
    common.append(f"router={router}")
    if given.prompts is not None:
        common.append(f"dataset.path={given.prompts.resolve()}")
    if not given.quick:
        common.append(f"mapping.draws={given.draws}")
    folder = given.folder / "quick" if given.quick else given.folder
    folder.mkdir(parents=True, exist_ok=True)
    return folder, common


def main() -> None:
    """Run what is missing, print the table and the orderings."""
    parser = arguments(__doc__)
    parser.add_argument("--router", default="modernbert_small", help="ngrams: the n-gram baseline alone, in minutes")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs at once, after the first")
    given = parser.parse_args()
    folder, common = place_and_overrides(given, given.router)
    rows = _quick_rows() if given.quick else ROWS
    heads = [f"{name + ' Delta, W/L':>26s}" for name in ("oracle", "ModernBERT", "n-grams", "Bayes", "twin")]
    print(f"{'':9s} {'':17s} {'paper orcl.':>11s} {'paper rout.':>11s} {' '.join(heads)} {'seconds':>8s}")
    found: dict[str, Figures] = {}
    with ThreadPoolExecutor(given.jobs) as pool:
        # The first run makes most of the world; those at its side would make it a second time.
        first = timed(rows[0], common, folder)
        for row, (figures, seconds) in zip(
            rows, chain([first], pool.map(lambda row: timed(row, common, folder), rows[1:])), strict=True
        ):
            found[row.name] = figures
            cells = " ".join(cell(figures, arm) for arm in ARMS)
            head = f"{row.table:9s} {row.name:17s} {published(row.oracle)} {published(row.routing)}"
            print(f"{head} {cells} {seconds:8.0f}", flush=True)
    print()
    verdicts = [] if given.quick else list(orderings(found))
    for text, holds in verdicts:
        print(f"{'holds    ' if holds else 'does NOT '} {text}")
    held = sum(holds for _, holds in verdicts)
    share = held / len(verdicts) if verdicts else float("nan")
    print(f"ratio={share:.2f} orderings={len(verdicts)} held={held} rows={len(rows)}")


def _quick_rows() -> list[Row]:
    """Return one row of each table: what differs between them is values only."""
    tables = {row.table: row for row in reversed(ROWS)}
    rows = [row for row in ROWS if tables[row.table] is row]
    return [row for row in rows if not {"pool.size=2", "users.train=500"} & set(row.overrides)]


if __name__ == "__main__":
    main()
