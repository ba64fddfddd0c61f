"""What foreseen calls would take: tokens, money and time, and how well each figure is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from apm_lab.errors import UnfetchedError
from apm_lab.language.budget import most_tokens_out
from apm_lab.language.foresight import Forecast
from apm_lab.language.prices import cost, price_of
from apm_lab.language.protocols import CountsTokens

__all__ = ["Line", "bill"]

_CHARACTERS = 4  # a token has, where nothing better is known
_USUAL_TEXT, _USUAL_RATING = 250, 8  # tokens of an answer that nothing is known of

Basis = Literal["measured", "tokenizer", "estimated"]


@dataclass(frozen=True, slots=True)
class Line:
    """One role's missing calls of one model.

    `basis` says where `tokens_in` comes from: `measured` on stored rows of the same source (so are `tokens_out`),
    counted by the model's `tokenizer`, or `estimated` at four characters a token. `usd` is None without a price,
    `seconds` without a measured rate.
    """

    role: str
    model: str
    asked: int
    stored: int
    missing: int
    open: int
    tokens_in: int
    tokens_out: int
    basis: Basis
    usd: float | None
    seconds: float | None


def bill(forecast: Forecast, prices: Mapping[str, Sequence[float]]) -> Line:
    """Return what a role's missing calls would take."""
    _, identity, engine, sampling = forecast.header[:4]
    measured, missing = forecast.shelf.measured(), forecast.missing
    basis: Basis = "measured"
    if measured.counted:
        read, written = measured.tokens_in / measured.rows * missing, measured.tokens_out / measured.rows * missing
    else:
        per_character, basis = _per_character(forecast)
        usual = _USUAL_TEXT if forecast.header[0] == "generate" else _USUAL_RATING
        read, written = forecast.characters * per_character, missing * min(usual, most_tokens_out(sampling) or usual)
    price = price_of(prices, identity, engine)
    return Line(
        role=forecast.role,
        model=identity,
        asked=forecast.asked,
        stored=forecast.stored,
        missing=missing,
        open=forecast.open,
        tokens_in=round(read),
        tokens_out=round(written),
        basis=basis,
        usd=0.0 if not missing else None if price is None else cost(price, read, written),
        seconds=0.0 if not missing else measured.seconds / measured.rows * missing if measured.rows else None,
    )


def _per_character(forecast: Forecast) -> tuple[float, Basis]:
    """Return tokens per character: of some calls' own texts where the model counts tokens, else a usual figure."""
    characters = sum(len(sample) for sample in forecast.samples)
    # A judge's tokenizer is that of the language model which it asks.
    for model in (forecast.model, *getattr(forecast.model, "__dict__", {}).values()):
        with suppress(UnfetchedError):
            tokens = model.count_tokens(forecast.samples) if characters and isinstance(model, CountsTokens) else None
            if tokens is not None:
                return tokens / characters, "tokenizer"
    return 1 / _CHARACTERS, "estimated"
