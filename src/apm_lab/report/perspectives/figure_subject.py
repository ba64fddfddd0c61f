"""What figures are drawn of: the audits, their tables, and the tables of all of them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apm_lab.report.perspectives.across import ModelAudit
from apm_lab.report.perspectives.figure_layout import Rows, rows

__all__ = ["Key", "Subject", "by_trait", "mean", "there"]

Row = Mapping[str, Any]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Subject:
    """Audits on one data set, called `dataset` in titles; `together`: the tables of `across_frames`, none for one."""

    audits: Sequence[ModelAudit]
    dataset: str
    together: Mapping[str, Sequence[Row]] = field(default_factory=dict)

    @property
    def several(self) -> bool:
        """Return whether models are held against each other."""
        return len(self.audits) > 1

    def titled(self, what: str) -> str:
        """Return a title that says the data set and the model."""
        who = f"{len(self.audits)} reward models" if self.several else self.audits[0].name
        return f"{what}{'' if what.endswith('?') else ':'} {who} on {self.dataset}"

    def all_have(self, *names: str) -> bool:
        """Return whether every audit has a row in each of these tables."""
        return all(audit.frames.get(name) for name in names for audit in self.audits)

    def any_value(self, name: str, *columns: str) -> bool:
        """Return whether some audit's table has a number other than 0 in one of these columns."""
        return any(row[column] for audit in self.audits for row in audit.frames[name] for column in columns)


def there(values: Sequence[float | None]) -> list[float]:
    """Return the values that are there."""
    return [value for value in values if value is not None]


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are there, None without one."""
    known = there(values)
    return sum(known) / len(known) if known else None


def by_trait(
    keys: Sequence[Key], order: Mapping[Key, float], called: Callable[[Key], str], first: Sequence[Key] = ()
) -> tuple[Rows, list[Key]]:
    """Return rows under a heading per trait, and their keys: traits and groups in ascending `order`, `first` on top."""
    traits: dict[str, list[Key]] = {}
    for key in keys:
        if key not in first:
            traits.setdefault(key[0], []).append(key)
    last = float("inf")
    means = {trait: mean([order.get(key) for key in own]) for trait, own in traits.items()}
    places = {trait: last if value is None else value for trait, value in means.items()}
    listed = [(called(key), False) for key in first]
    placed = list(first)
    for trait in sorted(traits, key=lambda name: places[name]):
        listed.append((trait, True))
        for key in sorted(traits[trait], key=lambda one: order.get(one, last)):
            listed.append((called(key), False))
            placed.append(key)
    return rows(listed), placed
