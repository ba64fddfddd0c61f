"""The text that retrieval puts before a prompt: pieces of other users between tags, within a budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

__all__ = ["ContextWriter", "example_text", "preference_text", "prompt_text"]

# What could pass for a tag of ours in someone's text: `</liked>`, and `< / LIKED >` too.
_TAG = re.compile(r"<(?=\s*/?\s*(?:example|prompt|liked|disliked|preference|answer_style)\b)", re.IGNORECASE)


def example_text(prompt: str, liked: str, disliked: str) -> str:
    """Return one contrastive example between tags; nothing in its texts can pass for a tag."""
    parts = (prompt_text(prompt), _tagged("liked", liked), _tagged("disliked", disliked))
    return "<example>\n" + "\n".join(parts) + "\n</example>"


def prompt_text(prompt: str) -> str:
    """Return a user's prompt between tags."""
    return _tagged("prompt", prompt)


def preference_text(summary: str) -> str:
    """Return a summary of one user's preferences between tags."""
    return _tagged("preference", summary)


def _tagged(name: str, text: str) -> str:
    return f"<{name}>\n{_TAG.sub('&lt;', text)}\n</{name}>"


class ContextWriter:
    """Joins pieces behind an introduction, as many as fit; each text is counted once, in however many contexts it is.

    Args:
        introduction: what stands first.
        most_tokens: of a whole context.
        count: the tokens of a text.

    """

    def __init__(self, introduction: str, most_tokens: int, count: Callable[[str], int]) -> None:
        self._introduction, self._most, self._count = introduction, most_tokens, count
        self._tokens: dict[str, int] = {}
        self.left_out = 0

    def write(self, pieces: Sequence[str]) -> str | None:
        """Return the context, its pieces in their order; None where none fits.

        While it is too long the longest piece is left out (of equal ones the last), and counted in `left_out`.
        """
        sizes = [self._size(piece) for piece in pieces]
        total, kept = self._size(self._introduction) + sum(sizes), list(range(len(pieces)))
        while kept and total > self._most:
            longest = max(kept, key=lambda place: (sizes[place], place))
            kept.remove(longest)
            total -= sizes[longest]
        self.left_out += len(pieces) - len(kept)
        return "\n\n".join([self._introduction, *(pieces[place] for place in kept)]) if kept else None

    def _size(self, text: str) -> int:
        if text not in self._tokens:
            self._tokens[text] = self._count(f"{text}\n\n")
        return self._tokens[text]
