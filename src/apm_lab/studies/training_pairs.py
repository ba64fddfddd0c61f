"""The training users' preference pairs with their texts, as another library's trainer would learn from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apm_lab.maths.preference import ratings
from apm_lab.methods.preference_pairs import PreferencePair, preference_pairs
from apm_lab.records import Style
from apm_lab.studies.personalization import Personalization
from apm_lab.studies.world import Progress, TrainSide, seen_by

__all__ = ["DrawPairs", "WrittenPair", "training_pairs"]


@dataclass(frozen=True, slots=True)
class WrittenPair:
    """One user's best and worst answer to a history prompt, with the names of their styles and the user's ratings."""

    user: str
    turn: int
    prompt: str
    chosen: str
    rejected: str
    chosen_style: str
    rejected_style: str
    chosen_rating: float
    rejected_rating: float


@dataclass(frozen=True, slots=True)
class DrawPairs:
    """The pairs of one mapping draw; `dropped` prompts give none by their ratings, `blank` ones lack a text."""

    draw: int
    pairs: list[WrittenPair]
    dropped: int
    blank: int


def training_pairs(study: Personalization, draws: Sequence[int], progress: Progress) -> Iterator[DrawPairs]:
    """Yield the pairs of each of these mapping draws, by user and turn.

    Generates and judges what the store does not hold; the model under evaluation is asked nothing. Nothing hidden is in
    a pair but what a method may ask its training users: their ratings.
    """
    side, weights = study.training(draws, progress)
    names = [study.pool.style_name(Style.of(index)) for index in range(study.pool.styles)]
    for draw, of_draw in zip(draws, weights, strict=True):
        yield _of_draw(draw, side, of_draw, names)


def _of_draw(draw: int, side: TrainSide, weights: NDArray[np.float64], names: Sequence[str]) -> DrawPairs:
    found, dropped = preference_pairs(*ratings(weights, *seen_by(side, weights)))
    wanted = [(pair.user, pair.turn, style, 0) for pair in found for style in (pair.chosen, pair.rejected)]
    texts = side.candidates.generate(wanted)
    pairs = [
        _written(side, pair, chosen, rejected, names)
        for pair, chosen, rejected in zip(found, texts[0::2], texts[1::2], strict=True)
        if chosen.strip() and rejected.strip()
    ]
    return DrawPairs(draw, pairs, dropped, len(found) - len(pairs))


def _written(side: TrainSide, pair: PreferencePair, chosen: str, rejected: str, names: Sequence[str]) -> WrittenPair:
    return WrittenPair(
        side.users.ids[pair.user],
        pair.turn,
        side.histories[pair.user][pair.turn],
        chosen,
        rejected,
        names[pair.chosen.index],
        names[pair.rejected.index],
        pair.chosen_rating,
        pair.rejected_rating,
    )
