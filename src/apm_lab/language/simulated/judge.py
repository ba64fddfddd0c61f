"""The simulated judge: reads style off any English text with a weighted lexicon of its own."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import zip_longest
from math import floor, log2

from apm_lab.errors import ConfigError, require_known
from apm_lab.language.protocols import Question
from apm_lab.language.simulated.constants import constant, load_yaml, package_digest
from apm_lab.maths.preference import MIDPOINT

__all__ = ["SimulatedJudge", "read_styles"]

_TOKEN = re.compile(r"[a-z0-9]+")
_APOSTROPHES = str.maketrans("", "", "'’‘ʼ`")
_NEGATIONS = frozenset(
    [
        "no",
        "not",
        "without",
        "nothing",
        "none",
        "never",
        "neither",
        "nor",
        "nobody",
        "cannot",
        "cant",
        "dont",
        "doesnt",
        "isnt",
        "wont",
    ]
)

# The marker's tokens, and what it says: (2 j for follow or 2 j + 1 for avoid, signed weight) of each list it stands in.
_Marker = tuple[tuple[str, ...], tuple[tuple[int, float], ...]]


class SimulatedJudge:
    """Rates how strongly a text follows a principle, 1..10, from the wording alone.

    The reading is `5.5 + gain * (follow markers - avoid markers)`, cut at 1 and 10. A sampled rating rounds it up or
    down at random with the right mean, seeded by the question's key; an expected rating is the reading itself.
    """

    engine = "simulated"

    def __init__(self, score: str = "sampled") -> None:
        if score not in ("sampled", "expected"):
            raise ConfigError(
                f"judge.score={score} is not available from the simulated judge; one of: expected, sampled"
            )
        self._expected = score == "expected"

    @property
    def identity(self) -> str:
        """Name and digest of code and constants."""
        return f"simulated_judge@{package_digest('judge.py', 'lexicon.yaml', 'constants.yaml')}"

    @property
    def sampling(self) -> str:
        """The sampling values, for the store key."""
        return '{"score": "expected"}' if self._expected else '{"score": "sampled"}'

    def require(self, attributes: Sequence[str], principles: Sequence[str]) -> None:
        """Raise ConfigError for principles that the lexicon doesn't have; it reads no attributes."""
        require_known("pool.principles: the simulated judge has no reading of", principles, _principles())

    def score(self, text: str, questions: Sequence[Question], keys: Sequence[bytes]) -> list[float | None]:
        """Return one rating per question; `keys` (at least 4 bytes each) seed the rounding."""
        readings = read_styles(text)
        places = _principles()
        ratings: list[float | None] = []
        for question, key in zip(questions, keys, strict=True):
            if question.principle not in places:
                self.require((), [question.principle])
            reading = readings[places[question.principle]]
            reading = reading if question.direction > 0 else 2 * MIDPOINT - reading
            ratings.append(reading if self._expected else _round_at_random(reading, key))
        return ratings


def read_styles(text: str) -> list[float]:
    """Return the text's reading in [1, 10] on each principle, in the lexicon's order."""
    scale = constant("saturation")
    gain = constant("judge_gain")["value"]
    return [min(scale["high"], max(scale["low"], MIDPOINT + gain * weight)) for weight in marker_weights(text)]


def marker_weights(text: str) -> list[float]:
    """Return per principle the summed weight of follow markers less avoid markers.

    A marker is a run of tokens (NFKC, lower-case, apostrophes removed, `[a-z0-9]+`); within one list the longest match
    at a place wins and uses its tokens up.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    tokens = _TOKEN.findall(text.lower().translate(_APOSTROPHES))
    singles, runs = _markers()
    sums = [0.0] * len(_principles())
    # Length speaks for detail too: one unit per halving, bounded both ways.
    length, reach = constant("judge_length"), constant("judge_negation")["value"]
    halvings = log2(max(1, len(tokens)) / length["usual_words"])
    sums[_principles()["elaborate"]] = min(length["high"], max(length["low"], halvings))
    used_until = [0] * (2 * len(sums))
    for place, pair in enumerate(zip_longest(tokens, tokens[1:])):
        matches = (
            [run for run in runs[pair] if tuple(tokens[place : place + len(run[0])]) == run[0]] if pair in runs else []
        )
        if pair[0] in singles:
            matches.append(singles[pair[0]])
        for phrase, effects in matches:
            negated = not _NEGATIONS.isdisjoint(tokens[max(0, place - reach) : place])
            for side, weight in effects:
                if used_until[side] <= place:
                    used_until[side] = place + len(phrase)
                    sums[side >> 1] += -weight if negated else weight
    return sums


@cache
def _principles() -> dict[str, int]:
    return {name: place for place, name in enumerate(load_yaml("lexicon.yaml"))}


@cache
def _markers() -> tuple[dict[str, _Marker], dict[tuple[str, str], list[_Marker]]]:
    """Return one-token markers by token, and longer ones by their first two tokens, longest first."""
    effects: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for principle, sides in enumerate(load_yaml("lexicon.yaml").values()):
        for name, sign in (("follow", 1.0), ("avoid", -1.0)):
            for marker, weight in sides[name].items():
                side = 2 * principle + (sign < 0)
                effects.setdefault(tuple(str(marker).split()), []).append((side, sign * weight))
    singles: dict[str, _Marker] = {}
    runs: dict[tuple[str, str], list[_Marker]] = {}
    for phrase in sorted(effects, key=len, reverse=True):
        if len(phrase) == 1:
            singles[phrase[0]] = (phrase, tuple(effects[phrase]))
        else:
            runs.setdefault((phrase[0], phrase[1]), []).append((phrase, tuple(effects[phrase])))
    return singles, runs


def _round_at_random(reading: float, key: bytes) -> float:
    share = int.from_bytes(key[:4], "big") / 2**32
    return float(floor(reading + share))
