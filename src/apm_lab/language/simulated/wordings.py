"""The wordings that simulated users put around a prompt, and how often: APM Table 9 and a tail of our own.

Rates are per prompt. Of a listed bigram, `P(side) = kl / ln(ratio)` and `P(rest) = P(side) / ratio`. A tail wording has
`share * (P(side) - P(rest))` on its side and that divided by the ratio elsewhere, with the shares of `constants.yaml`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import log
from typing import Any

from apm_lab.language.simulated.constants import constant, load_yaml

__all__ = ["ATTRIBUTES", "Wording", "catalogue", "rates", "tokens_of"]

ATTRIBUTES = (
    "verbose",
    "enthusiastic",
    "prescriptive",
    "unpolished",
    "open_ended",
    "transactional",
    "anxious",
    "highly_constrained",
    "tech_savvy",
    "hypothetical",
)
# Table 9's own tokens: runs of at least two word characters ("I'm a bit nervous" holds the bigram "bit nervous").
_TOKEN = re.compile(r"\b\w\w+\b")


@dataclass(frozen=True, slots=True)
class Wording:
    """One wording: its tokens, the clauses that carry it, where they stand, and its rate on each listed side.

    `sides` maps (attribute index, +1 or -1) to P(side); every other user shows it at `rest`.
    """

    tokens: tuple[str, ...]
    clauses: tuple[str, ...]
    before: bool
    rest: float
    sides: dict[tuple[int, int], float]


def tokens_of(text: str) -> list[str]:
    """Return the text's tokens as APM Table 9 counts them."""
    return _TOKEN.findall(text.lower())


@cache
def catalogue() -> tuple[Wording, ...]:
    """Return all wordings; a bigram listed for several sides is one, at rest with the mean of its rest rates."""
    listed: dict[str, list[tuple[tuple[int, int], dict[str, Any], float, float]]] = {}
    tails: list[Wording] = []
    shares = constant("tail")["rates"]
    table = load_yaml("wordings.yaml")
    for index, attribute in enumerate(ATTRIBUTES):
        for name, sign in (("follow", 1), ("avoid", -1)):
            for entry in table[attribute][name]:
                on_side = entry["kl"] / log(entry["ratio"])
                elsewhere = on_side / entry["ratio"]
                listed.setdefault(entry["wording"], []).append(((index, sign), entry, on_side, elsewhere))
                for share, tail in zip(shares, entry["tail"], strict=True):
                    rate = share * (on_side - elsewhere)
                    tails.append(_wording(tail, [tail], rate / entry["ratio"], {(index, sign): rate}))
    bigrams = [
        _wording(
            rows[0][1],
            [row[1] for row in rows],
            sum(row[3] for row in rows) / len(rows),
            {row[0]: row[2] for row in rows},
        )
        for rows in listed.values()
    ]
    return (*bigrams, *tails)


def rates(attributes: tuple[tuple[int, int], ...]) -> list[float]:
    """Return each wording's rate for a user with these active (attribute index, sign) pairs.

    With several active attributes the excess over the rest rate adds up as independent reasons to use the wording.
    """
    result = []
    for wording in catalogue():
        silent = 1.0 - wording.rest
        for side in attributes:
            if side in wording.sides:
                silent *= (1.0 - wording.sides[side]) / (1.0 - wording.rest)
        result.append(1.0 - silent)
    return result


def _wording(
    entry: dict[str, Any], entries: list[dict[str, Any]], rest: float, sides: dict[tuple[int, int], float]
) -> Wording:
    # Clauses of all sides are pooled: beyond the wording itself, a clause must not tell the side.
    clauses = tuple(dict.fromkeys(clause for each in entries for clause in each["clauses"]))
    return Wording(tuple(tokens_of(entry["wording"])), clauses, entry["place"] == "before", rest, sides)
