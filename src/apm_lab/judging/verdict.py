"""The answer a judge gives: a number on 1..10, or None for whatever is not plainly one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from apm_lab.data.pool import slug

__all__ = ["joint_verdicts", "verdict"]

# Reasoning that stands before an answer: in tags, or in the channels of gpt-oss. A template may have opened it already.
_THOUGHT = re.compile(
    r"\A.*</(?:think|thinking|reasoning|thought)>|\A.*<\|channel\|>\s*final\s*(?:<\|constrain\|>\w*)?<\|message\|>",
    re.DOTALL | re.IGNORECASE,
)
_UNFINISHED = re.compile(
    r"<(?:think|thinking|reasoning|thought)>|<\|channel\|>\s*(?:analysis|commentary)", re.IGNORECASE
)
_TOKENS = re.compile(r"<\|[a-z_]+\|>|</?s>|<end_of_turn>|<eos>", re.IGNORECASE)
_NAMES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_WORDS = {word: str(place) for place, word in enumerate(_NAMES, start=1)}
_NUMBER = r"(?<![\w.,/+-])(\d+(?:\.\d+)?)(?![\w%]|[.,/]\d)"
_OUT_OF = r"\s*(?:/|out\s+of|of)\s*(\d+)\b"
_SCALE = re.compile(
    r"\b(?:from|scale of|range of)?\s*1\s*(?:\([^)]*\)\s*)?(?:to|-|–|\.\.)\s*10\b(?:\s*\([^)]*\))?", re.IGNORECASE
)
_RANGE = re.compile(r"\d\s*(?:-|–|—|~|to|or|and)\s*\d")
_LABEL = r"(?:rat(?:ing|e)d?|scored?|verdict|answer|grade|boxed)"
_LABELLED = re.compile(
    rf"\b{_LABEL}\b(?:\s+(?:it|this|this text|the text|the principle|of|is|would be|as|at|a|an|with|for the text))*"
    rf"[\s:=\"'*_({{\[`]*(?:is\s+)?[*_\"']*{_NUMBER}",
    re.IGNORECASE,
)
_OF_TEN = re.compile(rf"(?<![\w.,/+-])(\d+(?:\.\d+)?){_OUT_OF}", re.IGNORECASE)
_BARE = re.compile(r"[\s*_\"'`()\[\]{}$#>.!:]*(\d+(?:\.\d+)?)[\s*_\"'`()\[\]{}$.!]*")
_LEADING = re.compile(r"[*_\"'`]*(\d+(?:\.\d+)?)[*_\"'`]*\s*(?:[-–—,;:]\s*|\(|because\b)(?=[A-Za-z*(])", re.IGNORECASE)


def verdict(answer: str) -> float | None:
    """Return the rating that an answer states, in [1, 10], or None where it states none, several or one off the scale.

    Reasoning blocks don't count. Read are a number that stands alone on its line, that a word such as "rating" points
    at, that comes "out of 10", or with which the answer begins ("8 - very casual"); all that are found must agree.
    """
    text = _spoken(answer)
    if text is None:
        return None
    text = _SCALE.sub(" ", text)
    found: set[float] = set()
    for number, whole in _OF_TEN.findall(text):
        if int(whole) != 10:
            return None
        found.add(float(number))
    text = _OF_TEN.sub(r"\1", text)
    if _RANGE.search(text):
        return None
    found |= {float(number) for number in _LABELLED.findall(text)}
    for place, line in enumerate(text.splitlines()):
        match = _BARE.fullmatch(line) or (_LEADING.match(line) if place == 0 else None)
        if match:
            found.add(float(match[1]))
    return _on_scale(found)


def joint_verdicts(answer: str, principles: Sequence[str]) -> list[float | None]:
    """Return one rating per principle (keys as `data.pool.slug` makes them) from an answer about all of them.

    A JSON object or lines "name: number" (a list or a table of them). None for a principle that is left out, or that
    stands there with different numbers; names that were not asked are nobody's.
    """
    text = _spoken(answer)
    if text is None:
        return [None] * len(principles)
    found: dict[str, set[float | None]] = {}
    for name, value in _named_values(text):
        found.setdefault(slug(name), set()).add(_value(value))
    ratings = [found.get(name, {None}) for name in principles]
    return [next(iter(values)) if len(values) == 1 else None for values in ratings]


def _spoken(answer: str) -> str | None:
    """Return what follows the reasoning; None where the reasoning has not ended."""
    text = _THOUGHT.sub("", answer)
    if _UNFINISHED.search(text):
        return None
    text = _TOKENS.sub(" ", text).strip()
    return _WORDS.get(text.lower().strip(".*_\"' "), text)


def _on_scale(found: set[float]) -> float | None:
    if len(found) != 1:
        return None
    number = found.pop()
    return number if 1 <= number <= 10 else None


def _named_values(text: str) -> list[tuple[str, object]]:
    braces = re.search(r"\{.*\}", text, re.DOTALL)
    if braces:
        try:
            pairs = json.loads(braces[0], object_pairs_hook=list)
        except (ValueError, RecursionError):
            return []
        return pairs if all(isinstance(value, int | float | str) for _, value in pairs) else []
    named = [re.split(r"[:=|]|\s[-–—]+\s", line.strip(" \t|"), maxsplit=1) for line in text.splitlines()]
    return [(re.sub(r"^\W*(?:\d+[.)])?", "", parts[0]), parts[1]) for parts in named if len(parts) == 2]


def _value(value: object) -> float | None:
    if isinstance(value, str):
        return verdict(value.strip(" |\t,;"))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return _on_scale({float(value)}) if number else None  # type: ignore[arg-type]
