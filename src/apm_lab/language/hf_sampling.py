"""The next token of each row: its own temperature, nucleus and random stream, whatever stands beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch

__all__ = ["Sampling", "chosen_answer", "next_tokens"]

_BLOCK = 256
_NUCLEUS = 512  # the first tokens looked at for a nucleus; more only where these do not hold it


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen: `temperature` 0 takes the most probable; `top_p` keeps the fewest that reach it."""

    temperature: float
    top_p: float
    repetition_penalty: float
    max_tokens: int


def next_tokens(
    logits: torch.Tensor, sampling: Sampling, streams: Sequence[Random], written: torch.Tensor | None
) -> list[int]:
    """Return one token per row of logits (B, V).

    Each stream gives one number, by inversion, so that a row's choice is the same whatever its neighbours are.
    `written` (B, V) marks the tokens that the repetition penalty holds down: prompt and answer so far.
    """
    if written is not None:
        held = torch.where(logits < 0, logits * sampling.repetition_penalty, logits / sampling.repetition_penalty)
        logits = torch.where(written, held, logits)
    if sampling.temperature == 0:
        return list(map(int, logits.argmax(dim=1).tolist()))
    probabilities = torch.softmax(logits / sampling.temperature, dim=1)
    uniform = torch.tensor([stream.random() for stream in streams], dtype=torch.float64, device=logits.device)
    if sampling.top_p < 1:
        return _of_nucleus(probabilities, sampling.top_p, uniform)
    return _inverted(probabilities, uniform)


def chosen_answer(log_probabilities: Sequence[float], sampling: Sampling, stream: Random) -> int:
    """Return which of several answers is given: the most probable at temperature 0, else drawn."""
    logits = torch.tensor([list(log_probabilities)], dtype=torch.float64)
    plain = Sampling(sampling.temperature, sampling.top_p, 1.0, sampling.max_tokens)
    return next_tokens(logits, plain, [stream], None)[0]


def _of_nucleus(probabilities: torch.Tensor, top_p: float, uniform: torch.Tensor) -> list[int]:
    first = min(_NUCLEUS, probabilities.shape[1])
    best, tokens = probabilities.topk(first, dim=1)
    if first < probabilities.shape[1] and bool((best.sum(1) < top_p).any()):
        best, tokens = probabilities.sort(dim=1, descending=True)
    best = best.double()
    before = best.cumsum(1) - best
    kept = torch.where(before < top_p, best, 0.0)
    place = _first_beyond(kept.cumsum(1), uniform * kept.sum(1))
    return list(map(int, tokens.gather(1, place[:, None])[:, 0].tolist()))


def _inverted(probabilities: torch.Tensor, uniform: torch.Tensor) -> list[int]:
    """Return the tokens where the running sum passes `uniform` (B,): the block first, then inside it."""
    rows, size = probabilities.shape
    blocks = torch.nn.functional.pad(probabilities, (0, -size % _BLOCK)).view(rows, -1, _BLOCK)
    sums = blocks.double().sum(2)
    running = sums.cumsum(1)
    aim = uniform * running[:, -1]
    block = _first_beyond(running, aim)
    row = torch.arange(rows, device=block.device)
    left = aim - (running[row, block] - sums[row, block])
    inside = _first_beyond(blocks[row, block].double().cumsum(1), left)
    return list(map(int, (block * _BLOCK + inside).tolist()))


def _first_beyond(running: torch.Tensor, aim: torch.Tensor) -> torch.Tensor:
    """Return per row the first place whose running sum is greater than the aim; rounding takes none past the last."""
    last = (running < running[:, -1:]).sum(1)  # where the sum has its full height: nothing improbable is behind it
    return torch.minimum((running <= aim[:, None]).sum(1), last)
