"""A method's responses, held to what the study can score: a wrong one must not pass for another column."""

from __future__ import annotations

from collections.abc import Sequence

from apm_lab.data.pool import Pool
from apm_lab.errors import DataError
from apm_lab.records import Response, Style

__all__ = ["checked_responses"]


def checked_responses(responses: object, name: str, users: int, pool: Pool) -> Sequence[Response]:
    """Return the responses of method `name` when there is one sound `Response` per test user.

    DataError naming the method, the first user whose response can't be scored, and what was expected.
    """
    if not isinstance(responses, Sequence) or not all(isinstance(response, Response) for response in responses):
        raise DataError(f"method {name}: respond must return a sequence of Response, found {type(responses).__name__}")
    if len(responses) != users:
        raise DataError(f"method {name}: respond returned {len(responses)} responses for {users} test users")
    styles = frozenset(Style.of(index) for index in range(pool.styles))
    for user, response in enumerate(responses):
        fault = _fault(response, styles)
        if fault:
            raise DataError(f"method {name}: the response for test user {user}: {fault}")
    return responses


def _fault(response: Response, styles: frozenset[Style]) -> str | None:
    style, text = response.style, response.text
    if style is not None and text is not None:
        return "a style and a text; expected one of the two, or neither for the neutral response"
    if text is not None:
        return None if isinstance(text, str) else f"text is {text!r:.40}, expected a string"
    if style is None:
        sound = response.sample in (0, 1)
        return None if sound else f"sample={response.sample!r}, expected 0 (the neutral response) or 1 (its twin)"
    if isinstance(style, Style) and style in styles:
        return None
    count = len(styles) // 2
    return f"{style}; expected Style(principle 0..{count - 1}, direction 1 or -1): this pool has {count} principles"
