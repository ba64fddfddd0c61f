"""Simulated figures of the retrieval methods beside those of the APM paper: RAG rows of Tables 1, 2a, 2b and 3.

    python bench/paper_retrieval.py --prompts prompts.jsonl.gz      # paper size; continues where it was stopped
    python bench/paper_retrieval.py --prompts prompts.jsonl.gz --rows 3   # the first three rows only
    python bench/paper_retrieval.py --quick                         # the same rows at smoke size: shows that it runs

Every line is a run of `python -m apm_lab`, so each is skipped when its results exist, and shares the store with
`bench/paper_shapes.py` where the folder is the same. Rows stand in the order of what they tell, Table 1 first. Nothing
was fitted to any of these figures. Printed per row and method: the paper's Delta and W/L; Delta, s.d. over draws, 95%
interval and W/L likewise; the share of the oracle's Delta. Routing is the n-gram router. Then which of the paper's
orderings hold for the point estimates, as far as their rows were run
(Ctrl-C: those so far).
"""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from paper_shapes import MAIN, ROWS, Row, arguments, finished, place_and_overrides

METHODS = ("rag_exemplar", "rag_summary", "routing")
PAPER = {  # row: the printed (W/L, Delta) of rag_exemplar and of rag_summary
    "Qwen k=1": ((1.17, 0.22), (1.16, 0.26)),
    "Llama k=1": ((0.99, 0.01), (0.98, -0.02)),
    "1 conversation": ((1.12, 0.18), (1.03, 0.05)),
    "4 conversations": ((1.14, 0.23), (1.23, 0.40)),
    "500 users": ((1.13, 0.17), (1.10, 0.16)),
    "2000 users": ((1.10, 0.15), (1.16, 0.24)),
    "1000 users": ((1.10, 0.13), (1.16, 0.18)),
    "N=2": ((1.46, 0.75), (1.20, 0.38)),
    "N=6": ((1.21, 0.37), (1.37, 0.58)),
    "N=4": ((1.22, 0.33), (1.25, 0.46)),
    "N=8": ((1.13, 0.20), (1.24, 0.44)),
    "Qwen k=2": ((1.08, 0.09), (1.12, 0.17)),
    "Llama k=2": ((1.04, 0.03), (1.02, 0.02)),
}
USERS = ("500 users", "1000 users", "2000 users", "Qwen k=1")
TURNS = ("1 conversation", "Qwen k=1", "4 conversations")
POOLS = ("N=2", "N=4", "N=6", "N=8", "Qwen k=1")
FLAT = 0.15
"""How far Delta may move from 500 to 4000 users and still be called flat; the paper's move by .05 and .10."""

Found = dict[str, dict[str, dict[str, dict]]]
"""Row -> arm -> metric -> `value`, `sd`, `low`, `high`."""


def published(name: str, method: str) -> tuple[float | None, float | None]:
    """Return the paper's W/L and Delta of a method (or `routing_oracle`)."""
    row = next(row for row in ROWS if row.name == name)
    printed = {"routing_oracle": row.oracle, "routing": row.routing, **dict(zip(METHODS, PAPER[name], strict=False))}
    return printed.get(method, (None, None))


def line(row: Row, method: str, arms: dict[str, dict[str, dict]], seconds: float | None) -> str:
    """Return a row and method as printed."""
    ratio, delta = published(row.name, method)
    paper = f"{'-' if delta is None else f'{delta:+.2f}'} {'-' if ratio is None else f'{ratio:.2f}'}"
    cells = " ".join(_cell(arms[method][metric], sign) for metric, sign in (("delta", "+"), ("wl", "")))
    share = arms[method]["delta"]["value"] / arms["routing_oracle"]["delta"]["value"]
    taken = "" if seconds is None else f"{seconds:6.0f}"
    return f"{row.table:9s} {row.name:16s} {method:15s} {paper:>11s}  {cells} {share:+5.2f} {taken:>7s}"


def _cell(figure: dict, sign: str) -> str:
    spread = f"{figure['value']:{sign}.2f} ({figure['sd']:.2f})"
    return f"{spread:>12s} [{figure['low']:{sign}.2f} {figure['high']:{sign}.2f}]"


def orderings(found: Found) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Yield each of the paper's orderings with what says whether the point estimates show it (KeyError: not run)."""

    def delta(row: str, arm: str) -> float:
        return found[row][arm]["delta"]["value"]

    for method in METHODS[:2]:
        yield from _levels(found, method, delta)
        yield from _ladders(method, delta)
    for row in ("Qwen k=1", "Qwen k=2"):
        yield (
            f"{row}: rag_summary > rag_exemplar",
            lambda row=row: delta(row, "rag_summary") > delta(row, "rag_exemplar"),
        )
    yield (
        "Qwen k=1: routing is over four times the better of the two (paper: 4.3 times)",
        lambda: delta("Qwen k=1", "routing") > 4 * max(delta("Qwen k=1", method) for method in METHODS[:2]),
    )


def _levels(found: Found, method: str, delta: Callable[[str, str], float]) -> Iterator[tuple[str, Callable[[], bool]]]:
    both = [row for row in found if {method, "routing"} <= found[row].keys()] or [MAIN.name]
    yield (
        f"{method}: below routing in each of {len(both)} rows",
        lambda: all(delta(row, method) < delta(row, "routing") for row in both),
    )
    yield (
        f"{method}: below a third of the oracle in every row (paper: at most .31)",
        lambda: all(3 * delta(row, method) < delta(row, "routing_oracle") for row in PAPER),
    )
    for row in ("Qwen k=1", "Qwen k=2"):
        yield f"{row}: {method} > twin", lambda row=row: delta(row, method) > delta(row, "nonpersonalized")
    for row in ("Llama k=1", "Llama k=2"):
        yield (
            f"{row}: {method} is about zero (its 95% interval holds 0)",
            lambda row=row: found[row][method]["delta"]["low"] <= 0 <= found[row][method]["delta"]["high"],
        )


def _ladders(method: str, delta: Callable[[str, str], float]) -> Iterator[tuple[str, Callable[[], bool]]]:
    yield (
        f"{method}: flat in users (4000 less 500: under {FLAT} either way)",
        lambda: abs(delta(USERS[-1], method) - delta(USERS[0], method)) < FLAT,
    )
    yield (
        f"{method}: gains less from 500 to 4000 users than routing",
        lambda: (
            delta(USERS[-1], method) - delta(USERS[0], method)
            < delta(USERS[-1], "routing") - delta(USERS[0], "routing")
        ),
    )
    if method == "rag_summary":
        yield (
            "rag_summary: rises with conversations 1, 2, 4",
            lambda: all(delta(one, method) < delta(other, method) for one, other in pairwise(TURNS)),
        )
        yield (
            "rag_summary: gains more from 1 to 4 conversations than rag_exemplar",
            lambda: (
                delta(TURNS[-1], method) - delta(TURNS[0], method)
                > delta(TURNS[-1], "rag_exemplar") - delta(TURNS[0], "rag_exemplar")
            ),
        )
        yield "rag_summary: best at N = 6", lambda: max(POOLS, key=lambda row: delta(row, method)) == "N=6"
    else:
        yield (
            "rag_exemplar: best at N = 2, and at N = 10 under half of that",
            lambda: (
                max(POOLS, key=lambda row: delta(row, method)) == "N=2"
                and 2 * delta(POOLS[-1], method) < delta(POOLS[0], method)
            ),
        )


def run_row(name: str, methods: list[str], common: list[str], folder: Path, found: Found) -> None:
    """Run the methods on a row, print their lines, and oracle and twin where they have none yet."""
    row = next(row for row in ROWS if row.name == name)
    for method in methods:
        started = time.monotonic()
        arms: dict[str, dict[str, dict]] = {}
        for figure in finished(row, [*common, f"method={method}"], folder):
            arms.setdefault(figure["method"], {})[figure["metric"]] = figure
        print(line(row, method, arms, time.monotonic() - started), flush=True)
        if name not in found:
            for arm in ("routing_oracle", "nonpersonalized"):
                print(line(row, arm, arms, None), flush=True)
        found.setdefault(name, {}).update(arms)


def verdict(holds: Callable[[], bool]) -> str:
    """Return what is printed before an ordering."""
    try:
        return "holds" if holds() else "does NOT"
    except KeyError:
        return "not run"


def main() -> None:
    """Run what is missing, print the rows and the orderings."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=len(PAPER), help="how many rows, in the order of what they tell")
    parser.add_argument("--method", nargs="+", choices=METHODS, default=METHODS, help="which of the methods")
    given = parser.parse_args()
    folder, common = place_and_overrides(given, "ngrams")
    heads = f"{'paper':>11s}  {'Delta (sd) [95%]':>26s} {'W/L (sd) [95%]':>24s} {'share':>5s} {'seconds':>7s}"
    print(f"{'':42s} {heads}")
    found: Found = {}
    names = [name for name in PAPER if not given.quick or ("users" not in name and name != "N=2")][: given.rows]
    try:
        for methods in (METHODS[:2], METHODS[2:]):  # what routing finds is in docs/paper_shapes.md: it can wait
            for name in names:
                run_row(name, [method for method in methods if method in given.method], common, folder, found)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here")
    print()
    verdicts = [] if given.quick else [(text, verdict(holds)) for text, holds in orderings(found)]
    for text, said in verdicts:
        print(f"{said:9s} {text}")
    held, judged = (sum(said in which for _, said in verdicts) for which in (["holds"], ["holds", "does NOT"]))
    print(f"ratio={held / judged if judged else float('nan'):.2f} orderings={judged} held={held} rows={len(found)}")


if __name__ == "__main__":
    main()
