"""The frozen records that travel between floors."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChoiceQuestion", "Group", "Message", "Prompt", "Response", "Style"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One source prompt: `text`, where it comes from, and its licence (empty where unknown)."""

    text: str
    source: str = ""
    licence: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat turn: `role` is `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Style:
    """One response style: follow (`direction=1`) or avoid (`direction=-1`) the principle with this index.

    Styles are numbered 0..2M-1 as in the score vector of APM Sec. 5.2: `2 j` follows principle j, `2 j + 1` avoids it.
    """

    principle: int
    direction: int

    @property
    def index(self) -> int:
        """The style's number, 0..2M-1."""
        return 2 * self.principle + (self.direction < 0)

    @classmethod
    def of(cls, index: int) -> Style:
        """Return the style with this number."""
        return cls(int(index) // 2, 1 if index % 2 == 0 else -1)


@dataclass(frozen=True, slots=True)
class Response:
    """A method's answer for one test user: a `style` (answered by the model's styled response) or a `text` of its own.

    Exactly one of the two is set, except for the neutral response, which has neither and `sample` 0 or 1 (the twin).
    """

    style: Style | None = None
    text: str | None = None
    sample: int = 0


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """A question that comes with its choices: `text` holds its context too; `choices` in the order they are shown."""

    id: str
    text: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """People who have these values of these traits in common: one of each, or several for an intersection."""

    traits: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def trait(self) -> str:
        """What the group is one value of, as tables have it: `AGE`, or `AGE x SEX`."""
        return " x ".join(self.traits)

    @property
    def value(self) -> str:
        """The group within its trait: `18-29`, or `18-29 x Female`."""
        return " x ".join(self.values)
