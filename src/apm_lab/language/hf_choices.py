"""Log-probabilities of given answers: what chats have in common is read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import NamedTuple

import torch

from apm_lab.language.hf_network import Network
from apm_lab.language.hf_prefixes import States, Text, shared_states

__all__ = ["Asked", "answer_log_probabilities", "without_longer"]

_LOGITS = 2**24  # the most logits at once


def without_longer(values: Sequence[float], answers: Sequence[Sequence[int]]) -> list[float]:
    """Return the log-probability of each answer and none that goes on from it: "1" without "10".

    `values` are those of the answers (token lists) as beginnings.
    """
    left = [exp(value) for value in values]
    for longer, tokens in enumerate(answers):
        begun = [
            place
            for place, other in enumerate(answers)
            if len(other) < len(tokens) and list(tokens[: len(other)]) == list(other)
        ]
        if begun:
            left[max(begun, key=lambda place: len(answers[place]))] -= exp(values[longer])
    return [log(max(value, 1e-300)) for value in left]


class Asked(NamedTuple):
    """A prompt's tokens and the answers' tokens, none of them empty."""

    prompt: list[int]
    answers: list[list[int]]


@dataclass(frozen=True, slots=True)
class _Path:
    """A prompt with the beginning of an answer: a row that gives the probabilities of all answers along it."""

    place: int
    tokens: tuple[int, ...]
    start: int  # the position of the prompt's last token
    answers: tuple[int, ...]


def answer_log_probabilities(
    network: Network, asked: Sequence[Asked], batch_size: int
) -> Iterator[list[tuple[int, tuple[float, ...]]]]:
    """Yield (place, natural log-probability per answer) in groups as they are known, in any order.

    What the prompts begin with in common is read once (`hf_prefixes`).
    """
    paths = [path for place, one in enumerate(asked) for path in _paths(place, one)]
    found: list[list[float | None]] = [[None] * len(one.answers) for one in asked]
    left = [len(one.answers) for one in asked]
    for states in shared_states(network, [Text(path.tokens, path.start) for path in paths], batch_size):
        done = []
        for place, answer, value in _scores(network, states, paths, asked):
            found[place][answer] = value
            left[place] -= 1
            if not left[place]:
                done.append((place, tuple(value for value in found[place] if value is not None)))
        if done:
            yield done


def _paths(place: int, asked: Asked) -> list[_Path]:
    """Return the fewest rows whose tokens run through every answer but its last token."""
    heads: list[tuple[tuple[int, ...], list[int]]] = []
    for answer in sorted(range(len(asked.answers)), key=lambda answer: -len(asked.answers[answer])):
        head = tuple(asked.answers[answer][:-1])
        for path, along in heads:
            if path[: len(head)] == head:
                along.append(answer)
                break
        else:
            heads.append((head, [answer]))
    prompt = tuple(asked.prompt)
    return [_Path(place, prompt + path, len(prompt) - 1, tuple(along)) for path, along in heads]


def _scores(
    network: Network, states: States, paths: Sequence[_Path], asked: Sequence[Asked]
) -> list[tuple[int, int, float]]:
    """Return (place, answer, log-probability) from the hidden states of some paths."""
    rows, columns, wanted = [], [], []
    for row, (place, offset) in enumerate(zip(states.places, states.offsets, strict=True)):
        path = paths[place]
        first = path.start - offset
        for step in range(len(path.tokens) - path.start):
            rows.append(row)
            columns.append(first + step)
            wanted.append(
                [
                    (path.place, answer, token)
                    for answer in path.answers
                    for token in asked[path.place].answers[answer][step : step + 1]
                ]
            )
    sums: dict[tuple[int, int], float] = {}
    picked = states.hidden[torch.tensor(rows), torch.tensor(columns)]
    size = max(1, _LOGITS // network.vocabulary)
    for start in range(0, len(rows), size):
        with torch.inference_mode():
            logits = network.logits(picked[start : start + size])
        part = wanted[start : start + size]
        index = torch.tensor([line for line, targets in enumerate(part) for _ in targets], device=logits.device)
        tokens = torch.tensor([token for targets in part for _, _, token in targets], device=logits.device)
        values = (logits[index, tokens] - logits.logsumexp(1)[index]).double().tolist()
        for (place, answer, _), value in zip((target for targets in part for target in targets), values, strict=True):
            sums[place, answer] = sums.get((place, answer), 0.0) + value
    return [(place, answer, value) for (place, answer), value in sums.items()]
