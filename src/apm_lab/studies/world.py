"""Users, texts and scores: everything that does not depend on a mapping, built once and in chunks of users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.pool import Pool
from apm_lab.data.users import Users
from apm_lab.judging.judge import Judge, Scores
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.recall import StoredTexts
from apm_lab.methods.views import StyledTexts
from apm_lab.records import Style

__all__ = ["Progress", "TestSide", "TrainSide", "needed_entries"]

Progress = Callable[[str, int, int], None]
"""`progress(stage, done, total)`."""

_CHUNK = 2000  # texts held in memory at once


def needed_entries(preferences: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return (U, 2, M): which principles some draw weighs, for (liking, disliking) users; from (D, U, M)."""
    return np.stack([(preferences > 0).any(axis=0), (preferences < 0).any(axis=0)], axis=1)


def rewritten(rewriter: StoredTexts, pool: Pool, users: Users, progress: Progress) -> tuple[tuple[str, ...], ...]:
    """Return each user's prompts in the user's own style: T history prompts, then the query if there is one."""
    stage = f"{users.split} prompts"
    texts: list[tuple[str, ...]] = []
    for part in _chunks(len(users), _CHUNK):
        calls = []
        for user in part:
            attributes = users.attributes[user].tolist()
            neutral = (*users.neutral[user], *users.queries[user : user + 1])
            calls += [
                GenerationCall(pool.rewriting_messages(attributes, text), users.numbers[user]) for text in neutral
            ]
        answers = iter(rewriter.generate(calls))
        length = len(calls) // len(part)
        texts += [tuple(next(answers) for _ in range(length)) for _ in part]
        progress(stage, part[-1] + 1, len(users))
    return tuple(texts)


@dataclass(frozen=True, slots=True)
class TrainSide:
    """Training (or held-out training) users: histories (U, T), their candidates, and the candidates' scores.

    `scores` is (U, T, S, 2, M) with its mask; the axis of 2 as in `Judge.score`.
    """

    users: Users
    histories: tuple[tuple[str, ...], ...]
    candidates: StyledTexts
    scores: Scores

    @classmethod
    def build(
        cls,
        users: Users,
        pool: Pool,
        rewriter: StoredTexts,
        generator: StoredTexts,
        judge: Judge,
        needed: NDArray[np.bool_],
        progress: Progress,
    ) -> TrainSide:
        """Generate 2M candidates per history prompt and judge the `needed` (U, 2, M) entries, a chunk at a time."""
        histories = rewritten(rewriter, pool, users, progress)
        candidates = StyledTexts(generator, users.numbers, histories, pool.principles, pool.placement)
        turns = len(histories[0]) if histories else 0
        shape = (len(users), turns, pool.styles, 2, len(pool.principles))
        values, known = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=bool)
        per_user = turns * pool.styles
        for part in _chunks(len(users), max(1, _CHUNK // max(1, per_user))):
            wanted = [(u, t, Style.of(s), 0) for u in part for t in range(turns) for s in range(pool.styles)]
            texts = candidates.generate(wanted)
            scored, mask = judge.score(texts, np.repeat(needed[part], per_user, axis=0))
            values[part] = scored.reshape(len(part), *shape[1:])
            known[part] = mask.reshape(len(part), *shape[1:])
            progress(f"{users.split} candidates", part[-1] + 1, len(users))
        return cls(users, histories, candidates, (values, known))


class TestSide:
    """Test users: histories, queries, 2M styled and two neutral responses each; scores are asked for when weighed.

    Response columns are 0..S-1 the styles, S the neutral response, S + 1 its twin.
    """

    __test__ = False

    def __init__(
        self, users: Users, pool: Pool, rewriter: StoredTexts, model: StoredTexts, judge: Judge, progress: Progress
    ) -> None:
        texts = rewritten(rewriter, pool, users, progress)
        self.users, self.pool = users, pool
        self.histories = tuple(text[:-1] for text in texts)
        self.queries = tuple(text[-1] for text in texts)
        prompts = tuple((query,) for query in self.queries)
        self.responses = StyledTexts(model, users.numbers, prompts, pool.principles, pool.placement)
        self._judge = judge
        shape = (len(users), pool.styles + 2, 2, len(pool.principles))
        self._values, self._known = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=bool)
        self._asked = np.zeros(shape, dtype=bool)
        self._write_responses(progress)

    @property
    def neutral(self) -> int:
        """The column of the neutral response."""
        return self.pool.styles

    @property
    def stored_scores(self) -> NDArray[np.float32]:
        """The scores judged so far, (U, S + 2, 2, M): hidden from every method."""
        return self._values

    def _write_responses(self, progress: Progress) -> None:
        columns = self.pool.styles + 2
        for part in _chunks(len(self.users), max(1, _CHUNK // columns)):
            self.responses.generate([self._wanted(user, column) for user in part for column in range(columns)])
            progress("test responses", part[-1] + 1, len(self.users))

    def _wanted(self, user: int, column: int) -> tuple[int, int, Style | None, int]:
        if column < self.pool.styles:
            return user, 0, Style.of(column), 0
        return user, 0, None, column - self.pool.styles

    def scores(self, columns: NDArray[np.intp], preferences: NDArray[np.float64]) -> Scores:
        """Return J (U, M) of one response column (U,) per user, as users with these preferences (U, M) see it.

        Entries not judged yet are judged now; those of zero weight stay unasked and masked.
        """
        rows = np.arange(len(self.users))
        needed = needed_entries(preferences[None])
        open_entries = needed & ~self._asked[rows, columns]
        open_rows = np.flatnonzero(open_entries.any(axis=(1, 2)))
        for start in range(0, len(open_rows), _CHUNK):
            part = open_rows[start : start + _CHUNK]
            texts = self.responses.generate([self._wanted(int(user), int(columns[user])) for user in part])
            values, known = self._judge.score(texts, open_entries[part])
            where = (part, columns[part])
            self._values[where] = np.where(open_entries[part], values, self._values[where])
            self._known[where] |= known
            self._asked[where] |= open_entries[part]
        return _as_seen((self._values[rows, columns], self._known[rows, columns]), preferences)

    def scores_of_texts(self, texts: Sequence[str], preferences: NDArray[np.float64]) -> Scores:
        """Return J (U, M) of a method's own texts, one per user."""
        return _as_seen(self._judge.score(texts, needed_entries(preferences[None])), preferences)


def _as_seen(scores: Scores, preferences: NDArray[np.float64]) -> Scores:
    """Return (U, ..., M) from (U, ..., 2, M): the side of each user's own preferences (U, M)."""
    extra = (1,) * (scores[0].ndim - 3)
    likes = (preferences >= 0).reshape(len(preferences), *extra, -1)
    values, known = scores
    return np.where(likes, values[..., 0, :], values[..., 1, :]), np.where(likes, known[..., 0, :], known[..., 1, :])


def seen_by(side: TrainSide, preferences: NDArray[np.float64]) -> Scores:
    """Return the candidates' J (U, T, S, M) as users with these preferences (U, M) see them."""
    return _as_seen(side.scores, preferences)


def _chunks(count: int, size: int) -> Iterator[range]:
    for start in range(0, count, size):
        yield range(start, min(count, start + size))
