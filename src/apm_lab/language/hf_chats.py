"""Chats as tokens: a tokenizer's chat template, or turns joined by newlines where it has none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from apm_lab.errors import ConfigError
from apm_lab.records import Message

__all__ = ["ChatEncoder"]


class ChatEncoder:
    """Encodes chats for one tokenizer.

    What a turn says is material: the names of special tokens in it are broken up, so that no text can end its own turn
    and begin another.

    Args:
        tokenizer: transformers' tokenizer.
        context: the most tokens that the model reads and writes together; None for no limit.
        name: the model, for messages.
        template: values for the chat template.

    """

    def __init__(
        self,
        tokenizer: Any,  # noqa: ANN401
        context: int | None,
        name: str,
        template: Mapping[str, object] | None = None,
    ) -> None:
        self._tokenizer, self._context, self._name = tokenizer, context, name
        self._given = {"add_generation_prompt": True, **(template or {}), "tokenize": False}
        added = getattr(tokenizer, "added_tokens_decoder", {}).values()
        special = {str(token) for token in added if token.special} | set(tokenizer.all_special_tokens)
        names = sorted((name for name in special if len(name) > 1), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, names))) if names else None

    def prompts(self, chats: Sequence[Sequence[Message]], room: int) -> list[list[int]]:
        """Return each chat's tokens up to where the answer begins.

        Raises ConfigError where a chat and `room` further tokens are longer than the model's context.
        """
        encoded = self.tokens(chats)
        self._require_room(encoded, room)
        return encoded

    def tokens(self, chats: Sequence[Sequence[Message]]) -> list[list[int]]:
        """Return each chat's tokens up to where the answer begins, however long it is."""
        texts = list(map(self.text, chats))
        # A template writes the special tokens itself.
        special = not self._tokenizer.chat_template
        encoded: list[list[int]] = self._encode(texts, add_special_tokens=special) if texts else []
        return encoded

    def text(self, chat: Sequence[Message]) -> str:
        """Return the chat as the model reads it, up to where the answer begins."""
        return self._templated(chat) if self._tokenizer.chat_template else self._joined(chat)

    def exchange(self, user: str, reply: str) -> str:
        """Return a chat of one turn each as the model reads it; what follows, the template's values say."""
        return self.text((Message("user", user), Message("assistant", reply)))

    def answers(self, answers: Sequence[str]) -> list[list[int]]:
        """Return each answer's tokens as they follow the start of a turn, with nothing put before or after them."""
        # Behind a newline: some tokenizers put a space before a text's first word.
        before: list[int] = self._encode(["\n"], add_special_tokens=False)[0]
        found = []
        for answer in answers:
            alone, behind = self._encode([self.plain(answer), "\n" + self.plain(answer)], add_special_tokens=False)
            found.append(behind[len(before) :] if behind[: len(before)] == before else alone)
            if not found[-1]:
                raise ConfigError(f"{self._name}: the answer {answer!r} has no tokens, so no probability")
        return found

    def _encode(self, texts: list[str], add_special_tokens: bool) -> Any:  # noqa: ANN401
        return self._tokenizer(texts, add_special_tokens=add_special_tokens, verbose=False)["input_ids"]

    def _templated(self, chat: Sequence[Message]) -> str:
        from jinja2.exceptions import TemplateError

        turns = [{"role": turn.role, "content": self.plain(turn.content)} for turn in chat]
        try:
            return str(self._tokenizer.apply_chat_template(turns, **self._given))
        except TemplateError as fault:
            if turns[0]["role"] != "system" or len(turns) < 2:
                raise ConfigError(f"{self._name}: its chat template refuses a chat: {fault}") from None
        # Some templates know no system turn: it then stands before the first user turn.
        first = {"role": turns[1]["role"], "content": f"{turns[0]['content']}\n\n{turns[1]['content']}"}
        try:
            return str(self._tokenizer.apply_chat_template([first, *turns[2:]], **self._given))
        except TemplateError as fault:
            raise ConfigError(f"{self._name}: its chat template refuses a chat: {fault}") from None

    def _joined(self, chat: Sequence[Message]) -> str:
        return "".join(f"{self.plain(turn.content)}\n" for turn in chat)

    def plain(self, text: str) -> str:
        """Return a text in which no special token is named."""
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text) if self._special else text

    def _require_room(self, encoded: Sequence[Sequence[int]], room: int) -> None:
        longest = max(map(len, encoded), default=0)
        if self._context is not None and longest + room > self._context:
            raise ConfigError(
                f"{self._name}: a chat of {longest} tokens and {room} for the answer make {longest + room}, "
                f"more than its context of {self._context}; shorten the text, or lower max_tokens (with retrieval: "
                "method.context_tokens)"
            )
