"""The results table of a finished run, from its files alone."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from apm_lab.errors import DataError

__all__ = ["print_stored"]


def print_stored(console: Console, folder: Path) -> None:
    """Print the figures over all draws of the run in `folder`; DataError when there is no finished run."""
    import pyarrow.parquet as pq

    file = folder / "results.parquet"
    if not (folder / "manifest.json").is_file() or not file.is_file():
        raise DataError(f"{folder} holds no finished run (no manifest.json and results.parquet)")
    try:
        rows = [row for row in pq.read_table(file).to_pylist() if row["draw"] is None]
    except (OSError, ValueError, KeyError) as fault:
        raise DataError(f"{file} can't be read: {fault}") from None
    by_arm: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        by_arm.setdefault(row["method"], {})[row["metric"]] = row
    table = Table(title=escape(str(folder)), title_justify="left")
    for name in ("method", "Delta (sd)", "95% interval", "W/L (sd)", "win rate", "accuracy", "n"):
        table.add_column(name)
    for arm, figures in by_arm.items():
        delta, wl = figures["delta"], figures["win_loss"]
        table.add_row(
            escape(arm),
            f"{delta['value']:+.2f} ({delta['sd']:.2f})",
            f"{delta['low']:+.2f} .. {delta['high']:+.2f}",
            f"{wl['value']:.2f} ({wl['sd']:.2f})",
            f"{figures['win_rate']['value']:.3f}",
            f"{figures['accuracy']['value']:.3f}",
            str(delta["n"]),
        )
    console.print(table)
    if any(row["void"] for row in rows):
        console.print("VOID: a control arm is not zero; nothing here counts", style="bold red")
