"""How the responder reads style off text: it knows its own sentences again; the judge has a lexicon of its own."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise

from apm_lab.language.simulated.constants import load_yaml

__all__ = ["NAMES", "contrast", "example_pairs", "guidance_direction", "named", "style_levels"]

NAMES = {
    "persuasive": ("persuasive",),
    "elaborate": ("elaborate",),
    "casual": ("casual",),
    "prescriptive": ("prescriptive",),
    "gentle": ("gentle",),
    "acknowledges_uncertainty": ("uncertainty",),
    "emotionally_neutral": ("emotionally neutral",),
    "assumes_no_prior_knowledge": ("prior knowledge",),
    "collaborative": ("collaborative",),
    "presents_multiple_perspectives": ("multiple perspectives",),
}
"""What the responder understands of an instruction: words that name a principle, by its key and in its order."""

_WORD = re.compile(r"[a-z0-9]+")
_INSIDE_A_WORD = str.maketrans("", "", "'’‘ʼ`-")
# Contexts of retrieval hold other users' texts between tags (methods/context.py).
_EXAMPLE = re.compile(r"<liked>(?P<liked>.*?)</liked>\s*<disliked>(?P<disliked>.*?)</disliked>", re.DOTALL)
_PREFERENCE = re.compile(r"<preference>(.*?)</preference>", re.DOTALL)
_SENTENCE = re.compile(r"[.!?;\n]+")

_Direction = tuple[int, int]
"""A principle's place in `NAMES`, and 1 to follow it or -1 to avoid it."""


@lru_cache(maxsize=8192)
def style_levels(text: str) -> tuple[int, ...]:
    """Return per principle how many of its follow sentences less how many of its avoid sentences a text holds.

    A sentence is known by its words in their order: case, punctuation and what stands around it don't matter.
    """
    words = _words(text)
    levels, sentences = [0] * len(NAMES), _sentences()
    for place, pair in enumerate(pairwise(words)):
        for sentence, principle, direction in sentences.get(pair, ()):
            if tuple(words[place : place + len(sentence)]) == sentence:
                levels[principle] += direction
    return tuple(levels)


def contrast(pairs: Iterable[tuple[str, str]]) -> _Direction | None:
    """Return what sets liked texts apart most from disliked ones, over pairs of both; None where nothing does.

    The largest absolute sum over pairs of level(liked) - level(disliked); ties go to the first principle.
    """
    sums = [0] * len(NAMES)
    for liked, disliked in pairs:
        for principle, (more, less) in enumerate(zip(style_levels(liked), style_levels(disliked), strict=True)):
            sums[principle] += more - less
    return _strongest(enumerate(sums))


def guidance_direction(text: str) -> tuple[bool, _Direction | None]:
    """Return whether a text holds examples or summaries of preferences, and what these come to.

    Words in examples are no instruction. Each summary votes for what it names, sentence by sentence, and against it
    where the sentence says "avoid"; the largest sum of votes wins, of equal ones the first that is named.
    """
    pairs = example_pairs(text)
    if pairs:
        return True, contrast(pairs)
    summaries = _PREFERENCE.findall(text)
    votes: dict[int, int] = {}
    for summary in summaries:
        for sentence in _SENTENCE.split(summary):
            for principle, direction in named(sentence):
                votes[principle] = votes.get(principle, 0) + direction
    return bool(summaries), _strongest(votes.items())


def example_pairs(text: str) -> list[tuple[str, str]]:
    """Return the (liked, disliked) texts between the tags of a context."""
    return [(found["liked"], found["disliked"]) for found in _EXAMPLE.finditer(text)]


def named(sentence: str) -> list[_Direction]:
    """Return the principles that a sentence names, in the order in which it names them."""
    words = re.sub(r"[\W_]+", " ", sentence.lower())
    places = {
        principle: min(words.find(name) for name in names if name in words)
        for principle, names in enumerate(NAMES.values())
        if any(name in words for name in names)
    }
    direction = -1 if "avoid" in words else 1
    return [(principle, direction) for principle in sorted(places, key=places.__getitem__)]


def _strongest(sums: Iterable[tuple[int, int]]) -> _Direction | None:
    principle, total = max(sums, key=lambda entry: abs(entry[1]), default=(0, 0))
    return (principle, 1 if total > 0 else -1) if total else None


def _words(text: str) -> list[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.lower().translate(_INSIDE_A_WORD))


@cache
def _sentences() -> dict[tuple[str, str], list[tuple[tuple[str, ...], int, int]]]:
    """Return the sentences as (words, principle, direction), by their first two words."""
    phrases = load_yaml("phrases.yaml")
    found: dict[tuple[str, str], list[tuple[tuple[str, ...], int, int]]] = {}
    for principle, key in enumerate(NAMES):
        for side, direction in (("follow", 1), ("avoid", -1)):
            for sentence in phrases[key][side]:
                # A hyphen that was taken out leaves one word or two.
                for words in {tuple(_words(sentence)), tuple(_words(sentence.replace("-", " ")))}:
                    found.setdefault((words[0], words[1]), []).append((words, principle, direction))
    return found
