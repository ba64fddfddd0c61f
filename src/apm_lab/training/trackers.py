"""Where a run's figures go beside its own files: a CSV always, W&B on top.

None of them can stop a run, but for a full disk under the CSV.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.training.credentials import key_configured, without_key, without_secrets
from apm_lab.training.csv_tracker import Cell, CsvTracker

if TYPE_CHECKING:
    from wandb import Run

WandbMode = Literal["auto", "online", "offline", "disabled"]

__all__ = ["Cell", "CsvTracker", "Tracker", "Trackers", "WandbTracker"]

_LOGGER = logging.getLogger(__name__)
_MODES = ("auto", "online", "offline", "disabled")


class Tracker(Protocol):
    """Keeps what a run reports while it goes on."""

    def log(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Keep named figures, of one step where they have one."""
        ...

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Keep a table; one of the same name is replaced."""
        ...

    def summary(self, figures: dict[str, Cell]) -> None:
        """Keep the run's final figures; later ones of the same name replace earlier ones."""
        ...

    def finish(self, exit_code: int = 0) -> None:
        """Close; nothing is kept afterwards."""
        ...


class Trackers:
    """Passes everything to each of `trackers`; one that fails is dropped with a single warning line.

    A full disk is raised: a run whose figures are cut off must not count as done.
    """

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._alive = list(trackers)

    def log(self, metrics: dict[str, float], step: int | None = None) -> None:
        """See `Tracker.log`."""
        self._each(lambda tracker: tracker.log(metrics, step))

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """See `Tracker.table`."""
        self._each(lambda tracker: tracker.table(name, columns, rows))

    def summary(self, figures: dict[str, Cell]) -> None:
        """See `Tracker.summary`."""
        self._each(lambda tracker: tracker.summary(figures))

    def finish(self, exit_code: int = 0) -> None:
        """See `Tracker.finish`."""
        self._each(lambda tracker: tracker.finish(exit_code))

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for tracker in list(self._alive):
            try:
                call(tracker)
            except Exception as error:  # a mirror of the figures must never cost the run
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                self._alive.remove(tracker)
                _LOGGER.warning("%s stopped: %s: %s", type(tracker).__name__, type(error).__name__, error)


class WandbTracker:
    """Mirrors a run to Weights & Biases; starts at once, never raises into the run, prints nothing.

    `mode`: `auto` is what WANDB_MODE says, else `online` when a key is configured (WANDB_API_KEY or netrc; the network
    is not tried), else `offline`; an online run that can't start within `init_timeout` seconds becomes an offline one.
    Figures of a step carry it as `step`, which is their axis: several trainings of one run may each count from 0.
    Config entries named like secrets are masked, and the command line is not recorded.
    Raises ConfigError for another mode, nothing else.
    """

    def __init__(
        self,
        *,
        project: str,
        folder: str | Path,
        entity: str | None = None,
        group: str | None = None,
        job_type: str | None = None,
        tags: Sequence[str] = (),
        name: str | None = None,
        run_id: str | None = None,
        config: Mapping[str, Any] | None = None,
        mode: Literal["auto", "online", "offline", "disabled"] = "auto",
        init_timeout: float = 10.0,
    ) -> None:
        if mode not in _MODES:
            raise ConfigError(f"logger.mode is {mode!r}{did_you_mean(mode, _MODES)}")
        self._timeout = init_timeout
        self._arguments: dict[str, Any] = {
            "project": project,
            "entity": entity,
            "group": group,
            "job_type": job_type,
            "tags": list(tags),
            "name": name,
            # Under a sweep agent the agent has named the run already.
            "id": None if os.environ.get("WANDB_SWEEP_ID") else run_id,
            "config": without_secrets(config or {}),
            "dir": str(folder),
        }
        self._run: Run | None = None
        self._notice = ""
        self._start(_resolved_mode(mode), mode)

    @property
    def notice(self) -> str:
        """One line for the user where the run is not simply online; empty otherwise."""
        return self._notice

    def log(self, metrics: dict[str, float], step: int | None = None) -> None:
        """See `Tracker.log`."""
        self._guarded(lambda run: run.log(metrics if step is None else {**metrics, "step": step}))

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """See `Tracker.table`."""

        def send(run: Run) -> None:
            import wandb

            data = [list(row) for row in rows]
            run.log({name: wandb.Table(columns=list(columns), data=data, allow_mixed_types=True)})

        self._guarded(send)

    def summary(self, figures: dict[str, Cell]) -> None:
        """See `Tracker.summary`."""
        self._guarded(lambda run: run.summary.update(figures))

    def finish(self, exit_code: int = 0) -> None:
        """Close the run; waits at most `init_timeout` seconds for uploads."""
        self._guarded(lambda run: run.finish(exit_code=exit_code))
        self._run = None

    def _start(self, mode: WandbMode, asked: WandbMode) -> None:
        if mode == "disabled":
            self._notice = "W&B: disabled"
            return
        try:
            self._run = self._open(mode)
        except Exception as error:  # no key, no network, no folder: never the run's problem
            if mode == "offline":
                self._warn(error)
                self._notice = "W&B: could not start, figures are kept locally only"
                return
            if self._arguments["id"]:  # wandb's service still holds the id of the run that could not start
                self._arguments["id"] += "-offline"
            self._start("offline", asked)
            if self._run is not None:
                self._notice = f"W&B: not reachable ({type(error).__name__}). {self._where()}"
            return
        if mode == "offline":
            reason = "no API key (WANDB_API_KEY or netrc). " if asked == "auto" and not key_configured() else ""
            self._notice = f"W&B: {reason}{self._where()}"

    def _open(self, mode: WandbMode) -> Run:
        import wandb

        wanted = {
            "silent": True,
            "console": "off",
            "init_timeout": self._timeout,
            "finish_timeout": self._timeout,
            "disable_code": True,
            "disable_git": True,
            "x_disable_meta": True,  # would record the command line, where a key may stand
            "x_save_requirements": False,
        }
        settings = {name: value for name, value in wanted.items() if name in wandb.Settings.model_fields}
        Path(self._arguments["dir"]).mkdir(parents=True, exist_ok=True)
        with _silenced():
            run = wandb.init(
                **self._arguments,
                mode="online" if mode == "online" else "offline",
                resume="allow" if mode == "online" and self._arguments["id"] else None,
                reinit="create_new",  # a run that the caller has open goes on
                settings=wandb.Settings(**settings),
            )
        run.define_metric("*", step_metric="step")
        return run

    def _where(self) -> str:
        folder = self._arguments["dir"] if self._run is None else Path(self._run.dir).parent
        return f"Kept offline; send it with: wandb sync {folder}"

    def _guarded(self, call: Callable[[Run], object]) -> None:
        if self._run is None:
            return
        try:
            call(self._run)
        except Exception as error:  # a mirror of the figures must never cost the run
            self._run = None
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        _LOGGER.warning("W&B stopped: %s: %s", type(error).__name__, without_key(" ".join(str(error).split())))


def _resolved_mode(mode: WandbMode) -> WandbMode:
    if mode != "auto":
        return mode
    if (wish := os.environ.get("WANDB_MODE", "")) in _MODES[1:]:
        return cast("WandbMode", wish)
    return "online" if key_configured() else "offline"


@contextmanager
def _silenced() -> Iterator[None]:
    """Keep wandb's login, which reads no settings of ours, from printing."""
    before = os.environ.get("WANDB_SILENT")
    os.environ["WANDB_SILENT"] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ["WANDB_SILENT"]
        else:
            os.environ["WANDB_SILENT"] = before
