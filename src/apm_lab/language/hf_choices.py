"""Log-probabilities of given answers: what chats have in common is read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, log
from typing import NamedTuple

import torch

from apm_lab.language.hf_network import Network
from apm_lab.language.hf_rows import Rows

__all__ = ["Asked", "answer_log_probabilities", "without_longer"]

_SHARED = 16  # tokens in common from which on sharing pays
_LOGITS = 2**24  # the most logits at once
_COLUMNS = 1024  # a row's share of the memory


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

    Rows are sorted by their tokens, so that equal beginnings meet: what all have in common is read once, then what
    families have in common (the questions about one text), then each row's rest.
    """
    paths = sorted((path for place, one in enumerate(asked) for path in _paths(place, one)), key=lambda it: it.tokens)
    found: list[list[float | None]] = [[None] * len(one.answers) for one in asked]
    left = [len(one.answers) for one in asked]
    for scored in _scored(network, paths, batch_size, asked):
        done = []
        for place, answer, value in scored:
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


Scored = list[tuple[int, int, float]]


def _scored(network: Network, paths: Sequence[_Path], batch_size: int, asked: Sequence[Asked]) -> Iterator[Scored]:
    if not paths:
        return
    longest = max(len(path.tokens) for path in paths)
    common = _common(paths)
    if not network.plain or (network.window is not None and 2 * longest > network.window):
        # The window counts columns, masked ones too; a recurrent state can't be shared.
        for batch in _batches(paths, 0, batch_size):
            yield _read(network, None, 0, batch, asked)
        return
    root = None
    if common >= _SHARED and len(paths) > 1:
        root = Rows(network, 1)
        root.extend([paths[0].tokens[:common]])
    else:
        common = 0
    alone: list[_Path] = []
    families: list[list[_Path]] = []
    for _, group in groupby(paths, key=lambda path: path.tokens[common : common + _SHARED]):
        family = list(group)
        if len(family) > 1 and _common(family) >= common + _SHARED:
            families.append(family)
        else:
            alone += family
    for batch in _batches(alone, common, batch_size):
        yield _read(network, root, common, batch, asked)
    for several in _together(families, batch_size):
        yield from _read_families(network, root, common, several, batch_size, asked)


def _common(paths: Sequence[_Path]) -> int:
    """Return how many tokens sorted paths begin with in common, short of any prompt's last token."""
    ends = zip(paths[0].tokens, paths[-1].tokens, strict=False)
    length = next((place for place, (one, other) in enumerate(ends) if one != other), len(paths[0].tokens))
    return min(length, *(path.start for path in paths))


def _together(families: Sequence[list[_Path]], batch_size: int) -> Iterator[list[list[_Path]]]:
    """Yield families that are read side by side: about as many rows as a batch has."""
    several: list[list[_Path]] = []
    for family in families:
        several.append(family)
        if sum(map(len, several)) >= batch_size:
            yield several
            several = []
    if several:
        yield several


def _read_families(
    network: Network,
    root: Rows | None,
    common: int,
    families: Sequence[list[_Path]],
    batch_size: int,
    asked: Sequence[Asked],
) -> Iterator[Scored]:
    depths = [_common(family) for family in families]
    stems = Rows(network, len(families)) if root is None else root.picked([0] * len(families), max(depths) - common)
    stems.extend([family[0].tokens[common:depth] for family, depth in zip(families, depths, strict=True)])
    rest = [(path, stem) for stem, family in enumerate(families) for path in family]
    rest.sort(key=lambda pair: len(pair[0].tokens) - depths[pair[1]])
    size = max(1, min(batch_size, batch_size * _COLUMNS // max(len(path.tokens) for path, _ in rest)))
    for start in range(0, len(rest), size):
        part = rest[start : start + size]
        offsets = [depths[stem] for _, stem in part]
        room = max(len(path.tokens) - offset for (path, _), offset in zip(part, offsets, strict=True))
        rows = stems.picked([stem for _, stem in part], room)
        hidden = rows.extend([path.tokens[offset:] for (path, _), offset in zip(part, offsets, strict=True)])
        yield _scores(network, hidden, [path for path, _ in part], offsets, asked)


def _batches(paths: Sequence[_Path], common: int, batch_size: int) -> Iterator[list[_Path]]:
    """Yield paths of about the same length, as many as a batch has rows and memory for."""
    batch: list[_Path] = []
    for path in sorted(paths, key=lambda path: -len(path.tokens)):
        batch.append(path)
        if len(batch) == batch_size or len(batch) * len(batch[0].tokens) >= batch_size * _COLUMNS:
            yield batch
            batch = []
    if batch:
        yield batch


def _read(network: Network, root: Rows | None, common: int, batch: Sequence[_Path], asked: Sequence[Asked]) -> Scored:
    room = max(len(path.tokens) for path in batch) - common
    rows = Rows(network, len(batch)) if root is None else root.picked([0] * len(batch), room)
    hidden = rows.extend([path.tokens[common:] for path in batch])
    return _scores(network, hidden, batch, [common] * len(batch), asked)


def _scores(
    network: Network, hidden: torch.Tensor, paths: Sequence[_Path], offsets: Sequence[int], asked: Sequence[Asked]
) -> Scored:
    """Return (place, answer, log-probability) from hidden states (B, T, H) whose first column is each path's offset."""
    rows, columns, wanted = [], [], []
    for row, (path, offset) in enumerate(zip(paths, offsets, strict=True)):
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
    picked = hidden[torch.tensor(rows), torch.tensor(columns)]
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
