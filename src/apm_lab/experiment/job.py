"""What was asked for on the command line, composed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """The resolved `config` (plain containers) of one run, and how it came about.

    `overrides` as given; `choices`: the chosen option of each config group; `folders`: the configuration folders, the
    first of which wins; `hydra_files`: Hydra's own config files, kept with the results.
    """

    config: Mapping[str, Any]
    overrides: list[str]
    choices: Mapping[str, str]
    folders: Sequence[Path]
    hydra_files: Mapping[str, str]

    @property
    def method(self) -> str:
        """The chosen option of `method`: what tables call it."""
        return str(self.choices.get("method"))
