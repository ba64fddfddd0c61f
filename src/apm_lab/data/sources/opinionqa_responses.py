"""OpinionQA from people's own answers: a row a respondent, with traits and a survey weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.sources.opinionqa import OpinionQuestion
from apm_lab.data.sources.opinionqa_tally import Tally
from apm_lab.errors import DataError
from apm_lab.maths.opinion import NO_ANSWER, group_opinions
from apm_lab.records import Group

__all__ = ["HalvedRespondents", "Wave", "read_wave", "tally_responses"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
_NOT_ASKED = ("", "nan", "NaN")
_ABSENT, _REFUSAL, _STRANGE = -1, -2, -3  # kinds of cell that hold none of a question's choices


@dataclass(frozen=True, slots=True)
class Wave:
    """One survey's P respondents and its Q questions.

    `answers` (P, Q): places among a question's choices, -1 where there is none; `refused` (P, Q); `weights` (P, 1), or
    (P, Q) of questions from several waves; `traits`: each respondent's value (P,), empty where not said. `left_out`
    counts what is no answer here.
    """

    answers: NDArray[np.int16]
    refused: Mask
    weights: Array
    traits: Mapping[str, NDArray[np.object_]]
    left_out: Mapping[str, int]

    def members(self, group: Group) -> Mask:
        """Return which respondents (P,) belong to a group."""
        here: Mask = np.ones(len(self.answers), dtype=bool)
        for trait, value in zip(group.traits, group.values, strict=True):
            here &= self.traits[trait] == value
        return here


def read_wave(file: Path, questions: Sequence[OpinionQuestion], traits: Sequence[str]) -> Wave:
    """Return the answers of a `responses.csv` by the authors' rule: labels are answers, an empty cell was not asked.

    Refusals are told apart from answers; a label that is none of a question's is neither. A question is weighed by its
    own wave's column `WEIGHT_W<nn>`, and everyone alike where there is none. A question or trait without a column is
    answered by nobody. DataError names the file and the fault.
    """
    weighed = list(dict.fromkeys(map(_weight_column, questions)))
    table = _table(file, [*(question.key for question in questions), *traits], weighed)
    left_out: Counter[str] = Counter()
    answers = np.full((table.num_rows, len(questions)), NO_ANSWER, dtype=np.int16)
    refused = np.zeros(answers.shape, dtype=bool)
    for place, question in enumerate(questions):
        codes, texts = _coded(table[question.key])
        kind = np.array([_place(text, question) for text in (*texts, "")])
        found = kind[codes]
        answers[:, place] = np.where(found >= 0, found, NO_ANSWER)
        refused[:, place] = found == _REFUSAL
        left_out["answer that is none of its question's labels"] += int((found == _STRANGE).sum())
    weights = np.stack([_weights(file, table[name], left_out) for name in weighed], axis=1)
    if len(weighed) > 1:
        weights = weights[:, [weighed.index(_weight_column(question)) for question in questions]]
    return Wave(answers, refused, weights, {trait: _said(table[trait]) for trait in traits}, left_out)


def _weight_column(question: OpinionQuestion) -> str:
    return f"WEIGHT_{question.key.rpartition('_')[2]}"


def _place(text: str, question: OpinionQuestion) -> int:
    """Return the choice's number, or which kind of no answer the text is."""
    if text in question.choices:  # before anything else: "None" and the like may be answers
        return question.choices.index(text)
    if text in question.refusals:
        return _REFUSAL
    return _ABSENT if text in _NOT_ASKED else _STRANGE


def _table(file: Path, texts: Sequence[str], numbers: Sequence[str]) -> Any:  # noqa: ANN401 (a pyarrow table)
    """Return these columns; one that the file lacks is there and empty."""
    import pyarrow
    import pyarrow.csv as reader

    kinds = {name: pyarrow.string() for name in texts} | {name: pyarrow.float64() for name in numbers}
    try:
        return reader.read_csv(
            file,
            parse_options=reader.ParseOptions(newlines_in_values=True),
            convert_options=reader.ConvertOptions(
                column_types=kinds,
                include_columns=list(kinds),
                include_missing_columns=True,
                strings_can_be_null=False,
            ),
        )
    except (OSError, ValueError, pyarrow.ArrowException) as fault:
        raise DataError(f"{file} can't be read: {str(fault).partition(chr(10))[0]:.200}") from None


def _coded(column: Any) -> tuple[NDArray[np.int64], list[str]]:  # noqa: ANN401
    """Return each cell's number among the column's different texts, and these; -1 for a column that is not there."""
    packed = column.combine_chunks().dictionary_encode()
    codes = packed.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, [text.strip() for text in packed.dictionary.to_pylist()]


def _said(column: Any) -> NDArray[np.object_]:  # noqa: ANN401
    codes, texts = _coded(column)
    return np.array(["" if text in _NOT_ASKED else text for text in (*texts, "")], dtype=object)[codes]


def _weights(file: Path, column: Any, left_out: Counter[str]) -> Array:  # noqa: ANN401
    if column.null_count == len(column):
        left_out["respondent of a survey without weights, all of which count alike"] += len(column)
        return np.ones(len(column))
    values: Array = column.to_numpy().astype(np.float64)
    missing = ~np.isfinite(values)
    if (values[~missing] < 0).any():
        raise DataError(f"{file}: a survey weight is {values[~missing].min()}, expected none below 0")
    left_out["respondent without a weight"] += int(missing.sum())
    return np.where(missing, 0.0, values)


@dataclass(frozen=True, slots=True)
class HalvedRespondents:
    """Two halves of each wave's respondents, every one with all answers: `members` are (G, P) a wave."""

    waves: tuple[Wave, ...]
    members: tuple[Mask, ...]
    choices: int

    def __call__(self, rng: np.random.Generator, /) -> tuple[tuple[Array, Mask], tuple[Array, Mask]]:
        """Return per half the weighted shares (G, Q, K) and which are there (G, Q)."""
        firsts = []
        for wave in self.waves:
            people = len(wave.answers)
            first = np.zeros(people, dtype=bool)
            first[rng.permutation(people)[: people // 2]] = True
            firsts.append(first)
        return self._of(firsts), self._of([~first for first in firsts])

    def _of(self, chosen: Sequence[Mask]) -> tuple[Array, Mask]:
        shares, _ = _opinions(self.waves, self.members, self.choices, chosen)
        return shares, shares.sum(axis=-1) > 0


def _opinions(
    waves: Sequence[Wave], members: Sequence[Mask], choices: int, chosen: Sequence[Mask] | None = None
) -> tuple[Array, NDArray[np.int64]]:
    """Return the waves' shares (G, Q, K) and how many answered (G, Q), side by side, of the chosen respondents."""
    found = []
    for place, (wave, belongs) in enumerate(zip(waves, members, strict=True)):
        kept = slice(None) if chosen is None else chosen[place]
        found.append(group_opinions(wave.answers[kept], wave.weights[kept], belongs[:, kept], choices))
    return np.concatenate([shares for shares, _ in found], axis=1), np.concatenate([each for _, each in found], axis=1)


def tally_responses(
    waves: Sequence[Wave], groups: Sequence[Group], values: Mapping[str, Sequence[str]], choices: int
) -> Tally:
    """Return how the groups and everyone answered the waves' questions, one wave's after another's.

    A group whose answers to a question weigh nothing has none. That is counted, and how many of one wave say of a trait
    what is none of its `values`.
    """
    members = tuple(np.array([wave.members(group) for group in groups]).reshape(len(groups), -1) for wave in waves)
    everyone = [np.ones((1, len(wave.answers)), dtype=bool) for wave in waves]
    shares, answered = _opinions(waves, members, choices)
    overall, overall_answered = _opinions(waves, everyone, choices)
    left_out: Counter[str] = Counter()
    for wave in waves:
        left_out.update(wave.left_out)
        left_out["answer that is a refusal"] += int(wave.refused.sum())
    for trait, known in values.items():
        for value, people in _others(waves, trait, known).items():
            left_out[f"{trait} {value or 'not said'}: people of no group of the survey's"] = people
    weightless = (answered > 0) & ~shares.any(axis=-1)
    left_out["group's answers to a question that weigh nothing"] += int(weightless.sum())
    return Tally(
        groups=tuple(groups),
        shares=shares,
        answered=np.where(weightless, 0, answered),
        refused=np.concatenate(
            [belongs.astype(float) @ wave.refused.astype(float) for wave, belongs in zip(waves, members, strict=True)],
            axis=1,
        ),
        overall=overall[0],
        overall_answered=np.where(overall[0].any(axis=-1), overall_answered[0], 0),
        people=np.max([belongs.sum(axis=1) for belongs in members], axis=0),
        halves=HalvedRespondents(tuple(waves), members, choices),
        told=f"weighted respondents of {len(waves)} survey{'s' if len(waves) > 1 else ''}",
        left_out=left_out,
    )


def _others(waves: Sequence[Wave], trait: str, known: Sequence[str]) -> dict[str, int]:
    """Return how many respondents gave each value that is not known: the most of any wave."""
    most: dict[str, int] = {}
    for wave in waves:
        for value, people in Counter(wave.traits[trait].tolist()).items():
            if value not in known:
                most[value] = max(people, most.get(value, 0))
    return most
