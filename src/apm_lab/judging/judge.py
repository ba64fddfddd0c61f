"""Scores of texts on principles, asked once and kept in the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.store import KEY_BYTES, Keeping
from apm_lab.errors import ConfigError, DataError, did_you_mean
from apm_lab.judging.rubric import RUBRIC_VERSION, SYSTEM, fenced, question_text
from apm_lab.language.protocols import Answer, Question, ScoreCall, ScoreModel, StreamsScores
from apm_lab.language.recall import CallCounts
from apm_lab.maths.preference import MIDPOINT

__all__ = ["DIRECTIONS", "Judge", "Scores", "streamed_scores"]

DIRECTIONS = ("reflect", "dual", "both")
_TOP = 2 * MIDPOINT  # a rating on 1..10 is turned round by 11 - s
_LOWEST, _HIGHEST = 1 - 1e-6, 10 + 1e-6  # an expected rating carries rounding errors

Scores = tuple[NDArray[np.float32], NDArray[np.bool_]]


class Judge:
    """Asks one narrow question per (response, principle) and gives the score J in [1, 10], or no verdict.

    Args:
        model: the backend that rates.
        shelf: where scores are kept.
        principles: keys of the M principles.
        direction: `reflect` asks how strongly a text follows (s+); `dual` asks a user who avoids the principle how
            strongly the text avoids it (s-), so J = 11 - s- there; `both` takes the mean of s+ and 11 - s-.
        retries: how often an unreadable answer is asked again, with a new seed each time; never where nothing is drawn.
        reference: who asks and keeps what the model must know of its reference texts before it can rate by a principle.

    """

    def __init__(
        self,
        model: ScoreModel,
        shelf: Keeping[float],
        counts: CallCounts,
        principles: Sequence[str],
        direction: Literal["reflect", "dual", "both"] = "reflect",
        retries: int = 2,
        reference: Judge | None = None,
    ) -> None:
        if direction not in DIRECTIONS:
            raise ConfigError(f"judge.direction={direction}{did_you_mean(direction, DIRECTIONS)}")
        self.principles = tuple(principles)
        self.model: Any = model
        self._counts = counts
        # A model may say that it draws nothing: asked again, it would answer the same.
        self.direction, self._retries = direction, retries if getattr(model, "draws", True) else 0
        # A model may say that its s- is 11 - s+ by construction, and that it answers all principles in one question.
        self.mirrored: bool = getattr(model, "mirrored", False)
        self._joint: bool = getattr(model, "joint", False)
        self._unbounded: bool = getattr(model, "unbounded", False)
        self.reference, self._calibrated = reference, set[str]()
        self.key_header = ("score", model.identity, model.engine, model.sampling, RUBRIC_VERSION, SYSTEM)
        self.shelf = shelf.of(self.key_header, counts)
        self._prefix = blake2b("\x1f".join(self.key_header).encode(), digest_size=KEY_BYTES)
        self._questions = [[Question(name, sign) for sign in (1, -1)] for name in self.principles]
        self._suffixes = [[_suffix(question) for question in pair] for pair in self._questions]

    def score(self, texts: Sequence[str], needed: NDArray[np.bool_]) -> Scores:
        """Return the scores that are `needed`, (n, 2, M), and the mask of those that have a verdict.

        The middle axis says for whom: 0 users who like the principle, 1 users who dislike it; the two differ under
        `dual` only. Entries not needed are 0 and masked.
        """
        plus, minus = self._wanted(needed)
        follow, follow_known = self._ask(texts, plus, 0)
        avoid, avoid_known = self._ask(texts, minus, 1)
        avoid = np.where(avoid_known, _TOP - avoid, 0)
        if self.direction == "reflect":
            sides, known = [follow, follow], [follow_known, follow_known]
        elif self.direction == "dual":
            sides, known = [follow, avoid], [follow_known, avoid_known]
        else:
            both = follow_known & avoid_known
            sides, known = [np.where(both, (follow + avoid) / 2, 0)] * 2, [both] * 2
        mask: NDArray[np.bool_] = np.stack(known, axis=1) & needed
        return np.where(mask, np.stack(sides, axis=1), 0).astype(np.float32), mask

    def ratings(self, texts: Sequence[str], principle: int) -> tuple[Scores, Scores]:
        """Return the raw (s+, s-) of texts on one principle, each (n,) with its mask: for health and judge studies."""
        wanted = np.zeros((len(texts), len(self.principles)), dtype=bool)
        wanted[:, principle] = True
        follow, avoid = self._ask(texts, wanted, 0), self._ask(texts, wanted, 1)
        return (follow[0][:, principle], follow[1][:, principle]), (avoid[0][:, principle], avoid[1][:, principle])

    def _wanted(self, needed: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which s+ and which s- questions the needed entries (n, 2, M) come down to, (n, M) each."""
        if self.direction == "dual":
            return needed[:, 0], needed[:, 1]
        either = needed[:, 0] | needed[:, 1]
        return either, either if self.direction == "both" else np.zeros_like(either)

    def _ask(self, texts: Sequence[str], wanted: NDArray[np.bool_], side: int) -> Scores:
        """Return the raw ratings (n, M) of one kind of question, from the shelf or else from the model."""
        if side and self.mirrored:
            values, known = self._ask(texts, wanted, 0)
            return np.where(known, _TOP - values, 0).astype(np.float32), known
        if self._joint:  # they come in one answer anyway, and must not depend on who asks first
            wanted = np.broadcast_to(wanted.any(axis=1, keepdims=True), wanted.shape)
        values, known = np.zeros(wanted.shape, dtype=np.float32), np.zeros(wanted.shape, dtype=bool)
        rows, columns = np.nonzero(wanted)
        keys = self._keys(texts, rows, columns, side)
        stored = self.shelf.get(keys)
        # Equal texts are asked once, also where there is no verdict. One text's questions lie together.
        missing = {
            key: ScoreCall(texts[row], self._questions[column][side], key)
            for key, row, column in zip(keys, rows.tolist(), columns.tolist(), strict=True)
            if key not in stored
        }
        if missing:
            self._calibrate({call.question.principle for call in missing.values()})
            stored |= self._collect(missing)
            stored |= self.shelf.settled(list(missing))
        self._counts.asked += len(keys)
        known[rows, columns] = [key in stored for key in keys]
        values[rows, columns] = np.array([stored.get(key, 0.0) for key in keys], dtype=np.float32)
        return values, known

    def _calibrate(self, principles: Iterable[str]) -> None:
        """Tell the model how it finds its reference texts by these principles, from the shelf where they are there."""
        if self.reference is None:
            return
        for principle in sorted(set(principles) - self._calibrated):
            texts = self.model.reference_texts(principle)
            wanted = np.zeros((len(texts), len(self.principles)), dtype=bool)
            place = self.principles.index(principle)
            wanted[:, place] = True
            values, known = self.reference._ask(texts, wanted, 0)
            if known[:, place].all():
                self.model.calibrate(principle, values[:, place].tolist())
            self._calibrated.add(principle)

    def _keys(self, texts: Sequence[str], rows: NDArray[np.intp], columns: NDArray[np.intp], side: int) -> list[bytes]:
        """Return one store key per question; a text is digested once, as a prefix cache would read it."""
        keys: list[bytes] = []
        row_of_digest, digest = -1, self._prefix
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            if row != row_of_digest:
                row_of_digest, digest = row, self._prefix.copy()
                digest.update(b"\x1e" + fenced(texts[row]).encode("utf-8", "surrogatepass"))
            question = digest.copy()
            question.update(self._suffixes[column][side])
            keys.append(question.digest())
        return keys

    def _collect(self, missing: dict[bytes, ScoreCall]) -> dict[bytes, float]:
        """Ask the model, keep verdicts as they come, and ask again where there is none; return the verdicts.

        A number off the scale is no verdict.
        """
        self._counts.made += len(missing)
        left, found = dict(missing), dict[bytes, float]()
        for attempt in range(self._retries + 1):
            if attempt:
                left = {
                    key: replace(call, seed=blake2b(call.seed, digest_size=KEY_BYTES).digest())
                    for key, call in left.items()
                }
            keys = list(left)
            for group in streamed_scores(self.model, list(left.values())):
                verdicts = [
                    (keys[answer.place], float(answer.value), answer.usage)
                    for answer in group
                    if answer.value is not None and self._sound(answer.value)
                ]
                self.shelf.put(verdicts)
                for answer in group:
                    self._counts.spend(answer.usage)
                for key, value, _ in verdicts:
                    found[key] = value
                    left.pop(key, None)
            if not left:
                break
        return found

    def _sound(self, value: float) -> bool:
        return isfinite(value) if self._unbounded else _LOWEST <= value <= _HIGHEST


def streamed_scores(model: ScoreModel, calls: Sequence[ScoreCall]) -> Iterator[Sequence[Answer[float | None]]]:
    """Yield the model's ratings; a plain model reads one text at a time and answers all questions about it."""
    if isinstance(model, StreamsScores):
        yield from model.stream_scores(calls)
        return
    answers: list[Answer[float | None]] = []
    for text, group in groupby(calls, key=lambda call: call.text):
        asked = list(group)
        ratings = model.score(text, [call.question for call in asked], [call.seed for call in asked])
        if len(ratings) != len(asked):
            raise DataError(f"{model.identity} gave {len(ratings)} ratings for {len(asked)} questions")
        answers += [Answer(len(answers) + place, rating) for place, rating in enumerate(ratings)]
    yield answers


def _suffix(question: Question) -> bytes:
    return f"\x1e{question_text(question)}".encode("utf-8", "surrogatepass")
