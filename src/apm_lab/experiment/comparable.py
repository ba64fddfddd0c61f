"""Finished runs whose methods stand side by side: those that were asked the same, found in a multirun or by folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from apm_lab.errors import DataError
from apm_lab.experiment.finished import is_audit, read_config, read_manifest
from apm_lab.experiment.finished_audits import compare_audits, print_audits
from apm_lab.experiment.finished_users import UserRows, read_user_rows
from apm_lab.experiment.identity import setting_of
from apm_lab.experiment.manifest import model_name
from apm_lab.experiment.run_folder import RunFolder
from apm_lab.experiment.schema import completed
from apm_lab.report.comparison import MethodRun, SideBySide, side_by_side, side_by_side_columns
from apm_lab.report.comparison_table import print_side_by_side

__all__ = ["compare_jobs", "print_together"]

_MOST_NAMED = 5
_SAME_REWARD = 1e-6


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run: what it asked (`setting`), what is its method's `own`, and what came out for every user."""

    folder: Path
    method: str
    model: str
    setting: Mapping[str, Any]
    own: Mapping[str, Any]
    source: str
    blocks: tuple[int, ...]
    rows: UserRows
    void: bool
    unhealthy: bool


def print_together(console: Console, folders: Sequence[Path]) -> None:
    """Print the methods of finished runs side by side.

    DataError where a folder holds no finished run, two have the same method, or they were not asked the same.
    """
    manifests = [read_manifest(folder) for folder in folders]
    if all(map(is_audit, manifests)):
        print_audits(console, folders)
        return
    runs = [_finished(folder, manifest) for folder, manifest in zip(folders, manifests, strict=True)]
    first = runs[0]
    for number, run in enumerate(runs):
        same = next((other for other in runs[:number] if other.method == run.method), None)
        if same is not None:
            raise DataError(
                f"{same.folder} and {run.folder} are both of method={run.method}; give one run of each method"
            )
        _require_same(first, run)
    print_side_by_side(console, _title(first), _compared(runs), _notes(runs))


def compare_jobs(console: Console, jobs: Sequence[Mapping[str, Any]], folder: Path) -> bool:
    """Print every group of finished jobs that differ in the method only; return whether there was one.

    All groups together are written to `comparison.parquet` in `folder`. What can't be read back is told and left out.
    """
    overrides = {str(job["folder"]): list(job["overrides"]) for job in jobs}
    if len(overrides) < 2 or compare_audits(console, [Path(name) for name in overrides], folder):
        return False
    shared = set.intersection(*map(set, overrides.values()))
    columns: dict[str, list[Any]] = {}
    for number, runs in enumerate(_groups(list(_read(console, overrides)))):
        common = set.intersection(*(set(overrides[str(run.folder)]) for run in runs)) - shared
        varied = [word for word in overrides[str(runs[0].folder)] if word in common]
        title = ", ".join([_title(runs[0]), *varied])
        try:
            for run in runs[1:]:
                _require_same(runs[0], run)
        except DataError as fault:
            _tell(console, fault)
            continue
        table = _compared(runs)
        print_side_by_side(console, title, table, _notes(runs))
        for name, values in side_by_side_columns(table, group=number, title=title).items():
            columns.setdefault(name, []).extend(values)
    if columns:
        RunFolder(folder).write_parquet("comparison.parquet", columns)
    return bool(columns)


def _read(console: Console, folders: Iterable[str]) -> Iterator[FinishedRun]:
    """Yield the runs in these folders, nothing where all are of one method."""
    manifests: dict[Path, Mapping[str, Any]] = {}
    for folder in map(Path, folders):
        try:
            manifests[folder] = read_manifest(folder)
        except DataError as fault:
            _tell(console, fault)
    if len({str(manifest.get("method")) for manifest in manifests.values()}) < 2:
        return
    for folder, manifest in manifests.items():
        try:
            yield _finished(folder, manifest)
        except DataError as fault:
            _tell(console, fault)


def _tell(console: Console, fault: DataError) -> None:
    console.print(f"left out of the comparison: {fault}", style="yellow", markup=False, soft_wrap=True)


def _groups(runs: Sequence[FinishedRun]) -> Iterator[list[FinishedRun]]:
    """Yield the runs that differ in the method only, two methods or more, each of them once.

    Where a method stands in a group twice, what belongs to the method (a router, say) is varied too, and counts.
    """
    for group in _alike(runs, lambda run: run.setting):
        parts = [group] if _each_once(group) else _alike(group, lambda run: _without(run.own, "method"))
        for part in parts:
            if len(part) > 1 and _each_once(part):
                yield part


def _alike(runs: Sequence[FinishedRun], of: Callable[[FinishedRun], Mapping[str, Any]]) -> list[list[FinishedRun]]:
    found: dict[str, list[FinishedRun]] = {}
    for run in runs:
        found.setdefault(json.dumps(of(run), sort_keys=True, default=str), []).append(run)
    return list(found.values())


def _each_once(runs: Sequence[FinishedRun]) -> bool:
    return len({run.method for run in runs}) == len(runs)


def _without(node: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name != key}


def _finished(folder: Path, manifest: Mapping[str, Any]) -> FinishedRun:
    config = completed(read_config(folder))
    try:
        method, blocks, figures = str(manifest["method"]), tuple(map(int, manifest["blocks"])), manifest["figures"]
        setting, own = setting_of(config, str(manifest["data"]["digest"]))
        model, source = model_name(config), str(manifest["source_digest"])
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise DataError(f"{folder}: written by another apm_lab, or damaged ({fault})") from None
    return FinishedRun(
        folder,
        method,
        model,
        setting,
        own,
        source,
        blocks,
        read_user_rows(folder / "users.parquet", method, len(blocks)),
        bool(figures.get("test/void")),
        bool(figures.get("test/judge_unhealthy")),
    )


def _require_same(first: FinishedRun, other: FinishedRun) -> None:
    """Raise DataError naming what differs where two runs were not of the same users, draws, texts and model."""
    found = list(_differences(first, other))
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise DataError(
            f"{first.folder} and {other.folder} were not asked the same, so their methods can't be compared: "
            f"{'; '.join(found[:_MOST_NAMED])}{more}"
        )


def _differences(first: FinishedRun, other: FinishedRun) -> Iterator[str]:
    mine, theirs = dict(_leaves(first.setting)), dict(_leaves(other.setting))
    apart = [key for key in dict.fromkeys([*mine, *theirs]) if mine.get(key) != theirs.get(key)]
    yield from (f"{key} is {_told(mine.get(key))} and {_told(theirs.get(key))}" for key in apart)
    if apart:
        return
    if first.blocks != other.blocks:
        yield "the mapping draws"
    elif first.rows.ids != other.rows.ids:
        yield "the test users"
    else:
        gaps = [np.abs(a.neutral - b.neutral) for a, b in zip(first.rows.draws, other.rows.draws, strict=True)]
        if np.nan_to_num(np.array(gaps)).max(initial=0.0) > _SAME_REWARD:  # nan: not known in one of them
            yield "the neutral responses' rewards (other texts, scores or mappings)"


def _leaves(node: Any, where: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 (any value of a config)
    if isinstance(node, Mapping) and node:
        for key, value in node.items():
            yield from _leaves(value, f"{where}.{key}" if where else str(key))
    else:
        yield where.removesuffix("._target_"), node


def _told(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _compared(runs: Sequence[FinishedRun]) -> SideBySide:
    methods = [MethodRun(run.method, run.rows.draws, run.void, run.unhealthy) for run in runs]
    return side_by_side(methods, np.array(runs[0].blocks, dtype=np.int64), runs[0].setting["seed"])


def _title(run: FinishedRun) -> str:
    return f"methods on {run.model}"


def _notes(runs: Sequence[FinishedRun]) -> list[str]:
    changed = len({run.source for run in runs}) > 1
    return ["these runs were computed by different versions of apm_lab"] if changed else []
