"""Progress of a run: bars with counts and time left on a terminal, and the seconds each stage took."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

__all__ = ["StageProgress"]


class StageProgress:
    """Called as `progress(stage, done, total)`. Without a console it only keeps time (`seconds`, by stage)."""

    def __init__(self, console: Console | None) -> None:
        columns = (TextColumn("{task.description:24s}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, console=console, transient=True) if console is not None else None
        self._tasks: dict[str, TaskID] = {}
        self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report a stage's state; the time since the last report is the stage's."""
        now = time.monotonic()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now
        if self._bars is not None:
            if stage not in self._tasks:
                self._tasks[stage] = self._bars.add_task(stage, total=total)
            self._bars.update(self._tasks[stage], completed=done, total=total)

    def __enter__(self) -> StageProgress:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()
