"""Finished audits, read back: one printed again, several held against each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from apm_lab.errors import DataError
from apm_lab.experiment.figures_written import write_figures
from apm_lab.experiment.finished import is_audit, read_manifest
from apm_lab.experiment.run_folder import RunFolder
from apm_lab.report.frame import Frame, print_frame, rows_of
from apm_lab.report.perspectives.across import ModelAudit, across_frames
from apm_lab.report.perspectives.printed import print_audit

__all__ = ["compare_audits", "draw_audit", "print_audits", "print_finished_audit", "read_frames"]

_DAMAGE = (KeyError, TypeError, AttributeError, IndexError, ValueError)  # of a manifest, or columns, of another form
_FOR_SEVERAL = ("lm_loglik", "classifier", "dpo_implicit")  # options that say nothing about which model it is


def print_finished_audit(console: Console, folder: Path, manifest: Mapping[str, Any]) -> None:
    """Print a finished audit's tables as the run did, and draw its figures; DataError where something is damaged."""
    frames = list(read_frames(folder, manifest).values())
    try:
        print_audit(console, manifest, frames)
    except _DAMAGE as fault:
        raise _damaged(folder, fault) from None
    draw_audit(console, folder, manifest)
    console.print(f"results: {folder}", soft_wrap=True, markup=False)


def draw_audit(console: Console, folder: Path, manifest: Mapping[str, Any]) -> None:
    """Draw the figures of the audit in `folder` from its tables, into `figures/`; a fault is told and is no error."""
    try:
        found = _finished(folder, manifest)
    except Exception as fault:  # the run stands, whatever its pictures need
        console.print(f"not drawn: {' '.join(str(fault).split())}", style="yellow", soft_wrap=True, markup=False)
        return
    write_figures(console, folder / "figures", [found.audit], found.dataset)


def read_frames(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Frame]:
    """Return a finished audit's tables by name; DataError where one is missing or damaged."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    found = {}
    try:
        for name, told in manifest["frames"].items():
            columns = pq.read_table(folder / f"{name}.parquet").to_pydict()
            found[name] = Frame(name, told["title"], columns, told["shown"], told["chosen"], told["note"])
    except (*_DAMAGE, OSError, ArrowException) as fault:
        raise _damaged(folder, fault) from None
    return found


def _damaged(folder: Path, fault: Exception) -> DataError:
    return DataError(f"{folder}: written by another apm_lab, or damaged ({fault})")


@dataclass(frozen=True, slots=True)
class _Finished:
    folder: Path
    dataset: str
    data: str
    setting: Mapping[str, Any]
    audit: ModelAudit


def _finished(folder: Path, manifest: Mapping[str, Any]) -> _Finished:
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    frames = {name: rows_of(each) for name, each in read_frames(folder, manifest).items()}
    try:
        if (folder / "opinions.parquet").is_file():
            frames["opinions"] = pq.read_table(folder / "opinions.parquet").to_pylist()
        data = str(manifest["data"]["digest"])
        dataset = str(manifest["title"]).rpartition(" on ")[2]
        audit = ModelAudit(_model(manifest), manifest.get("distance"), frames, manifest.get("temperature"))
        return _Finished(folder, dataset, data, dict(manifest["setting"]), audit)
    except (*_DAMAGE, OSError, ArrowException) as fault:
        raise _damaged(folder, fault) from None


def _model(manifest: Mapping[str, Any]) -> str:
    """Return what tables call the model: its option, where that is used for several with its own name.

    Of a trained soft prompt, that of its base model and the beginning of its digest.
    """
    header = manifest["store"]["key_headers"]["reward_model"]
    option = str(manifest["reward_model"])
    name, _, rest = header[1].partition("@")
    trained = rest.partition("+soft_prompt@")[2]
    own = f"{name}, {trained[:6]}" if trained else name
    return f"{option} ({own})" if option in _FOR_SEVERAL else option


def print_audits(console: Console, folders: Sequence[Path], out: Path | None = None) -> None:
    """Print how audits of several reward models on the same data agree; write tables and figures below `out`.

    DataError where two audits are not of the same data, of one model, or were asked differently.
    """
    found = [_finished(folder, read_manifest(folder)) for folder in folders]
    first = found[0]
    for number, other in enumerate(found[1:], 1):
        if other.data != first.data:
            raise DataError(f"{first.folder} and {other.folder} are audits on different data; give runs on the same")
        apart = [key for key in first.setting if other.setting.get(key) != first.setting[key]]
        if apart:
            raise DataError(
                f"{first.folder} and {other.folder} were not asked the same: they differ in {', '.join(apart)}; "
                "give runs that differ in the reward model alone"
            )
        same = next((each for each in found[:number] if each.audit.name == other.audit.name), None)
        if same is not None:
            raise DataError(f"{same.folder} and {other.folder} are both of {other.audit.name}; give one run of each")
    try:
        frames = across_frames([each.audit for each in found])
    except _DAMAGE as fault:
        places = ", ".join(str(each.folder) for each in found)
        raise DataError(f"{places}: one is written by another apm_lab, or damaged ({fault!r})") from None
    named = ", ".join(each.audit.name for each in found)
    console.print(f"{len(found)} reward models on {first.dataset}: {named}", style="bold", markup=False)
    for each in frames:
        if each.shown:
            print_frame(console, each)
        if out is not None:
            RunFolder(out).write_parquet(f"across/{each.name}.parquet", each.columns)
    if out is not None:
        together = {each.name: rows_of(each) for each in frames}
        write_figures(console, out / "across" / "figures", [each.audit for each in found], first.dataset, together)


def compare_audits(console: Console, folders: Sequence[Path], out: Path) -> bool:
    """Print how the audits among these runs agree, for each data set that several models were audited on."""
    by_setting: dict[str, list[Path]] = {}
    for folder in folders:
        try:
            manifest = read_manifest(folder)
        except DataError:
            continue
        if is_audit(manifest):
            setting = [manifest["data"]["digest"], manifest.get("setting")]
            by_setting.setdefault(json.dumps(setting, sort_keys=True), []).append(folder)
    several = [group for group in by_setting.values() if len(group) > 1]
    for number, group in enumerate(several):
        place = out if len(several) == 1 else out / f"data-{number}"
        try:
            print_audits(console, group, place)
        except DataError as fault:
            console.print(f"left out of the comparison: {fault}", style="yellow", markup=False, soft_wrap=True)
    return bool(several)
