"""Lightning's `self.log`, sent to a tracker; a file of its own so that trackers import without Lightning."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Protocol

from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities import rank_zero_only

__all__ = ["MetricSink", "TrackerLogger"]


class MetricSink(Protocol):
    """The part of a tracker that training needs."""

    def log(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Keep named figures of one step."""
        ...


class TrackerLogger(Logger):
    """Passes each figure that Lightning logs to `tracker`, its name led by `prefix`, under the optimiser's step.

    Lightning adds `epoch` to every call; it is left out, since the step says the same. Hyperparameters are not
    logged: a run's config is written once, by the run.
    """

    def __init__(self, tracker: MetricSink, prefix: str = "") -> None:
        super().__init__()
        self._tracker, self._prefix = tracker, prefix

    @property
    def name(self) -> str | None:
        """No name: nothing is written to a folder of Lightning's."""
        return None

    @property
    def version(self) -> str | None:
        """No version, see `name`."""
        return None

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object) -> None:
        """Do nothing, see the class."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Pass the figures on, from the first process only: they are sums over all."""
        if named := {self._prefix + name: float(value) for name, value in metrics.items() if name != "epoch"}:
            self._tracker.log(named, step)
