"""A run's budget: what was spent so far is kept in its folder, so that a continued run counts on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from apm_lab.errors import ConfigError
from apm_lab.experiment.run_folder import RunFolder
from apm_lab.judging.judge import streamed_scores
from apm_lab.language.budget import Budget, Guarded, Spent
from apm_lab.language.prices import price_of
from apm_lab.language.recall import streamed
from apm_lab.studies.outlook import deferring

__all__ = ["Guard", "Spending"]

Guard = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Takes the models by role and returns those that a study is handed."""

_FILE = "spent.json"
_EVERY_S = 5.0


class Spending:
    """The budget of the run in `folder` by its config; `keep` writes down what was spent."""

    def __init__(self, config: Mapping[str, Any], folder: RunFolder) -> None:
        self._folder, self._prices, self._written = folder, config["prices"]["models"], time.monotonic()
        limits = config.get("budget") or {}
        self.budget = Budget(**limits, spent=_earlier(folder), keep=self._sometimes)

    def guard(self, models: Mapping[str, Any]) -> dict[str, Any]:
        """Return the models by role, each asked for no more than the budget allows.

        ConfigError where money is limited and the price of some model is not known, or where a model is asked by file:
        what its batch costs is spent before any answer can be counted.
        """
        if not self.budget.limited:
            return dict(models)
        by_file = [role for role, model in models.items() if any(deferring(model))]
        if by_file:
            limits = " ".join(f"budget.{key}={value}" for key, value in self._limits().items() if value is not None)
            raise ConfigError(
                f"{limits} can't hold back a batch file ({', '.join(by_file)}), which goes out whole; take the budget "
                "out (plan=true says what the calls would cost), or take a backend that answers at once"
            )
        prices = {role: price_of(self._prices, model.identity, model.engine) for role, model in models.items()}
        unknown = sorted({models[role].identity.partition("@")[0] for role, price in prices.items() if price is None})
        if unknown and self.budget.usd is not None:
            raise ConfigError(
                f"budget.usd={self.budget.usd}: there is no price for {', '.join(unknown)}; add one, in USD per "
                f"million tokens read and written: 'prices.models={{{unknown[0]}:[0.1,0.4]}}'"
            )
        return {
            role: Guarded(
                model, role, self.budget, prices[role] or (0.0, 0.0), streamed_scores if role == "judge" else streamed
            )
            for role, model in models.items()
        }

    def keep(self) -> None:
        """Write down what was spent, where anything was or there is a limit."""
        if self.budget.limited:
            self._folder.write_json(_FILE, asdict(self.budget.spent))

    def told(self) -> dict[str, Any] | None:
        """Return limits and what was spent, for the manifest; None without a limit."""
        budget = self.budget
        return {"limits": self._limits(), "spent": asdict(budget.spent)} if budget.limited else None

    def _limits(self) -> dict[str, float | None]:
        return {"usd": self.budget.usd, "tokens": self.budget.tokens, "calls": self.budget.calls}

    def _sometimes(self, _spent: Mapping[str, Any]) -> None:
        if time.monotonic() - self._written > _EVERY_S:
            self._written = time.monotonic()
            self.keep()


def _earlier(folder: RunFolder) -> Spent:
    with suppress(OSError, ValueError, TypeError):
        return Spent(**json.loads((folder.path / _FILE).read_text(encoding="utf-8")))
    return Spent()
