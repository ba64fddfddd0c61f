"""The part of a Lightning Trainer that config may set."""

from __future__ import annotations

from dataclasses import dataclass

from apm_lab.errors import ConfigError

__all__ = ["TrainerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSettings:
    """How and on what a module trains.

    `max_epochs`: None takes the router's own. `threads`: torch threads while fitting and predicting, part of a run's
    identity since sums depend on it. `devices` > 1 with `strategy="auto"` becomes `ddp_spawn`, which doesn't
    relaunch the program; any Lightning strategy may be named instead. `checkpoint_folder`: where an interrupted fit
    can continue from; None writes no file at all. `gradient_clip`: largest gradient norm, None for no clipping.
    """

    max_epochs: int | None = None
    threads: int = 2
    accelerator: str = "cpu"
    devices: int = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    deterministic: bool = True
    gradient_clip: float | None = None
    progress_bar: bool = False
    checkpoint_folder: str | None = None

    def __post_init__(self) -> None:
        for name in ("threads", "devices", "num_nodes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"trainer.{name} is {getattr(self, name)}, expected at least 1")
        if self.max_epochs is not None and self.max_epochs < 1:
            raise ConfigError(f"trainer.max_epochs is {self.max_epochs}, expected at least 1 or null")
        if self.gradient_clip is not None and self.gradient_clip <= 0:
            raise ConfigError(f"trainer.gradient_clip is {self.gradient_clip}, expected a positive number or null")

    @property
    def resolved_strategy(self) -> str:
        """The strategy's Lightning name."""
        several = self.devices * self.num_nodes > 1
        return "ddp_spawn" if several and self.strategy == "auto" else self.strategy

    @property
    def starts_processes(self) -> bool:
        """Whether the fit runs in processes that the trainer starts from this one, by spawning or forking."""
        return self.resolved_strategy.endswith(("_spawn", "_fork", "_notebook"))
