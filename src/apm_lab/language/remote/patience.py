"""How long a call is tried: how often, with what waits between, and what a server asks to be waited."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from random import Random

__all__ = ["Patience", "asked_wait"]

# Of its own: a draw from the global one, in another thread, would move the draws of others.
_JITTER = Random()


@dataclass(frozen=True, slots=True)
class Patience:
    """Attempts at one call and the waits between them, in seconds.

    `attempts`: in all. `unheard`: at an endpoint that has never answered in this process. `malformed`: that came back
    as nonsense. `longest_ask_s`: a server that asks for more than this is not waited for. `grace_s`: how long the
    other calls in flight may still bring their answers after one has failed for good.
    """

    attempts: int = 10
    unheard: int = 4
    malformed: int = 5
    first_s: float = 0.5
    most_s: float = 60.0
    longest_ask_s: float = 300.0
    grace_s: float = 30.0

    def delay(self, faults: int) -> float:
        """Return the wait after the `faults`-th fault of a call: doubling, and half of it drawn at random."""
        full: float = min(self.most_s, self.first_s * 2.0 ** (faults - 1))
        return full * _JITTER.uniform(0.5, 1.0)


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a Retry-After header asks for (a number or an HTTP date), None where there is none."""
    asked = headers.get("Retry-After", "").strip()
    try:
        wait = float(headers["retry-after-ms"]) / 1000 if "retry-after-ms" in headers else float(asked)
    except ValueError:
        try:
            wait = parsedate_to_datetime(asked).timestamp() - time.time()
        except (ValueError, TypeError):  # neither
            return None
    return max(0.0, wait) if isfinite(wait) else None
