"""The attributes and principles of a benchmark, and the instructions that name them to a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from apm_lab.errors import ConfigError
from apm_lab.records import Message, Style

__all__ = ["ATTRIBUTES", "PRINCIPLES", "Pool", "guided_messages", "slug", "style_instruction", "styled_messages"]

# APM Table 6, each side down its left column and then down its right one; smaller pools take the first N, M.
ATTRIBUTES = (
    "verbose",
    "enthusiastic",
    "prescriptive",
    "unpolished",
    "open-ended",
    "transactional",
    "anxious",
    "highly constrained",
    "tech-savvy",
    "hypothetical",
)
PRINCIPLES = (
    "persuasive",
    "elaborate",
    "casual",
    "prescriptive",
    "gentle",
    "acknowledges uncertainty",
    "emotionally neutral",
    "assumes no prior knowledge",
    "collaborative",
    "presents multiple perspectives",
)
# Principles that are no adjectives need other words than "be X" and "avoid being X".
_INSTRUCTIONS = {
    "acknowledges uncertainty": ("Acknowledge uncertainty.", "Avoid acknowledging uncertainty."),
    "assumes no prior knowledge": ("Assume no prior knowledge.", "Avoid assuming no prior knowledge."),
    "presents multiple perspectives": ("Present multiple perspectives.", "Avoid presenting multiple perspectives."),
}


def slug(name: str) -> str:
    """Return the name as a key: lower-case, words joined by underscores."""
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")


@dataclass(frozen=True, slots=True)
class Pool:
    """N attributes and M principles by name, and where a style instruction stands: `system` or `user` turn."""

    attributes: tuple[str, ...]
    principles: tuple[str, ...]
    placement: str = "system"

    def __post_init__(self) -> None:
        for kind, names in (("attributes", self.attributes), ("principles", self.principles)):
            if not names:
                raise ConfigError(f"pool.{kind} is empty; name at least one, or leave it null for APM Table 6")
            keys = [slug(str(name)) for name in names]
            if not all(keys):
                raise ConfigError(f"pool.{kind} holds an empty name: {list(names)}")
            twice = next((name for name, key in zip(names, keys, strict=True) if keys.count(key) > 1), None)
            if twice is not None:
                raise ConfigError(f"pool.{kind} names '{twice}' twice; every name must be given once")

    @classmethod
    def chosen(
        cls, size: int | None, attributes: Sequence[str] | None, principles: Sequence[str] | None, placement: str
    ) -> Pool:
        """Return the first `size` of Table 6 on both sides, or the names given (which win over `size`)."""
        most = min(len(ATTRIBUTES), len(PRINCIPLES))
        if size is not None and not 1 <= size <= most:
            raise ConfigError(f"pool.size={size}: Table 6 has {most} attributes and principles; take 1 to {most}")
        return cls(
            tuple(attributes) if attributes is not None else ATTRIBUTES[:size],
            tuple(principles) if principles is not None else PRINCIPLES[:size],
            placement,
        )

    @property
    def styles(self) -> int:
        """The number of styles, S = 2M."""
        return 2 * len(self.principles)

    def style_name(self, style: Style) -> str:
        """Return e.g. "persuasive" or "avoid persuasive"."""
        name = self.principles[style.principle]
        return name if style.direction > 0 else f"avoid {name}"

    def rewriting_messages(self, attributes: Sequence[int], neutral: str) -> tuple[Message, ...]:
        """Return the chat that asks the rewriter for `neutral` in the voice of a user with these attributes (N,)."""
        signed = zip(attributes, self.attributes, strict=True)
        traits = " ".join(f"[{'' if sign > 0 else 'not '}{name}]" for sign, name in signed if sign)
        instruction = (
            "Rewrite the user's prompt as it would be written by a user with this style, keeping its meaning and every "
            f"detail: {traits}. The style must show in the wording only; do not name it. Answer with the prompt alone."
        )
        return Message("system", instruction), Message("user", neutral)


def style_instruction(principle: str, direction: int) -> str:
    """Return what tells a model to follow (`direction=1`) or avoid (`-1`) a principle, given by name or key."""
    name = principle.replace("_", " ")
    follow, avoid = _INSTRUCTIONS.get(name, (f"Be {name}.", f"Avoid being {name}."))
    return follow if direction > 0 else avoid


def styled_messages(
    pool_principles: Sequence[str], placement: str, prompt: str, style: Style | None
) -> tuple[Message, ...]:
    """Return the chat for `prompt` in a style (None: neutral): the instruction in the system or the user turn."""
    if style is None:
        return (Message("user", prompt),)
    return guided_messages(placement, prompt, style_instruction(pool_principles[style.principle], style.direction))


def guided_messages(placement: str, prompt: str, guidance: str) -> tuple[Message, ...]:
    """Return the chat for `prompt` with a text that says how to answer it, in the system or the user turn.

    In the user turn it is fenced, since a prompt may well begin with "Be gentle." and mean something else by it; a
    guidance that holds texts of others must have no such fence of its own.
    """
    if placement == "user":
        return (Message("user", f"<answer_style>{guidance}</answer_style>\n\n{prompt}"),)
    return Message("system", guidance), Message("user", prompt)
