"""What tokens cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["cost", "price_of"]

Price = tuple[float, float]
"""USD per million tokens read, and written."""


def price_of(prices: Mapping[str, Sequence[float]], identity: str, engine: str) -> Price | None:
    """Return a model's price, None where the table has none: never zero. A simulated model costs nothing.

    The table names models by id; a revision (`id@revision`) need not be named, and where it is it counts first.
    """
    if engine == "simulated":
        return 0.0, 0.0
    name = identity if identity in prices else identity.partition("@")[0]
    found = prices.get(name)
    return None if found is None else (float(found[0]), float(found[1]))


def cost(price: Price, tokens_in: float, tokens_out: float) -> float:
    """Return USD."""
    return (price[0] * tokens_in + price[1] * tokens_out) / 1e6
