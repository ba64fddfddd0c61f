"""An audit on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from apm_lab.report.frame import Frame, print_frame

__all__ = ["print_audit"]


def print_audit(console: Console, manifest: Mapping[str, Any], frames: Sequence[Frame]) -> None:
    """Print an audit's tables and what must be read with them."""
    console.print(str(manifest["title"]), style="bold", markup=False)
    for each in frames:
        if each.shown:
            print_frame(console, each)
    rewards = manifest["rewards"]
    if rewards["missing"]:
        console.print(
            f"{rewards['missing']} of {rewards['asked']} rewards are missing: the model gave no finite number",
            style="bold red",
            markup=False,
        )
