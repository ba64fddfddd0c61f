"""From log-probability differences to the scale 1..10: by what a fixed set of hand-written texts shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files

import numpy as np

from apm_lab.errors import JudgeError
from apm_lab.judging.examples import styled_texts
from apm_lab.maths.preference import MIDPOINT

__all__ = ["Scale", "reference_digest", "reference_texts"]

_LOW, _HIGH = 10, 90  # percentiles of the reference texts
_REACH = 1.5  # points from the midpoint to where these two lie: a text that is all style then just reaches the ends
_LEAST, _MOST = 1.0, 10.0


@cache
def reference_texts(principle: str) -> tuple[str, ...]:
    """Return the reference texts for a principle: in the styles of all others, and in none.

    Its own examples are not among them, for a model may just have been shown them.
    """
    styled = [text for text, name in styled_texts().items() if name != principle]
    return *styled, *_neutral_texts()


def reference_digest() -> str:
    """Return the 16-hex-digit digest of the texts and of how they make a scale, for the store key."""
    parts = [f"{_LOW} {_HIGH} {_REACH}", *styled_texts(), *_neutral_texts()]
    return blake2b("\x1f".join(parts).encode(), digest_size=8).hexdigest()


@cache
def _neutral_texts() -> tuple[str, ...]:
    import yaml

    return tuple(yaml.safe_load(files("apm_lab.judging").joinpath("reference.yaml").read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight line from differences to ratings, cut at 1 and 10."""

    middle: float
    per_point: float

    @classmethod
    def of(cls, principle: str, differences: Sequence[float]) -> Scale:
        """Return the scale on which the median of these is 5.5, and their 10th and 90th percentiles lie 3 points apart.

        A straight line, however lopsided the set is.

        Raises:
            JudgeError: they are all alike, or no numbers: such a model does not hear the instruction.

        """
        low, middle, high = np.percentile(np.asarray(differences, dtype=np.float64), [_LOW, 50, _HIGH])
        if not high > low:
            raise JudgeError(
                f"judge.score=pmi: on '{principle}' the model finds all reference texts equally likely whether told to "
                "follow or to avoid it; take another judge.model.model"
            )
        return cls(float(middle), float(high - low) / (2 * _REACH))

    def rating(self, difference: float) -> float | None:
        """Return the rating in [1, 10], None for what is no number."""
        if not np.isfinite(difference):
            return None
        return min(_MOST, max(_LEAST, MIDPOINT + (difference - self.middle) / self.per_point))
