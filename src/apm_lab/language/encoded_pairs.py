"""Preference pairs from texts to tokens, with what does not fit cut or left out, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apm_lab.errors import ConfigError
from apm_lab.language.hf_engine import Engine
from apm_lab.language.pair_batch import EncodedPair
from apm_lab.records import Message

__all__ = ["EncodedPairs", "PairTexts", "encoded_pairs", "end_token"]


@dataclass(frozen=True, slots=True)
class PairTexts:
    """A prompt with the answer that its user likes best and the one liked least; `user` is the user's place."""

    prompt: str
    chosen: str
    rejected: str
    user: int


@dataclass(frozen=True, slots=True)
class EncodedPairs:
    """The pairs that can be learnt from; how many were left out, and how many have an answer that was cut."""

    pairs: list[EncodedPair]
    dropped: int
    truncated: int


def end_token(engine: Engine) -> int:
    """Return the token that ends an answer; ConfigError where the model has none."""
    token = engine.tokenizer.eos_token_id
    if token is None and not engine.ends:
        raise ConfigError("the model has no token that ends an answer: its tokenizer names no eos_token")
    return int(min(engine.ends) if token is None else token)


def encoded_pairs(engine: Engine, texts: Sequence[PairTexts], max_tokens: int | None, soft_tokens: int) -> EncodedPairs:
    """Return the pairs as tokens: the prompt as a chat of one turn, each answer with the token that ends it.

    A conversation (soft tokens, prompt and one answer) is at most `max_tokens` long, or the model's context. A longer
    answer is cut, and then has no end; a pair is left out where the prompt leaves no room for a token of an answer, or
    where both answers are the same tokens and so teach nothing. An answer without text is its end alone.
    """
    context = engine.network.context
    limits = [limit for limit in (max_tokens, context) if limit is not None]
    room = min(limits, default=None)
    end = end_token(engine)
    prompts = engine.encoder.tokens([(Message("user", one.prompt),) for one in texts])
    answers = _answers(engine, [answer for one in texts for answer in (one.chosen, one.rejected)])
    pairs, truncated = [], 0
    for number, (one, prompt) in enumerate(zip(texts, prompts, strict=True)):
        both = [(*answers[2 * number + side], end) for side in (0, 1)]
        left = None if room is None else room - soft_tokens - len(prompt)
        if left is not None and left < 1:
            continue
        cut = [answer[:left] for answer in both]
        if cut[0] != cut[1]:
            pairs.append(EncodedPair(tuple(prompt), cut[0], cut[1], one.user))
            truncated += cut != both
    return EncodedPairs(pairs, len(texts) - len(pairs), truncated)


def _answers(engine: Engine, texts: Sequence[str]) -> list[list[int]]:
    written = [text for text in dict.fromkeys(texts) if text]
    known = dict(zip(written, engine.encoder.answers(written), strict=True))
    return [known.get(text, []) for text in texts]
