"""How probable given answers are, asked of an OpenAI-compatible endpoint in one of four ways.

`chat`: among the likeliest first tokens of a chat completion, for short answers and most servers. An answer of several
tokens is followed token by token, the earlier ones put into the assistant's mouth (vLLM's `continue_final_message`).
What is not among the 20 likeliest, or follows a token less likely than one in a million, counts as impossible (-inf).
`first_token`: the same by the first token alone, for hosted services that can't continue an assistant's turn. Where
"1" is listed and "10" never was, "1" may hold the probability of "10": that is refused.
`prompt`: exact for answers of any length, from vLLM's `prompt_logprobs` of the chat with the answer in it.
`echo`: the same from a completion with `echo`, for base models without a chat template: turns are parted by newlines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf, isnan, log, log1p
from typing import Any

from apm_lab.errors import ConfigError, EndpointError
from apm_lab.language.protocols import ChoiceCall, Usage
from apm_lab.language.remote.chat import Via, first_choice, read_usage, turns
from apm_lab.language.remote.exchange import Exchange
from apm_lab.language.remote.fault import MalformedError

__all__ = ["Asker"]

_LISTING = ("chat", "first_token")
_LISTED = 20
_LONGEST = 16  # characters of an answer that is followed token by token
_NEGLIGIBLE = log(1e-6)
_ROUNDING = 1e-4  # how far above 0 an engine's rounding may take a log-probability
_SAMPLING = (
    *("top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "stop"),
    *("response_format", "structured_outputs", "guided_choice", "max_completion_tokens"),
)


class Asker:
    """Asks one endpoint for log-probabilities of one model.

    Args:
        model: the name it is served under.
        extra: further fields of each chat; those that only change how texts are sampled are left out.
        via: one of the four ways above.

    """

    def __init__(self, model: str, extra: Mapping[str, Any], via: Via) -> None:
        self._model, self._via = model, via
        self._extra = {name: value for name, value in extra.items() if name not in _SAMPLING}
        self._whole: set[str] = set()  # answers that were listed, so that they are one token of this model

    def require_short(self, calls: Sequence[ChoiceCall]) -> None:
        """Raise ConfigError where an answer is empty, or too long for this way of asking."""
        for answer in {answer for call in calls for answer in call.answers}:
            if not answer:
                raise ConfigError(f"{self._model}: the log-probability of an empty answer is asked for")
            if self._via in _LISTING and len(answer) > _LONGEST:
                raise ConfigError(
                    f"{self._model}: the log-probability of an answer of {len(answer)} characters is asked for; "
                    f"logprobs_via={self._via} is for up to {_LONGEST}, take logprobs_via=prompt (vLLM) or echo"
                )

    async def ask(self, exchange: Exchange, call: ChoiceCall) -> tuple[tuple[float, ...], Usage | None]:
        """Return the natural log-probability of each answer, and the tokens spent."""
        spent = _Spent()
        if self._via in _LISTING:
            found = await self._followed(exchange, call, "", frozenset(call.answers), spent)
            values = [found[answer] for answer in call.answers]
        elif self._via == "prompt":
            before = len(await self._prompt(exchange, call, "", spent))
            values = [
                _tail((await self._prompt(exchange, call, answer, spent))[before:], answer) for answer in call.answers
            ]
        else:
            values = [await self._echo(exchange, call, answer, spent) for answer in call.answers]
        return tuple(values), spent.usage

    async def _followed(
        self, exchange: Exchange, call: ChoiceCall, begun: str, wanted: frozenset[str], spent: _Spent
    ) -> dict[str, float]:
        """Return the log-probabilities of texts `wanted` after an answer that has begun so."""
        listed = await self._listed(exchange, call, begun, spent)
        if self._via == "first_token":
            self._require_whole(exchange, listed, wanted)
        found = {text: listed.get(text, -inf) for text in wanted}
        further: dict[str, set[str]] = {}
        for text in wanted - listed.keys() if self._via == "chat" else ():
            first = max((token for token in listed if token and text.startswith(token)), key=len, default=None)
            if first is not None and listed[first] > _NEGLIGIBLE:
                further.setdefault(first, set()).add(text.removeprefix(first))
        for first, rests in further.items():
            after = await self._followed(exchange, call, begun + first, frozenset(rests), spent)
            found |= {first + rest: listed[first] + value for rest, value in after.items()}
        return found

    def _require_whole(self, exchange: Exchange, listed: Mapping[str, float], wanted: frozenset[str]) -> None:
        """Raise EndpointError where a text may be written in several tokens, and so count for another one."""
        self._whole |= wanted & listed.keys()
        for text in sorted(wanted - self._whole):
            for begun in sorted(wanted & listed.keys()):
                if text.startswith(begun) and listed[begun] > _NEGLIGIBLE:
                    raise EndpointError(
                        f"{exchange.base_url}: model {self._model}: {text!r} is not among the first tokens listed and "
                        f"{begun!r} is: where {text!r} is two tokens, {begun!r} would get its probability; "
                        "logprobs_via=first_token can't tell, take logprobs_via=chat or prompt, or judge.score=sampled"
                    )

    async def _listed(self, exchange: Exchange, call: ChoiceCall, begun: str, spent: _Spent) -> dict[str, float]:
        """Return the likeliest next tokens and their log-probabilities; tokens that read the same are one."""
        body = self._chat(call, begun) | {"logprobs": True, "top_logprobs": _LISTED}

        def read(answer: Mapping[str, Any]) -> tuple[dict[str, float], Usage | None]:
            return self._likeliest(exchange, answer), read_usage(answer)

        listed, usage = await exchange.post("/chat/completions", lambda _: body, read)
        spent.add(usage)
        return listed

    def _likeliest(self, exchange: Exchange, answer: Mapping[str, Any]) -> dict[str, float]:
        given = first_choice(answer).get("logprobs")
        content = given.get("content") if isinstance(given, Mapping) else None
        if not content:
            raise self._no_log_probabilities(exchange)
        listed: dict[str, float] = {}
        for row in _rows(content[0]):
            token, value = row.get("token"), _checked(row.get("logprob"))
            if not isinstance(token, str):
                raise MalformedError(f"a listed token is {token!r:.40}, expected a text")
            listed[token] = _sum(listed[token], value) if token in listed else value
        return listed

    async def _prompt(
        self, exchange: Exchange, call: ChoiceCall, answer: str, spent: _Spent
    ) -> list[tuple[str, float]]:
        """Return text and log-probability of each token of a chat with an answer that has begun (the first: 0)."""
        body = self._chat(call, answer) | {"prompt_logprobs": 0}

        def read(found: Mapping[str, Any]) -> tuple[list[tuple[str, float]], Usage | None]:
            rows = found.get("prompt_logprobs")
            if not isinstance(rows, list) or not rows:
                raise self._no_log_probabilities(exchange)
            return [("", 0.0), *(_token(row) for row in rows[1:])], read_usage(found)

        tokens, usage = await exchange.post("/chat/completions", lambda _: body, read)
        spent.add(usage)
        return tokens

    async def _echo(self, exchange: Exchange, call: ChoiceCall, answer: str, spent: _Spent) -> float:
        prompt = "".join(f"{message.content}\n" for message in call.messages)
        body = {"model": self._model, "prompt": prompt + answer, "echo": True, "logprobs": 1, "max_tokens": 1}

        def read(found: Mapping[str, Any]) -> tuple[float, Usage | None]:
            given = first_choice(found).get("logprobs")
            if not isinstance(given, Mapping):
                raise self._no_log_probabilities(exchange)
            return _echoed(given, len(prompt), len(prompt) + len(answer)), read_usage(found)

        value, usage = await exchange.post("/completions", lambda _: body | {"temperature": 1.0}, read)
        spent.add(usage)
        return value

    def _chat(self, call: ChoiceCall, begun: str) -> dict[str, Any]:
        body = {"model": self._model, "messages": turns(call.messages), "temperature": 1.0, "top_p": 1.0}
        body |= {"max_tokens": 1, **self._extra}
        if begun:
            body["messages"] = [*turns(call.messages), {"role": "assistant", "content": begun}]
            body |= {"add_generation_prompt": False, "continue_final_message": True}
        return body

    def _no_log_probabilities(self, exchange: Exchange) -> EndpointError:
        return EndpointError(
            f"{exchange.base_url}: model {self._model}: the answer holds no log-probabilities "
            f"(logprobs_via={self._via}); this endpoint does not give them: take another way, a server that gives "
            "them, or judge.score=sampled"
        )


class _Spent:
    """Tokens of several requests for one call."""

    def __init__(self) -> None:
        self.usage: Usage | None = None

    def add(self, usage: Usage | None) -> None:
        if usage is not None:
            before = self.usage or Usage(0, 0)
            self.usage = Usage(before.tokens_in + usage.tokens_in, before.tokens_out + usage.tokens_out)


def _checked(value: object) -> float:
    """Return a log-probability; MalformedError where it can't be one."""
    if not isinstance(value, int | float) or isinstance(value, bool) or isnan(value) or value > _ROUNDING:
        raise MalformedError(f"a log-probability is {value!r:.40}, expected a number of at most 0")
    return min(0.0, float(value))


def _rows(first: object) -> list[Mapping[str, Any]]:
    """Return the rows of the first token's `top_logprobs`, and its own where it is not among them."""
    listed = first.get("top_logprobs") if isinstance(first, Mapping) else None
    if not isinstance(first, Mapping) or not isinstance(listed, list) or not listed:
        raise MalformedError("the first token has no top_logprobs")
    rows = [row if isinstance(row, Mapping) else {} for row in listed]
    return rows if any(row.get("token") == first.get("token") for row in rows) else [*rows, first]


def _sum(one: float, other: float) -> float:
    """Return log(exp(one) + exp(other))."""
    high, low = max(one, other), min(one, other)
    return min(0.0, high + log1p(exp(low - high))) if low > -inf else high


def _token(row: object) -> tuple[str, float]:
    """Return text and log-probability of the token that stands in the prompt: the first of those listed."""
    first = next(iter(row.values()), None) if isinstance(row, Mapping) else None
    if not isinstance(first, Mapping):
        raise MalformedError("prompt_logprobs holds a token without a log-probability")
    return str(first.get("decoded_token") or ""), _checked(first.get("logprob"))


def _tail(added: Sequence[tuple[str, float]], answer: str) -> float:
    """Return the log-probability of the tokens that an answer has added to a chat."""
    text = "".join(token for token, _ in added)
    if not added or ("\ufffd" not in text and text != answer):  # half a character reads as U+FFFD
        raise EndpointError(
            f"the model's chat template does not put an answer where it generates one (sent {answer[:40]!r}, found "
            f"{text[:40]!r}); take logprobs_via=chat or echo"
        )
    return sum(value for _, value in added)


def _echoed(given: Mapping[str, Any], start: int, end: int) -> float:
    """Return the log-probability of the tokens between two characters of an echoed prompt."""
    offsets, values = given.get("text_offset"), given.get("token_logprobs")
    if not isinstance(offsets, list) or not isinstance(values, list) or len(offsets) != len(values):
        raise MalformedError("logprobs.text_offset and token_logprobs are no lists of one length")
    inside = [place for place, offset in enumerate(offsets) if start <= offset < end]
    if not inside or offsets[inside[0]] != start:
        raise MalformedError("no token of the echoed prompt begins where the answer does")
    return sum(_checked(values[place]) for place in inside)
