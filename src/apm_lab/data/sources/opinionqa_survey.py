"""The survey OpinionQA: Pew's questions, and how 60 groups of Americans answered them (RMP Sec. 4; SPEC 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.hub import local_folder
from apm_lab.data.sources.opinionqa import OpinionQuestion, read_questions
from apm_lab.data.sources.opinionqa_counts import tally_counts
from apm_lab.data.sources.opinionqa_files import DOWNLOAD, SurveyFiles, contentious_keys, survey_files, trait_values
from apm_lab.data.sources.opinionqa_responses import read_wave, tally_responses
from apm_lab.data.sources.opinionqa_tally import Tally
from apm_lab.data.steering import steering_traits
from apm_lab.data.survey import Halves, Survey
from apm_lab.errors import ConfigError, DataError, require_known
from apm_lab.records import ChoiceQuestion, Group

__all__ = ["OpinionQa"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class OpinionQa:
    """OpinionQA at `path`: the folder `human_resp`, the folder of one survey, or one that holds `human_resp`.

    `traits`: whose values are the groups (null: all there are, of RMP Table 7); `intersections`: lists of traits whose
    values are combined, as [[POLPARTY, SEX]], for which people's own answers are needed. `questions`: keys to keep;
    `subset`: all, or the contentious set that RMP takes. The same person may have answered several waves.
    """

    path: str | None = None
    traits: Sequence[str] | None = None
    intersections: Sequence[Sequence[str]] = ()
    questions: Sequence[str] | None = None
    subset: Literal["all", "contentious"] = "all"

    def read(self) -> Survey:
        """Return the survey.

        Positions are the survey's ordinals. A nominal question, all of whose ordinals are equal, stays in; out go
        questions with one choice, and keys that are asked about several things, whose answers are not told apart.
        ConfigError for an unknown trait or question, DataError naming file and fault.
        """
        surveys, without = survey_files(local_folder(self.path, DOWNLOAD, ("*.csv", "*_data.json*")))
        left_out: Counter[str] = Counter({"survey without answers": without})
        values = self._values(surveys)
        asked = self._asked(surveys, left_out)
        if surveys[0].responses is None:
            if self.intersections:
                raise ConfigError(
                    f"dataset.intersections: {surveys[0].folder} holds counts by single traits; intersections need "
                    "people's own answers (responses.csv)"
                )
            tally = tally_counts(surveys[0], asked[0], values)
        else:
            tally = self._responses(surveys, asked, values, left_out)
        return _survey([question for each in asked for question in each], tally, left_out)

    def _values(self, surveys: Sequence[SurveyFiles]) -> dict[str, tuple[str, ...]]:
        """Return the values of each trait that groups are made of."""
        known = steering_traits() | trait_values(surveys)
        require_known("dataset.traits: OpinionQA has no trait", self.traits or (), known)
        for traits in self.intersections:
            require_known("dataset.intersections: OpinionQA has no trait", traits, known)
            if len(set(traits)) < max(2, len(traits)):
                raise ConfigError(f"dataset.intersections: {list(traits)}: expected two or more different traits")
        chosen = list(known) if self.traits is None else list(self.traits)
        if surveys[0].responses is None and self.traits is None:
            files = [file.name.partition("_data.json")[0] for file in surveys[0].counts]
            chosen = [trait for trait in known if trait in files]
        if not chosen and not self.intersections:
            raise ConfigError("dataset.traits is empty; name at least one, or leave it null for all")
        combined = [trait for traits in self.intersections for trait in traits]
        return {trait: known[trait] for trait in dict.fromkeys([*chosen, *combined])}

    def _asked(self, surveys: Sequence[SurveyFiles], left_out: Counter[str]) -> list[list[OpinionQuestion]]:
        """Return each survey's questions that are chosen and can be asked."""
        read = [read_questions(survey.info) for survey in surveys]
        if self.questions is not None:
            keys = {question.key for each in read for question in each}
            require_known("dataset.questions: OpinionQA has no question", self.questions, keys)
        contentious = contentious_keys(surveys) if self.subset == "contentious" else None
        times = Counter(question.key for each in read for question in each)
        kept = []
        for each in read:
            chosen = [
                question
                for question in each
                if (self.questions is None or question.key in self.questions)
                and (contentious is None or question.key in contentious)
            ]
            for question in chosen:
                left_out[f"question under a key that is asked {times[question.key]} times, {question.key}"] += (
                    times[question.key] > 1
                )
                left_out["question with one choice"] += len(question.choices) < 2
            kept.append([one for one in chosen if times[one.key] == 1 and len(one.choices) > 1])
        if not any(kept):
            raise DataError(f"{surveys[0].info.parent}: no question is left to ask; {_told(left_out)}")
        return kept

    def _responses(
        self,
        surveys: Sequence[SurveyFiles],
        asked: Sequence[Sequence[OpinionQuestion]],
        values: Mapping[str, Sequence[str]],
        left_out: Counter[str],
    ) -> Tally:
        waves = [
            read_wave(survey.responses, questions, list(values))
            for survey, questions in zip(surveys, asked, strict=True)
            if questions and survey.responses is not None
        ]
        said = {trait: each for trait, each in values.items() if any(wave.traits[trait].any() for wave in waves)}
        named = {*(self.traits or ()), *(trait for traits in self.intersections for trait in traits)}
        for trait in (trait for trait in values if trait not in said):
            if trait in named:
                raise DataError(f"{surveys[0].responses}: nobody has a value of {trait}; is there a column {trait}?")
            left_out[f"trait that nobody has a value of, {trait}"] += 1
        single = said if self.traits is None else self.traits
        combined = dict.fromkeys([*((trait,) for trait in single), *map(tuple, self.intersections)])
        groups = [
            Group(traits, chosen) for traits in combined for chosen in product(*(values[trait] for trait in traits))
        ]
        return tally_responses(waves, groups, said, max(len(one.choices) for each in asked for one in each))


@dataclass(frozen=True, slots=True)
class _Kept:
    """Halves of the groups and questions at these places."""

    halves: Halves
    groups: NDArray[np.int64]
    questions: NDArray[np.int64]

    def __call__(self, rng: np.random.Generator, /) -> tuple[tuple[Array, Mask], tuple[Array, Mask]]:
        """Return per half the shares (G, Q, K) and which are there (G, Q)."""
        (one, has_one), (other, has_other) = self.halves(rng)
        at = np.ix_(self.groups, self.questions)
        return (one[at], has_one[at]), (other[at], has_other[at])


def _survey(questions: Sequence[OpinionQuestion], tally: Tally, left_out: Counter[str]) -> Survey:
    """Return the survey without groups that nobody belongs to and questions that nobody answered."""
    groups, kept = np.flatnonzero(tally.people > 0), np.flatnonzero(tally.overall_answered > 0)
    left_out.update(tally.left_out)
    for place in np.flatnonzero(tally.people == 0):
        left_out[f"{tally.groups[place].trait} {tally.groups[place].value}: a group nobody belongs to"] += 1
    left_out["question nobody answered"] += len(questions) - len(kept)
    chosen = [questions[place] for place in kept.tolist()]
    nominal = sum(len(set(question.ordinals)) == 1 for question in chosen)
    left_out["nominal question (kept): no order; distance.positions=dataset gives it no ordinal distance"] += nominal
    if not chosen or not len(groups):
        raise DataError(f"OpinionQA: nobody answered any question; {_told(left_out)}")
    width = max(len(question.choices) for question in chosen)
    at = np.ix_(groups, kept)
    return Survey(
        name=f"OpinionQA ({tally.told})",
        questions=tuple(ChoiceQuestion(question.id, question.text, question.choices) for question in chosen),
        real=np.array([[place < len(question.choices) for place in range(width)] for question in chosen]),
        positions=np.array([[*question.ordinals, *[0.0] * (width - len(question.choices))] for question in chosen]),
        groups=tuple(tally.groups[place] for place in groups),
        shares=tally.shares[at][..., :width],
        answered=tally.answered[at],
        refused=tally.refused[at],
        overall=tally.overall[kept, :width],
        overall_answered=tally.overall_answered[kept],
        people=tally.people[groups],
        halves=_Kept(tally.halves, groups, kept),
        left_out={reason: count for reason, count in left_out.items() if count},
    )


def _told(left_out: Mapping[str, int]) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in left_out.items() if count) or "the files hold none"
