"""Progress of a run: bars with counts and time left on a terminal, and what each stage took."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from apm_lab.language.recall import CallCounts

__all__ = ["StageProgress"]


class StageProgress:
    """Called as `progress(stage, done, total)`; without a console there are no bars.

    `stages` has for each stage its `seconds` and, by role, how many calls it made (`counts` since the last report).
    """

    def __init__(self, console: Console | None, counts: Mapping[str, CallCounts]) -> None:
        columns = (TextColumn("{task.description:24s}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, console=console, transient=True) if console is not None else None
        self._tasks: dict[str, TaskID] = {}
        self._last = time.monotonic()
        self._made = dict.fromkeys(counts, 0)
        self.counts = counts
        self.stages: dict[str, dict[str, float]] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report a stage's state; the time and the calls since the last report are the stage's."""
        now = time.monotonic()
        took = self.stages.setdefault(stage, {"seconds": 0.0})
        took["seconds"] = round(took["seconds"] + now - self._last, 6)
        self._last = now
        for role, count in self.counts.items():
            if count.made > self._made[role]:
                took[role] = took.get(role, 0) + count.made - self._made[role]
                self._made[role] = count.made
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
