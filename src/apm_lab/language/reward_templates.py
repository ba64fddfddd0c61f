"""How a prompt and an answer become the tokens that a reward model reads."""

from __future__ import annotations

from collections.abc import Sequence
from string import Formatter
from typing import Any, NamedTuple

from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.language.hf_chats import ChatEncoder
from apm_lab.language.reward_calls import halves, require_fitting_text
from apm_lab.language.reward_model import RewardCall

__all__ = ["RewardTexts", "TemplateReader", "require_template"]

_NAMED = ("raw", "chat", "pair")


def require_template(name: str, template: str) -> None:
    """Raise ConfigError where a template is none of raw, chat, pair, and no text with {prompt} and {answer}."""
    if template in _NAMED:
        return
    try:
        fields = sorted(field for _, field, _, _ in Formatter().parse(template) if field is not None)
    except ValueError:
        fields = []
    if fields != ["answer", "prompt"]:
        raise ConfigError(
            f"{name}: reward_model.template={template!r:.80}{did_you_mean(template, _NAMED)}: expected raw, chat, "
            "pair, or a text that holds {prompt} and {answer} once each"
        )


class RewardTexts(NamedTuple):
    """A row per answer: tokens, and the segment of each token where the tokenizer gives one."""

    rows: list[list[int]]
    kinds: list[list[int]] | None


class TemplateReader:
    """Reads prompts and answers by a template with one tokenizer.

    What they say is material: names of special tokens in them are broken up. `context` is the most tokens of a text;
    with `cut` a longer one loses what stands behind its first token, else it is refused.
    """

    def __init__(
        self,
        tokenizer: Any,  # noqa: ANN401
        template: str,
        context: int | None,
        cut: bool,
        name: str,
    ) -> None:
        if template == "chat" and not tokenizer.chat_template:
            raise ConfigError(
                f"{name} has no chat template; set reward_model.template to raw, pair, or a text with "
                "{prompt} and {answer}"
            )
        self._tokenizer, self._template, self._context = tokenizer, template, context
        self._cut, self._name = cut, name
        self._encoder = ChatEncoder(tokenizer, context, name, {"add_generation_prompt": False})

    def read(self, calls: Sequence[RewardCall]) -> RewardTexts:
        """Return the tokens of all answers' texts, call by call; ConfigError names a text that is too long."""
        pairs = [(call, answer) for call in calls for answer in call.answers]
        if not pairs:
            return RewardTexts([], None)
        if self._template == "pair":
            users, replies = zip(*(map(self._encoder.plain, halves(*pair)) for pair in pairs), strict=True)
            encoded = self._tokenizer(list(users), list(replies), verbose=False)
        else:
            texts = [self._text(call, answer) for call, answer in pairs]
            # A chat template writes the special tokens itself.
            encoded = self._tokenizer(texts, add_special_tokens=self._template != "chat", verbose=False)
        rows: list[list[int]] = encoded["input_ids"]
        kinds: list[list[int]] | None = encoded.get("token_type_ids")
        for place, (call, answer) in enumerate(pairs):
            if not rows[place]:
                raise ConfigError(f"{self._name}: the answer {answer!r} with its prompt has no tokens")
            if self._context is None or len(rows[place]) <= self._context:
                continue
            if not self._cut:
                require_fitting_text(self._name, call.prompt, len(rows[place]), self._context)
            rows[place] = self._shortened(rows[place], self._context)
            if kinds is not None:
                kinds[place] = self._shortened(kinds[place], self._context)
        return RewardTexts(rows, kinds)

    def _text(self, call: RewardCall, answer: str) -> str:
        plain = self._encoder.plain
        if self._template == "raw":
            return plain(call.prompt) + plain(answer)
        user, reply = halves(call, answer)
        if self._template == "chat":
            return self._encoder.exchange(user, reply)
        return self._template.format(prompt=plain(user), answer=plain(reply))

    @staticmethod
    def _shortened(row: list[int], context: int) -> list[int]:
        return [row[0], *row[len(row) - context + 1 :]] if context > 1 else row[-1:]
