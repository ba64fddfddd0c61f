"""Figures of audits as files: each whole or not at all, and none that stops a run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from apm_lab.experiment.run_folder import RunFolder
from apm_lab.report.perspectives.across import ModelAudit

__all__ = ["write_figures"]

_DOTS = 150  # per inch


def write_figures(
    console: Console,
    out: Path,
    audits: Sequence[ModelAudit],
    dataset: str,
    together: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> list[str]:
    """Write `out/NAME.png` for every figure that the audits' tables allow, print one line, and return their names.

    What can't be drawn or written is told in that line, and is no error: the tables are the result.
    """
    written: list[str] = []
    faults: list[str] = []
    for name, drawing in _drawings(audits, dataset, together, faults).items():
        try:
            RunFolder(out).appear(f"{name}.png", lambda draft, drawing=drawing: _save(drawing(), draft))  # type: ignore[misc]
            written.append(name)
        except Exception as fault:  # a picture is no reason to lose a run
            faults.append(f"{name}: {_told(fault)}")
    if written:
        console.print(f"figures: {out} ({len(written)})", soft_wrap=True, markup=False)
    if faults:
        more = f" (and {len(faults) - 1} more)" if faults[1:] else ""
        console.print(f"not drawn: {faults[0]}{more}", style="yellow", soft_wrap=True, markup=False)
    return written


def _drawings(
    audits: Sequence[ModelAudit],
    dataset: str,
    together: Mapping[str, Sequence[Mapping[str, Any]]] | None,
    faults: list[str],
) -> dict[str, Callable[[], Any]]:
    try:
        from apm_lab.report.perspectives.figures import drawings

        return drawings(audits, dataset, together)
    except Exception as fault:
        faults.append(f"figures: {_told(fault)}")
        return {}


def _told(fault: Exception) -> str:
    return " ".join(f"{type(fault).__name__}: {fault}".split())


def _save(figure: Any, draft: Path) -> None:  # noqa: ANN401 (a figure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn as a box
        figure.savefig(draft, dpi=_DOTS, format="png", metadata={"Software": None})
