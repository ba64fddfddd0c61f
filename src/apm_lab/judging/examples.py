"""The shipped examples of rated texts: what a model that follows no rubric is shown before the text itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any

__all__ = ["Example", "examples_digest", "examples_of", "own_examples", "styled_texts"]

_FILE = "examples.yaml"
_GENERIC = "generic"


@dataclass(frozen=True, slots=True)
class Example:
    """A text and how strongly it follows a principle, 1..10; how strongly it avoids it is 11 less that."""

    text: str
    principle: str
    rating: int


@cache
def _parsed() -> dict[str, list[dict[str, Any]]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    parsed: dict[str, list[dict[str, Any]]] = yaml.load(_content().decode(), loader)
    return parsed


def _content() -> bytes:
    return files("apm_lab.judging").joinpath(_FILE).read_bytes()


@cache
def examples_of(principle: str) -> tuple[Example, ...]:
    """Return the examples of a principle (by its key), or else the generic ones, each about a principle of its own."""
    rows = _parsed().get(principle) or _parsed()[_GENERIC]
    return tuple(Example(row["text"], row.get("principle", principle), row["rating"]) for row in rows)


def own_examples(principle: str) -> tuple[Example, ...]:
    """Return the examples of a principle, none where it has none of its own."""
    return examples_of(principle) if principle in _parsed() else ()


def styled_texts() -> dict[str, str]:
    """Return the texts of all principles' examples, the generic ones apart, and which principle each stands for."""
    return {row["text"]: name for name, rows in _parsed().items() if name != _GENERIC for row in rows}


@cache
def examples_digest() -> str:
    """Return the 16-hex-digit digest of the file, for the store key."""
    return blake2b(_content(), digest_size=8).hexdigest()
