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
        columns = [(turn, Style.of(index), 0) for turn in range(turns) for index in range(pool.styles)]
        values, known = _judged(candidates, columns, judge, needed, f"{users.split} candidates", progress)
        shape = (len(users), turns, pool.styles, 2, len(pool.principles))
        return cls(users, histories, candidates, (values.reshape(shape), known.reshape(shape)))


@dataclass(frozen=True, slots=True)
class TestSide:
    """Test users: histories, queries, 2M styled and two neutral responses each, and the responses' scores.

    Response columns are 0..S-1 the styles, S the neutral response, S + 1 its twin; `scores` is (U, S + 2, 2, M) with
    its mask. Every entry that some arm may weigh is judged here, so that no method, label strategy or arm asks again.
    """

    __test__ = False

    users: Users
    pool: Pool
    histories: tuple[tuple[str, ...], ...]
    queries: tuple[str, ...]
    responses: StyledTexts
    scores: Scores
    judge: Judge

    @classmethod
    def build(
        cls,
        users: Users,
        pool: Pool,
        rewriter: StoredTexts,
        model: StoredTexts,
        judge: Judge,
        needed: NDArray[np.bool_],
        progress: Progress,
    ) -> TestSide:
        """Generate all responses of every test user and judge the `needed` (U, 2, M) entries, a chunk at a time."""
        texts = rewritten(rewriter, pool, users, progress)
        queries = tuple(text[-1] for text in texts)
        prompts = tuple((query,) for query in queries)
        responses = StyledTexts(model, users.numbers, prompts, pool.principles, pool.placement)
        columns = [(0, Style.of(index), 0) for index in range(pool.styles)] + [(0, None, 0), (0, None, 1)]
        scores = _judged(responses, columns, judge, needed, f"{users.split} responses", progress)
        return cls(users, pool, tuple(text[:-1] for text in texts), queries, responses, scores, judge)

    @property
    def neutral(self) -> int:
        """The column of the neutral response."""
        return self.pool.styles

    def scores_of(self, columns: NDArray[np.intp], preferences: NDArray[np.float64]) -> Scores:
        """Return J (U, M) of one response column (U,) per user, as users with these preferences (U, M) see it."""
        rows = np.arange(len(self.users))
        return _as_seen((self.scores[0][rows, columns], self.scores[1][rows, columns]), preferences)

    def scores_of_texts(self, texts: Sequence[str], preferences: NDArray[np.float64]) -> Scores:
        """Return J (U, M) of a method's own texts, judged now: one per user of these preferences (U, M)."""
        return _as_seen(self.judge.score(texts, needed_entries(preferences[None])), preferences)


def _judged(
    texts: StyledTexts,
    columns: Sequence[tuple[int, Style | None, int]],
    judge: Judge,
    needed: NDArray[np.bool_],
    stage: str,
    progress: Progress,
) -> Scores:
    """Return the scores (U, columns, 2, M) of a text per user and column (turn, style, sample), with their mask."""
    shape = (len(needed), len(columns), *needed.shape[1:])
    values, known = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=bool)
    for part in _chunks(len(needed), max(1, _CHUNK // max(1, len(columns)))):
        written = texts.generate([(user, *column) for user in part for column in columns])
        progress(stage, part[-1] + 1, len(needed))
        scored, mask = judge.score(written, np.repeat(needed[part], len(columns), axis=0))
        values[part], known[part] = scored.reshape(len(part), *shape[1:]), mask.reshape(len(part), *shape[1:])
        progress(f"{stage} judged", part[-1] + 1, len(needed))
    return values, known


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
