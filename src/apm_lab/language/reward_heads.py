"""A decoder with a score: what is read once is shared, and padding never has a say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from apm_lab.language.hf_body import Body
from apm_lab.language.hf_prefixes import Text, shared_states

__all__ = ["DecoderScores", "Head"]

_NEAR_NOTHING = 1e-8  # what is added to the running deviation (safe-rlhf's normaliser)


@dataclass(frozen=True, slots=True)
class Head:
    """A linear layer that makes a score of a hidden state; `mean` and `deviation` are those of scores in training."""

    weight: torch.Tensor  # (H,), float32
    bias: float = 0.0
    mean: float = 0.0
    deviation: float | None = None

    def scores(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return scores (n,) in float32 of hidden states (n, H)."""
        found = hidden.float() @ self.weight + self.bias - self.mean
        return found if self.deviation is None else found / (self.deviation + _NEAR_NOTHING)


@dataclass(frozen=True, slots=True)
class DecoderScores:
    """Scores of token sequences by a decoder's body and a head.

    `stop`: a token that does not count at the end (or, with `first`, from its first place on); `mean`: the hidden
    states of all tokens are averaged, where else the last one is taken.
    """

    body: Body
    head: Head
    stop: int | None = None
    first: bool = False
    mean: bool = False

    def scores(self, rows: Sequence[Sequence[int]], batch_size: int) -> Iterator[tuple[list[int], list[float]]]:
        """Yield (places, scores) in batches, in any order; none of the rows is empty."""
        texts = [self._text(tuple(row)) for row in rows]
        for places, offsets, hidden in shared_states(self.body, texts, batch_size):
            lengths = [len(texts[place].tokens) - offset for place, offset in zip(places, offsets, strict=True)]
            ends = torch.tensor(lengths, device=hidden.device)
            with torch.inference_mode():
                if self.mean:
                    real = torch.arange(hidden.shape[1], device=hidden.device)[None] < ends[:, None]
                    pooled = (hidden.float() * real[:, :, None]).sum(1) / ends[:, None]
                else:
                    pooled = hidden[torch.arange(len(places), device=hidden.device), ends - 1]
                yield places, self.head.scores(pooled).tolist()

    def _text(self, tokens: tuple[int, ...]) -> Text:
        """Return the tokens up to the one whose score counts: what stands behind it has no influence on it."""
        if self.stop is not None and self.first and self.stop in tokens:
            tokens = tokens[: max(1, tokens.index(self.stop))]
        elif self.stop is not None and not self.first:
            last = next((place for place in range(len(tokens) - 1, -1, -1) if tokens[place] != self.stop), 0)
            tokens = tokens[: last + 1]
        return Text(tokens, 0 if self.mean else len(tokens) - 1)
