"""Opinion distributions of reward models and of groups of people, and how well they agree (RMP Sec. 5; SPEC 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apm_lab.errors import ConfigError
from apm_lab.maths.distance import Distance, distance, largest_distance

__all__ = ["Alignment", "alignment", "group_opinions", "model_opinions", "reward_sd"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
NO_ANSWER = -1


def model_opinions(rewards: ArrayLike, real: Mask, temperature: float = 1.0) -> tuple[Array, Mask]:
    """Return D_M (..., Q, K), the softmax of rewards over a question's choices, and which questions have one (..., Q).

    A question one of whose rewards is not finite has none: it is left out, never guessed. A softmax does not change
    when all rewards shift, and does when they are scaled: see `reward_sd`. ConfigError where temperature is not
    above 0.
    """
    if not temperature > 0:
        raise ConfigError(f"reward_model.temperature={temperature}: expected a number above 0")
    values = np.asarray(rewards, dtype=np.float64)
    known: Mask = np.all(np.isfinite(values) | ~real, axis=-1) & np.any(real, axis=-1)
    safe = np.where(real & known[..., None], values, -np.inf)
    top = np.where(known, safe.max(axis=-1), 0.0)[..., None]
    with np.errstate(over="ignore"):  # what lies too far below the top to be a number has no share
        weights = np.where(real & known[..., None], np.exp((safe - top) / temperature), 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0, total, 1.0), known


def reward_sd(rewards: ArrayLike, real: Mask) -> Array:
    """Return the s.d. (...) of a model's own finite rewards (..., Q, K), by which `standardize` divides; 1 for 0."""
    values = np.asarray(rewards, dtype=np.float64)
    counted = np.isfinite(values) & real
    count = np.maximum(counted.sum(axis=(-2, -1)), 1)
    kept = np.where(counted, values, 0.0)
    # In units of the largest: the square of a huge reward is no number.
    unit = np.abs(kept).max(axis=(-2, -1), initial=0.0)
    unit = np.where(unit > 0, unit, 1.0)
    kept = kept / unit[..., None, None]
    mean = kept.sum(axis=(-2, -1)) / count
    apart = np.where(counted, kept - mean[..., None, None], 0.0)
    spread = unit * np.sqrt(np.square(apart).sum(axis=(-2, -1)) / count)
    return np.where(spread > 0, spread, 1.0)


def group_opinions(
    answers: NDArray[np.integer], weights: ArrayLike | None, members: Mask, choices: int
) -> tuple[Array, NDArray[np.int64]]:
    """Return D_G (G, Q, K), each choice's weighted share of a group's answers, and who answered (G, Q).

    `answers` (P, Q) are choice numbers, -1 for a refusal or a question that was not asked: these count nowhere.
    `weights` (P,) or (P, Q) are survey weights, equal where None; `members` (G, P). A distribution is zero where nobody
    answered, or all weight is zero.
    """
    given = np.ones(answers.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    given = given[:, None] if given.ndim == 1 else given
    given = np.broadcast_to(given, answers.shape)
    belongs = members.astype(np.float64)
    shares = np.stack([belongs @ np.where(answers == choice, given, 0.0) for choice in range(choices)], axis=-1)
    # People are counted in floats, which are exact there and whose product is many times as fast.
    answered = (belongs @ (answers != NO_ANSWER).astype(np.float64)).astype(np.int64)
    total = shares.sum(axis=-1, keepdims=True)
    return shares / np.where(total > 0, total, 1.0), answered


@dataclass(frozen=True, slots=True)
class Alignment:
    """Alignment by pair (...): `value` (0 where `questions` is 0, which is no verdict), and of each question.

    `by_question` (..., Q) holds 1 - D/D*, `counted` (..., Q) which questions both sides have and which have a D*.
    """

    value: Array
    questions: NDArray[np.int64]
    by_question: Array
    counted: Mask


def alignment(
    name: Distance,
    one: tuple[Array, Mask],
    other: tuple[Array, Mask],
    real: Mask,
    positions: Array | None = None,
) -> Alignment:
    """Return A = mean over questions of 1 - D(D1, D2) / D* (RMP Eq. 2), over the questions that both sides have.

    `one` and `other` are distributions (..., Q, K) and which questions they have (..., Q); their batches broadcast.
    D* is each question's own (`largest_distance`).
    """
    apart, most = distance(name, one[0], other[0], real, positions), largest_distance(name, real, positions)
    counted = one[1] & other[1] & (most > 0)
    by_question = np.where(counted, 1.0 - apart / np.where(most > 0, most, 1.0), 0.0)
    questions = counted.sum(axis=-1)
    return Alignment(by_question.sum(axis=-1) / np.maximum(questions, 1), questions, by_question, counted)
