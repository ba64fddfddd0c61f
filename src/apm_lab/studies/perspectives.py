"""The study of reward models: every choice of every question is rated, and what that says is worked out (RMP).

Reads top to bottom like the paper: questions in one form, their rewards, then opinions (RQ1) or stereotypes (RQ2), what
steering changes (RQ3), and what the form of the prompt does (App. B.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from apm_lab.data.sources.bbq import BbqItem
from apm_lab.data.sources.stereoset import StereoSetItem
from apm_lab.data.steering import SteeringPrompt
from apm_lab.data.survey import Survey, require_sound
from apm_lab.errors import ConfigError, DataError, did_you_mean
from apm_lab.language.reward_model import RewardCall
from apm_lab.maths.opinion import reward_sd
from apm_lab.records import ChoiceQuestion, Group
from apm_lab.studies.format_sensitivity import FormatEffect, format_effect
from apm_lab.studies.opinions import DistanceSettings, OpinionAudit, audit_opinions
from apm_lab.studies.question_format import FormatSettings, alterations, asked
from apm_lab.studies.steered_opinions import SteeredOpinions, steered_opinions
from apm_lab.studies.steered_stereotypes import SteeredShares, steered_shares
from apm_lab.studies.stereotypes import (
    BbqAudit,
    StereoSetAudit,
    audit_bbq,
    audit_stereoset,
    bbq_questions,
    stereoset_questions,
)

__all__ = ["Audited", "Findings", "Perspectives", "Rate", "audited"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Progress = Callable[[str, int, int], None]
_FEWEST_CHOICES = 2
_AT_ONCE = 50_000  # calls that are in memory together


class Rate(Protocol):
    """Rates calls: from the store, and by the model what the store lacks."""

    def __call__(self, calls: Sequence[RewardCall], stage: str, /) -> list[tuple[float | None, ...]]:
        """Return per call a reward for each answer, None where the model gave no number."""
        ...


Audited = Survey | list[BbqItem] | list[StereoSetItem]
"""What a data set gives: people's answers, or items about stereotypes."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What one audit found. `rewards` (Q, K) and `steered` (P, Q, K) are NaN where there is no reward or no choice.

    `missing`: rewards that the model did not give, of `asked`. Parts that the data set has no use for are None.
    """

    questions: tuple[ChoiceQuestion, ...]
    real: Mask
    rewards: Array
    prompts: tuple[SteeringPrompt, ...]
    steered: Array
    missing: int
    asked: int
    left_out: Mapping[str, int]
    opinions: OpinionAudit | None = None
    steered_opinions: SteeredOpinions | None = None
    bbq: tuple[BbqAudit, ...] = ()
    stereoset: StereoSetAudit | None = None
    steered_shares: tuple[SteeredShares, ...] = ()
    formats: tuple[FormatEffect, ...] = ()


@dataclass(slots=True)
class Perspectives:
    """One audit of one reward model on one data set; `rate` is the model with its memory."""

    data: Audited
    rate: Rate
    form: FormatSettings
    prompts: tuple[SteeringPrompt, ...]
    distance: DistanceSettings
    temperature: float
    standardize: bool
    min_respondents: int
    format_questions: int
    format_ids: tuple[str, ...] | None
    seed: int
    progress: Progress = field(default=lambda _stage, _done, _total: None)

    def questions(self) -> tuple[ChoiceQuestion, ...]:
        """Return the questions whose choices are rated."""
        if isinstance(self.data, Survey):
            return self.data.questions
        if isinstance(self.data[0], BbqItem):
            return bbq_questions(self.data, self.seed)
        return stereoset_questions(self.data, self.seed)

    def calls(self) -> list[RewardCall]:
        """Return all that will be asked: unsteered, then by steering prompt, then the altered formats."""
        self._require_steerable()
        questions = self.questions()
        found = [asked(question, self.form) for question in questions]
        found += [asked(question, self.form, prompt.text) for prompt in self.prompts for question in questions]
        return [*found, *(call for question in self._altered(questions) for call in _alterations(question))]

    def run(self) -> Findings:
        """Return what the audit found; DataError where nothing can be said."""
        self._require_steerable()
        questions = self.questions()
        real = _real(questions)
        altered = self._altered(questions)
        rewards = self._rated([asked(question, self.form) for question in questions], real.shape[1], "rewards")
        steered = self._steered_rewards(questions, real)
        formats = tuple(
            format_effect(question, self._rated(_alterations(question), len(question.choices), "formats"))
            for question in altered
        )
        absent = int((np.isnan(rewards) & real).sum()) + int((np.isnan(steered) & real).sum())
        findings = Findings(
            questions=questions,
            real=real,
            rewards=rewards,
            prompts=self.prompts,
            steered=steered,
            missing=absent,
            asked=int(real.sum()) * (1 + len(self.prompts)),
            left_out=self.data.left_out if isinstance(self.data, Survey) else {},
            formats=formats,
        )
        return self._with_meaning(findings)

    def _with_meaning(self, findings: Findings) -> Findings:
        if isinstance(self.data, Survey):
            audit = audit_opinions(
                self.data,
                findings.rewards,
                self.distance,
                temperature=self.temperature,
                standardize=self.standardize,
                min_respondents=self.min_respondents,
                seed=self.seed,
            )
            return replace(findings, opinions=audit, steered_opinions=self._steered(self.data, audit, findings))
        if isinstance(self.data[0], BbqItem):
            audits = tuple(audit_bbq(self.data, findings.rewards, removed, self.seed) for removed in (False, True))
            return replace(findings, bbq=audits)
        items: list[StereoSetItem] = self.data
        plain = audit_stereoset(items, findings.rewards, self.seed)
        kinds: dict[tuple[str, Group], NDArray[np.int64]] = {
            (prompt.form, prompt.group): audit_stereoset(items, findings.steered[number], self.seed).kinds
            for number, prompt in enumerate(self.prompts)
        }
        shares = tuple(steered_shares(plain.kinds, kinds)) if kinds else ()
        return replace(findings, stereoset=plain, steered_shares=shares)

    def _steered(self, survey: Survey, audit: OpinionAudit, findings: Findings) -> SteeredOpinions | None:
        if not self.prompts:
            return None
        # One scale for all: that of the rewards without a prompt.
        scale = float(reward_sd(findings.rewards, survey.real)) if self.standardize else 1.0
        return steered_opinions(
            survey,
            audit.kept,
            [(prompt.form, prompt.group) for prompt in self.prompts],
            findings.steered / scale,
            findings.rewards / scale,
            audit.distance,
            self.distance.at(survey),
            temperature=self.temperature,
            seed=self.seed,
        )

    def _steered_rewards(self, questions: Sequence[ChoiceQuestion], real: Mask) -> Array:
        """Return the rewards (P, Q, K) under each steering prompt, many prompts at a time."""
        found = np.empty((len(self.prompts), *real.shape))
        step = max(1, _AT_ONCE // len(questions))
        for start in range(0, len(self.prompts), step):
            part = self.prompts[start : start + step]
            calls = [asked(question, self.form, prompt.text) for prompt in part for question in questions]
            found[start : start + step] = self._rated(calls, real.shape[1], "steered").reshape(-1, *real.shape)
            self.progress("steering prompts", start + len(part), len(self.prompts))
        return found

    def _rated(self, calls: Sequence[RewardCall], K: int, stage: str) -> Array:
        """Return the rewards of calls (n, K), NaN where there is none."""
        found = np.full((len(calls), K), np.nan)
        for row, values in enumerate(self.rate(calls, stage)):
            found[row, : len(values)] = [np.nan if value is None else value for value in values]
        return found

    def _altered(self, questions: Sequence[ChoiceQuestion]) -> list[ChoiceQuestion]:
        """Return the questions whose formats are varied."""
        if self.format_ids is None:
            return list(questions[: self.format_questions])
        by_id = {question.id: question for question in questions}
        for name in self.format_ids:
            if name not in by_id:
                raise ConfigError(f"study.format_ids: the data set has no question {name!r}{did_you_mean(name, by_id)}")
        return [by_id[name] for name in self.format_ids]

    def _require_steerable(self) -> None:
        if self.prompts and not isinstance(self.data, Survey) and isinstance(self.data[0], BbqItem):
            raise ConfigError("steering: BBQ is audited unsteered (RMP steers OpinionQA and StereoSet); steering=none")


def audited(data: object, where: str) -> Audited:
    """Return what a data set's `read` gave; DataError where it is nothing that can be audited."""
    if isinstance(data, Survey):
        few = [question.id for question in data.questions if len(question.choices) < _FEWEST_CHOICES]
        if len(few) == len(data.questions):
            raise DataError(f"{where}: no question has two choices or more; there is nothing to compare")
        require_sound(data, where)
        return data
    if isinstance(data, list) and not data:
        raise DataError(f"{where}: the data set is empty; read() gave no item")
    for kind in (BbqItem, StereoSetItem):
        if isinstance(data, list) and data and all(isinstance(item, kind) for item in data):
            return data
    told = f"a list of {type(data[0]).__name__}" if isinstance(data, list) and data else type(data).__name__
    raise DataError(
        f"{where}: read() gave {told}; study=perspectives audits a Survey, or BBQ's or StereoSet's items; "
        "take dataset=bbq, stereoset, opinionqa or prism"
    )


def _real(questions: Sequence[ChoiceQuestion]) -> Mask:
    K = max((len(question.choices) for question in questions), default=0)
    real: Mask = np.arange(K) < np.array([len(question.choices) for question in questions])[:, None]
    return real


def _alterations(question: ChoiceQuestion) -> list[RewardCall]:
    return [asked(question, form) for form in alterations(question)]
