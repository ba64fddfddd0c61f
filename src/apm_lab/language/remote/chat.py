"""A chat as an OpenAI-compatible endpoint takes it, and the text in what comes back; for batch files too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import isfinite
from typing import Any, Literal

from apm_lab.errors import ConfigError
from apm_lab.language.protocols import GenerationCall, Usage
from apm_lab.language.remote.fault import MalformedError
from apm_lab.language.remote.secret import secret_names
from apm_lab.records import Message

__all__ = ["ChatSettings", "Guided", "Via", "first_choice", "read_text", "read_usage", "turns"]

Guided = Literal["none", "structured", "guided_choice", "json_schema"]
"""How an answer that must be one of given ones is asked for.

`none`: not at all; `structured`: the vLLM server's `structured_outputs`; `guided_choice`: that of older ones;
`json_schema`: OpenAI's `response_format`.
"""
Via = Literal["chat", "first_token", "prompt", "echo"]
"""How log-probabilities are asked for, see `log_probabilities.py`."""
_OWN = ("model", "messages", "stream", "n", "seed", "temperature", "top_p", "max_tokens", "logprobs", "top_logprobs")
_ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """What is sent with every chat; the values are those of `OpenAiModel`."""

    model: str
    revision: str | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    extra: Mapping[str, Any] = field(default_factory=dict)
    guided: Guided = "none"
    seeded: bool = True
    logprobs_via: Via = "chat"

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ConfigError("model is empty; expected the name under which the endpoint serves it")
        for name, value, fits, wanted in (
            ("temperature", self.temperature, self.temperature >= 0 and isfinite(self.temperature), "at least 0"),
            ("top_p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("max_tokens", self.max_tokens, self.max_tokens >= 1, "at least 1"),
        ):
            if not fits:
                raise ConfigError(f"{self.model}: {name}={value}: expected {wanted}")
        if not isinstance(self.extra, Mapping):
            raise ConfigError(f"{self.model}: extra={self.extra!r}: expected fields and their values, or null")
        taken = [name for name in self.extra if name in _OWN]
        if taken:
            raise ConfigError(f"{self.model}: extra may not hold {', '.join(taken)}: that is a key of its own or ours")
        secret = secret_names(self.extra)
        if secret:  # it would stand in the config, the manifest and the store
            raise ConfigError(
                f"{self.model}: extra may not hold {', '.join(secret)}: a key goes into an environment variable that "
                "api_key_env names"
            )

    @property
    def identity(self) -> str:
        """Model name and, where one is given, revision."""
        return f"{self.model}@{self.revision}" if self.revision else self.model

    @property
    def sampling(self) -> str:
        """Canonical JSON of what can change the distribution of texts."""
        values: dict[str, Any] = {
            "temperature": float(self.temperature),
            "top_p": float(self.top_p),
            "max_tokens": self.max_tokens,
        }
        if self.extra:
            values["extra"] = dict(self.extra)
        if self.guided != "none":
            values["guided"] = self.guided
        if self.logprobs_via != "chat":  # another prompt, or another cut
            values["logprobs_via"] = self.logprobs_via
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def body(self, call: GenerationCall, tried: int = 0) -> dict[str, Any]:
        """Return the request for a call of which `tried` answers were malformed: another seed each time."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": turns(call.messages),
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
        }
        if "max_completion_tokens" in self.extra:
            del body["max_tokens"]
        if self.seeded:
            body["seed"] = _seed(call, tried)
        return body | dict(self.extra) | self._constraint(call.choices)

    def _constraint(self, choices: tuple[str, ...] | None) -> dict[str, Any]:
        if choices is None or self.guided == "none":
            return {}
        if self.guided == "structured":
            return {"structured_outputs": {"choice": list(choices)}}
        if self.guided == "guided_choice":
            return {"guided_choice": list(choices)}
        properties = {_ANSWER: {"type": "string", "enum": list(choices)}}
        schema = {"type": "object", "properties": properties, "required": [_ANSWER], "additionalProperties": False}
        return {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": _ANSWER, "strict": True, "schema": schema},
            }
        }

    def text(self, answer: Mapping[str, Any], call: GenerationCall) -> str:
        """Return the text of an answer as it came, whether or not it is one of the choices asked for.

        Whoever asked says what such an answer counts for: asked again here, it would be drawn until it fits.
        """
        text = read_text(answer)
        if call.choices is None or self.guided == "none":
            return text
        found = (_unwrapped(text) if self.guided == "json_schema" else text).strip()
        return found if found in call.choices else text


def turns(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return chat turns as they are sent."""
    return [{"role": message.role, "content": message.content} for message in messages]


def _seed(call: GenerationCall, tried: int) -> int:
    """Return 31 bits of the call's sample, chat and how often it was tried.

    Of the chat too: with one seed for all chats of a sample their draws would move together.
    """
    digest = blake2b(f"{call.sample}\x1f{tried}".encode(), digest_size=4)
    for message in call.messages:
        digest.update(f"\x1e{message.role}\x1f{message.content}".encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest(), "big") >> 1


def read_text(answer: Mapping[str, Any]) -> str:
    """Return the text of a chat completion, without what the model thought; empty where that was all it wrote.

    MalformedError where the answer is none of a chat, or says that it failed (`finish_reason` "error").
    """
    choice = first_choice(answer)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise MalformedError("the answer has no choices[0].message")
    text = message.get("content")
    if text is None:
        text = message.get("refusal") or ""  # an answer too
    if not isinstance(text, str):
        raise MalformedError(f"choices[0].message.content is {text!r:.60}, expected a text")
    if not text and choice.get("finish_reason") == "error":
        raise MalformedError("choices[0].finish_reason is 'error', and there is no text")
    return _spoken(text)


def first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return choices[0]; MalformedError where there is none."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise MalformedError("the answer has no choices")
    return choices[0]


def read_usage(answer: Mapping[str, Any]) -> Usage | None:
    """Return the tokens of an answer, None where it does not say."""
    usage = answer.get("usage")
    if not isinstance(usage, Mapping):
        return None
    tokens = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    read, written = (count if isinstance(count, int) and count >= 0 else None for count in tokens)
    return None if read is None else Usage(read, written or 0)


def _spoken(text: str) -> str:
    """Return the text after a block of thinking, none where such a block has no end."""
    if "</think>" in text and (text.lstrip().startswith("<think>") or "<think>" not in text):
        return text.partition("</think>")[2].lstrip()
    return "" if text.lstrip().startswith("<think>") else text


def _unwrapped(text: str) -> str:
    try:
        return str(json.loads(text)[_ANSWER])
    except (ValueError, KeyError, TypeError, RecursionError):
        return text
