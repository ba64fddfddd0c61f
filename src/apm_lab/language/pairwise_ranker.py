"""A pairwise ranker as a reward model: how much better an answer is than the others it is offered with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from apm_lab.errors import ConfigError
from apm_lab.language.hf_place import place_of
from apm_lab.language.protocols import Answer, Usage
from apm_lab.language.reward_calls import halves, in_parts
from apm_lab.language.reward_model import RewardCall

if TYPE_CHECKING:
    from apm_lab.language.pair_scores import PairScores

__all__ = ["PairwiseRanker"]

SOURCE = 1224
"""The most tokens of a prompt."""
_TOGETHER = 128  # calls in memory as tokens: each has a text for every two of its answers
WHOLE = 2048
"""The most tokens of a prompt and two candidates: each has half of what the prompt leaves, at least 412."""


class _Compared(NamedTuple):
    """Two answers of a call, the one that is rated first."""

    call: int
    first: int
    second: int


class PairwiseRanker:
    """PairRM (Jiang et al., 2023): a prompt and two candidates are read together, and a logit says which is better.

    The reward of an answer is the mean over the others of (f(a, b) - f(b, a)) / 2, where f(a, b) is the logit that a is
    better: which of the two stands first has no say. One answer alone has reward 0. So an answer's reward depends on
    what it is offered with (`compares_answers`). A prompt is cut to 1,224 tokens, an answer to half of what the prompt
    leaves of 2,048, which is 412 tokens or more: as the published model is used.

    Args:
        path_or_id: a folder or a hub id in the form of `llm-blender/PairRM-hf`.
        template: `pair`: prompt and answers are what the model reads as source and candidates.
        revision: of a hub id.
        dtype: `auto` computes in bfloat16 where the processor or GPU is made for it, else in float32.
        device: as torch names it; `auto` takes a GPU where there is one.
        batch_size: pairs side by side; no figure depends on it but by rounding.
        name: what tables call it.

    """

    engine = "hf"
    compares_answers = True

    def __init__(
        self,
        path_or_id: str | None,
        template: str,
        revision: str | None = None,
        dtype: Literal["auto", "float32", "bfloat16"] = "auto",
        device: str = "auto",
        batch_size: int = 32,
        name: str | None = None,
    ) -> None:
        self._place = place_of(path_or_id, revision, dtype, device, batch_size)
        self.name = name or self._place.path_or_id
        if template != "pair":
            raise ConfigError(
                f"{self.name}: reward_model.template={template!r:.60}: a pairwise ranker has its own form: set pair"
            )
        self._batch_size = batch_size

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
        values = {"dtype": self._place.dtype, "kind": "pairwise_ranker", "template": "pair"}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def rewards(self, calls: Sequence[RewardCall]) -> Iterator[list[Answer[tuple[float, ...]]]]:
        """Yield each answer's mean advantage over the others of its call, in any order of calls."""
        if not calls:
            return
        place = self._place
        scores = _loaded(place.folder_or_id, place.revision, place.dtype, place.device)
        for offset, part in in_parts(calls, _TOGETHER):
            yield from self._compared(scores, offset, part)

    def _compared(
        self, scores: PairScores, offset: int, part: Sequence[RewardCall]
    ) -> Iterator[list[Answer[tuple[float, ...]]]]:
        pairs, rows, tokens = list[_Compared](), list[list[int]](), [0] * len(part)
        for number, asked in enumerate(part):
            texts = [halves(asked, answer)[1] for answer in asked.answers]
            for one, other, row in scores.encoded(asked.prompt.rstrip(), texts, SOURCE, WHOLE):
                pairs.append(_Compared(number, one, other))
                rows.append(row)
                tokens[number] += len(row)
        sums = [[0.0] * len(asked.answers) for asked in part]
        left = [len(each) * (len(each) - 1) for each in sums]
        if alone := [Answer(offset + place, tuple(sums[place])) for place, count in enumerate(left) if not count]:
            yield alone
        for places, logits in scores.logits(rows, self._batch_size):
            done = []
            for place, logit in zip(places, logits, strict=True):
                call, first, second = pairs[place]
                # Each ordered pair counts for both: f(a, b) for a, and against b.
                share = logit / 2 / (len(sums[call]) - 1)
                sums[call][first] += share
                sums[call][second] -= share
                left[call] -= 1
                if not left[call]:
                    done.append(Answer(offset + call, tuple(sums[call]), Usage(tokens[call], 0)))
            if done:
                yield done


@cache
def _loaded(place: str, revision: str | None, dtype: str, device: str) -> PairScores:
    from apm_lab.language.pair_scores import load_pair_scores

    return load_pair_scores(place, revision, dtype, device)
