"""Hidden states of many token sequences: what they begin with in common is read once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from apm_lab.language.hf_body import Reads
from apm_lab.language.hf_rows import Rows

__all__ = ["States", "Text", "shared_states"]

_SHARED = 16  # tokens in common from which on sharing pays
_COLUMNS = 1024  # a row's share of the memory


class Text(NamedTuple):
    """Tokens, and the first position whose hidden state is wanted, as are those of all behind it."""

    tokens: tuple[int, ...]
    start: int


class States(NamedTuple):
    """Hidden states (B, T, H) of some of the texts: column 0 is position `offsets[b]` of text `places[b]`."""

    places: list[int]
    offsets: list[int]
    hidden: torch.Tensor


def shared_states(body: Reads, texts: Sequence[Text], batch_size: int) -> Iterator[States]:
    """Yield hidden states in batches, each text's from its start or before it; texts come in any order.

    They are sorted by their tokens, so that equal beginnings meet: what all have in common is read once, then what
    families have in common (the answers to one question), then each text's rest, side by side with others of about
    its length.
    """
    if not texts:
        return
    reading = _Reading(body, texts, batch_size)
    order = sorted(range(len(texts)), key=lambda place: texts[place].tokens)
    longest = max(len(text.tokens) for text in texts)
    if not body.plain or (body.window is not None and 2 * longest > body.window):
        # The window counts columns, masked ones too; a recurrent state can't be shared.
        yield from reading.alone(order, None, 0)
        return
    depths = [_common(texts[one], texts[other]) for one, other in itertools.pairwise(order)]
    root, common = None, min(depths, default=0)
    if common >= _SHARED:
        root = Rows(body, 1)
        root.extend([texts[order[0]].tokens[:common]])
    else:
        common = 0
    found = _families(depths, common)
    yield from reading.alone([order[line] for line in found.loose], root, common)
    families = [[order[line] for line in family] for family in found.families]
    for several in _together(families, batch_size):
        yield from reading.families(several, root, common)


def _common(one: Text, other: Text) -> int:
    """Return how many tokens both begin with, short of any position whose state is wanted."""
    most = min(one.start, other.start)
    pairs = enumerate(zip(one.tokens[:most], other.tokens[:most], strict=True))
    return next((place for place, (mine, theirs) in pairs if mine != theirs), most)


@dataclass(slots=True)
class _Branch:
    """Sorted texts `first`..`last`: the families that save most tokens, how many, and the texts in none."""

    first: int
    last: int
    families: list[list[int]]
    loose: list[int]
    saved: int = 0


def _families(depths: Sequence[int], common: int) -> _Branch:
    """Return families among sorted texts, of which neighbours have `depths` tokens in common and all have `common`.

    A family of n texts that begin with d tokens alike saves (n - 1) (d - common) tokens. The tree of common beginnings
    is walked from its leaves: at each fork either all below it are one family, or each branch keeps its own.
    """
    open_forks: list[tuple[int, list[_Branch]]] = []
    branch = _Branch(0, 0, [], [0])
    for line, depth in enumerate(depths, start=1):
        while open_forks and open_forks[-1][0] > depth:
            deeper, branches = open_forks.pop()
            branch = _joined(deeper - common, [*branches, branch])
        if not open_forks or open_forks[-1][0] < depth:
            open_forks.append((depth, []))
        open_forks[-1][1].append(branch)
        branch = _Branch(line, line, [], [line])
    while open_forks:
        depth, branches = open_forks.pop()
        branch = _joined(depth - common, [*branches, branch])
    return branch


def _joined(depth: int, branches: list[_Branch]) -> _Branch:
    """Return the better of one family of all texts in the branches, which share `depth` tokens, and their own ones."""
    first, last = branches[0].first, branches[-1].last
    families, loose, saved = branches[0].families, branches[0].loose, sum(branch.saved for branch in branches)
    if depth >= _SHARED and depth * (last - first) >= saved:
        everything = list(range(first, last + 1))
        return _Branch(first, last, [everything], [], depth * (last - first))
    for branch in branches[1:]:
        families += branch.families
        loose += branch.loose
    if depth >= _SHARED and len(loose) > 1:
        return _Branch(first, last, [*families, loose], [], saved + depth * (len(loose) - 1))
    return _Branch(first, last, families, loose, saved)


def _together(families: Sequence[list[int]], batch_size: int) -> Iterator[list[list[int]]]:
    """Yield families that are read side by side: about as many rows as a batch has."""
    several: list[list[int]] = []
    for family in families:
        several.append(family)
        if sum(map(len, several)) >= batch_size:
            yield several
            several = []
    if several:
        yield several


@dataclass(frozen=True, slots=True)
class _Reading:
    """The texts that are read, by what, and how many side by side."""

    body: Reads
    texts: Sequence[Text]
    batch_size: int

    def alone(self, places: Sequence[int], root: Rows | None, common: int) -> Iterator[States]:
        """Yield the states of texts that share nothing but the root, about as long ones in a batch."""
        for batch in self._batches(places):
            rest = [self.texts[place].tokens[common:] for place in batch]
            rows = Rows(self.body, len(batch)) if root is None else root.picked([0] * len(batch), max(map(len, rest)))
            yield States(batch, [common] * len(batch), rows.extend(rest))

    def families(self, families: Sequence[list[int]], root: Rows | None, common: int) -> Iterator[States]:
        """Yield the states of families that are read side by side: first what each has in common."""
        depths = [self._shared(family) for family in families]
        stems = [self.texts[family[0]].tokens[common:depth] for family, depth in zip(families, depths, strict=True)]
        begun = Rows(self.body, len(stems)) if root is None else root.picked([0] * len(stems), max(map(len, stems)))
        begun.extend(stems)
        rest = [(place, stem) for stem, family in enumerate(families) for place in family]
        rest.sort(key=lambda pair: len(self.texts[pair[0]].tokens) - depths[pair[1]])
        longest = max(len(self.texts[place].tokens) for place, _ in rest)
        size = max(1, min(self.batch_size, self.batch_size * _COLUMNS // longest))
        for start in range(0, len(rest), size):
            part = rest[start : start + size]
            ends = [self.texts[place].tokens[depths[stem] :] for place, stem in part]
            rows = begun.picked([stem for _, stem in part], max(map(len, ends)))
            yield States([place for place, _ in part], [depths[stem] for _, stem in part], rows.extend(ends))

    def _shared(self, family: Sequence[int]) -> int:
        """Return how many tokens the texts of a sorted family have in common."""
        texts = [self.texts[place] for place in family]
        return min(_common(texts[0], texts[-1]), *(text.start for text in texts))

    def _batches(self, places: Sequence[int]) -> Iterator[list[int]]:
        """Yield texts of about the same length, as many as a batch has rows and memory for."""
        batch: list[int] = []
        for place in sorted(places, key=lambda place: -len(self.texts[place].tokens)):
            batch.append(place)
            longest = len(self.texts[batch[0]].tokens)
            if len(batch) == self.batch_size or len(batch) * longest >= self.batch_size * _COLUMNS:
                yield batch
                batch = []
        if batch:
            yield batch
