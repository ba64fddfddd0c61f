"""A language model behind an OpenAI-compatible endpoint: a vLLM or llama.cpp server, or a hosted service."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from apm_lab.errors import ConfigError
from apm_lab.language.in_order import in_order
from apm_lab.language.protocols import Answer, ChoiceCall, GenerationCall, Usage
from apm_lab.language.remote.chat import ChatSettings, read_usage
from apm_lab.language.remote.client import answered
from apm_lab.language.remote.exchange import Access, Exchange
from apm_lab.language.remote.log_probabilities import Asker
from apm_lab.language.remote.patience import Patience

__all__ = ["Endpoint", "OpenAiModel"]


class Endpoint:
    """Address and key of an endpoint; the key itself stays in the environment until a call is made."""

    def __init__(self, base_url: str, api_key_env: str | None, concurrency: int, timeout_s: float) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"base_url={_shown(base_url)}: expected an address like http://localhost:8000/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigError(
                f"base_url={_shown(base_url)}: expected an address alone; a key goes into an environment variable that "
                "api_key_env names"
            )
        # Not shown: a key given in its place may well be of letters, digits and underscores.
        if api_key_env is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", api_key_env):
            raise ConfigError(
                "api_key_env: expected the upper-case name of an environment variable (the key is its value), or null"
            )
        for name, value in (("concurrency", concurrency), ("timeout_s", timeout_s)):
            if value <= 0:
                raise ConfigError(f"{name}={value}: expected more than 0")
        self.base_url, self.key_env = base_url.rstrip("/"), api_key_env
        self.concurrency, self.timeout_s = concurrency, timeout_s
        self.patience = Patience()

    def key(self) -> str | None:
        """Return the key, None where none is wanted; ConfigError where the variable is not set."""
        if self.key_env is None:
            return None
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise ConfigError(
                f"{self.base_url}: the environment variable {self.key_env} is not set; put the endpoint's key into it, "
                "or give api_key_env=null where it wants none"
            )
        if not (key.isascii() and key.isprintable()):  # no header may hold it, and no traceback may show it
            raise ConfigError(f"{self.base_url}: {self.key_env} holds characters that no key has")
        return key

    def access(self, model: str) -> Access:
        """Return how one model there is reached."""
        return Access(self.base_url, model, self.key_env, self.key, self.concurrency, self.timeout_s, self.patience)


class OpenAiModel:
    """Answers chats, and says how probable answers are, through an OpenAI-compatible endpoint.

    Args:
        model: the name under which the endpoint serves it.
        base_url: the endpoint's address, e.g. `http://localhost:8000/v1`.
        api_key_env: the environment variable that holds the key; None where no key is wanted.
        temperature, top_p, max_tokens: sampling values.
        revision: of the model, part of its identity.
        concurrency: calls in flight at most; what the endpoint bears is found out below that.
        timeout_s: seconds that one attempt at a call may take.
        extra: further fields of each request, e.g. `chat_template_kwargs`, `reasoning_effort`; part of the store key.
        guided: how an answer that must be one of given ones is constrained, see `chat.Guided`.
        seeded: send a `seed` of each sample's own; False for endpoints that refuse the field.
        logprobs_via: how log-probabilities are asked for, see `log_probabilities.py`.
        name: what tables call it.

    """

    engine = "remote"

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key_env: str | None = "OPENAI_API_KEY",
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 512,
        revision: str | None = None,
        concurrency: int = 64,
        timeout_s: float = 600.0,
        extra: dict[str, Any] | None = None,
        guided: Literal["none", "structured", "guided_choice", "json_schema"] = "none",
        seeded: bool = True,
        logprobs_via: Literal["chat", "first_token", "prompt", "echo"] = "chat",
        name: str | None = None,
    ) -> None:
        self.endpoint = Endpoint(base_url, api_key_env, concurrency, timeout_s)
        self.name = name or model
        self._chat = ChatSettings(
            model=model,
            revision=revision,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            extra=extra or {},
            guided=guided,
            seeded=seeded,
            logprobs_via=logprobs_via,
        )
        self._asker = Asker(model, self._chat.extra, logprobs_via)

    @property
    def identity(self) -> str:
        """Model name and, where one is given, revision."""
        return self._chat.identity

    @property
    def sampling(self) -> str:
        """Canonical JSON of the sampling values."""
        return self._chat.sampling

    def ready(self) -> None:
        """Return nothing where the key is set; ConfigError names the variable."""
        self.endpoint.key()

    def generate(self, calls: Sequence[GenerationCall]) -> list[str]:
        """Return one text per call, in order."""
        return in_order(self.stream(calls))

    def stream(self, calls: Sequence[GenerationCall]) -> Iterator[Sequence[Answer[str]]]:
        """Yield the answers as they come."""
        for group in answered(self.endpoint.access(self._chat.model), calls, self._text):
            yield [Answer(place, text, usage) for place, (text, usage) in group]

    def log_probabilities(self, calls: Sequence[ChoiceCall]) -> Iterator[Sequence[Answer[tuple[float, ...]]]]:
        """Yield each call's log-probabilities as they come.

        EndpointError where the endpoint gives none: they are never replaced by samples.
        """
        self._asker.require_short(calls)
        for group in answered(self.endpoint.access(self._chat.model), calls, self._asker.ask):
            yield [Answer(place, values, usage) for place, (values, usage) in group]

    async def _text(self, exchange: Exchange, call: GenerationCall) -> tuple[str, Usage | None]:
        def read(answer: Mapping[str, Any]) -> tuple[str, Usage | None]:
            return self._chat.text(answer, call), read_usage(answer)

        return await exchange.post("/chat/completions", lambda tried: self._chat.body(call, tried), read)


def _shown(base_url: str) -> str:
    """Return an address without a password or query that may be a key."""
    return re.sub(r"//[^/@]*@", "//***@", base_url).partition("?")[0].partition("#")[0]
