"""A causal language model as a reward model: how probable it finds an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import nan
from typing import TYPE_CHECKING, Literal

from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.language.hf_place import place_of
from apm_lab.language.protocols import Answer
from apm_lab.language.reward_calls import Gathering, halves, in_parts, require_fitting_text
from apm_lab.language.reward_model import RewardCall
from apm_lab.records import Message

if TYPE_CHECKING:
    from apm_lab.language.hf_engine import Engine

__all__ = ["LmLoglik", "TokenSplit", "token_splits"]

TokenSplit = tuple[list[int], list[int]]
"""A text's tokens before the answer and those of the answer, the latter empty where there is nothing to score."""


class LmLoglik:
    """The log-probability of an answer after its prompt, at temperature 1: the mean over its tokens, or their sum.

    The token that ends a turn is not counted. An answer that has no token has no reward.

    Args:
        path_or_id: a folder, an offline model (`smollm2_135m`, `gemma3_270m`) or a hub id of a causal language model.
        template: `raw` reads `prompt + answer` as one text with the special tokens that the tokenizer puts before it,
            and counts the tokens that hold a character of the answer; `chat` makes the prompt the user's turn and the
            answer the assistant's reply by the model's chat template.
        revision: of a hub id.
        dtype: `auto` computes in bfloat16 where the processor or GPU is made for it, else in float32.
        device: as torch names it; `auto` takes a GPU where there is one.
        batch_size: texts side by side; no figure depends on it but by rounding.
        name: what tables call it.
        reduction: `mean` or `sum` over the answer's tokens.

    """

    engine = "hf"

    def __init__(
        self,
        path_or_id: str | None,
        template: str,
        revision: str | None = None,
        dtype: Literal["auto", "float32", "bfloat16"] = "auto",
        device: str = "auto",
        batch_size: int = 64,
        name: str | None = None,
        reduction: Literal["mean", "sum"] = "mean",
    ) -> None:
        self._place = place_of(path_or_id, revision, dtype, device, batch_size)
        self.name = name or self._place.path_or_id
        if template not in ("raw", "chat"):
            raise ConfigError(
                f"{self.name}: reward_model.template={template!r}: a language model takes raw or chat"
                f"{did_you_mean(template, ('raw', 'chat'))}"
            )
        if reduction not in ("mean", "sum"):
            raise ConfigError(f"{self.name}: reduction={reduction}, expected mean or sum")
        self._template, self._reduction, self._batch_size = template, reduction, batch_size

    def ready(self) -> None:
        """Return nothing where all files are there; ConfigError names what is missing and the command that gets it."""
        self._place.ready()

    @property
    def identity(self) -> str:
        """Model id and revision; of a folder its name and the digest of its files."""
        return self._place.identity

    @property
    def sampling(self) -> str:
        """Canonical JSON of what changes the rewards beside the model."""
        values = {
            "dtype": self._place.dtype,
            "kind": "lm_loglik",
            "reduction": self._reduction,
            "template": self._template,
        }
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def rewards(self, calls: Sequence[RewardCall]) -> Iterator[list[Answer[tuple[float, ...]]]]:
        """Yield the log-probability of each answer in nats, in any order of calls.

        Raises ConfigError where a text is longer than the model's context, or `chat` finds no chat template.
        """
        from apm_lab.language.hf_choices import Asked, answer_log_probabilities
        from apm_lab.language.hf_engine import load_engine

        if not calls:
            return
        engine = load_engine(self._place.folder_or_id, self._place.revision, self._place.dtype, self._place.device)
        for offset, part in in_parts(calls):
            splits = token_splits(engine, part, self._template, self.name)
            places = [(call, answer) for call, each in enumerate(splits) for answer in range(len(each))]
            gathering = Gathering(part, offset, [sum(len(one) + len(other) for one, other in each) for each in splits])
            counted = [(call, answer) for call, answer in places if splits[call][answer][1]]
            if nothing := gathering.add((call, answer, nan) for call, answer in places if not splits[call][answer][1]):
                yield nothing
            asked = [Asked(splits[call][answer][0], [splits[call][answer][1]]) for call, answer in counted]
            for group in answer_log_probabilities(engine.network, asked, self._batch_size):
                found = []
                for place, (value,) in group:
                    tokens = len(asked[place].answers[0])
                    found.append((*counted[place], value / tokens if self._reduction == "mean" else value))
                if done := gathering.add(found):
                    yield done


def token_splits(engine: Engine, calls: Sequence[RewardCall], template: str, name: str) -> list[list[TokenSplit]]:
    """Return per call and answer the tokens before the answer and the answer's.

    Raises ConfigError where a text is longer than the context, or the tokenizer lacks what the template needs.
    """
    splits = _chat_splits(engine, calls, name) if template == "chat" else _raw_splits(engine, calls, name)
    for call, each in zip(calls, splits, strict=True):
        for before, behind in each:
            require_fitting_text(name, call.prompt, len(before) + len(behind), engine.network.context)
    return splits


def _chat_splits(engine: Engine, calls: Sequence[RewardCall], name: str) -> list[list[TokenSplit]]:
    if not engine.tokenizer.chat_template:
        raise ConfigError(f"{name} has no chat template; set reward_model.template=raw")
    chats = [(Message("user", call.prompt.rstrip()),) for call in calls]
    prompts = engine.encoder.tokens(chats)
    replies = list(dict.fromkeys(halves(call, answer)[1] for call in calls for answer in call.answers))
    replies = [reply for reply in replies if reply]
    tokens = dict(zip(replies, engine.encoder.answers(replies), strict=True))
    return [
        [(prompt, tokens.get(halves(call, answer)[1], [])) for answer in call.answers]
        for prompt, call in zip(prompts, calls, strict=True)
    ]


def _raw_splits(engine: Engine, calls: Sequence[RewardCall], name: str) -> list[list[TokenSplit]]:
    if not engine.tokenizer.is_fast:
        raise ConfigError(f"{name}: its tokenizer can't say where a token stands in the text; set template=chat")
    plain = engine.encoder.plain
    prompts = [plain(call.prompt) for call in calls]
    texts = [prompt + plain(answer) for prompt, call in zip(prompts, calls, strict=True) for answer in call.answers]
    if not texts:
        return [[] for _ in calls]
    encoded = engine.tokenizer(texts, return_offsets_mapping=True, verbose=False)
    rows = iter(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True))
    splits = []
    for prompt, call in zip(prompts, calls, strict=True):
        each = []
        for _ in call.answers:
            tokens, offsets = next(rows)
            # A blank at the prompt's end may be part of the answer's first token: that token is the answer's.
            held = [place for place, (_, end) in enumerate(offsets) if end > len(prompt)]
            first = max(held[0], 1) if held else 0  # nothing stands before a text's first token to predict it
            each.append((tokens[:first], tokens[first : held[-1] + 1] if held else []))
        splits.append(each)
    return splits
