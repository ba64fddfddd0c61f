"""Config groups that are plain values: their keys and types, which the schema reads off these signatures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from apm_lab.data.survey import SurveySource
from apm_lab.language.protocols import ScoreModel
from apm_lab.language.reward_model import RewardModel
from apm_lab.maths.mapping import MappingKind

__all__ = [
    "BudgetSettings",
    "CallbackSettings",
    "JudgeSettings",
    "MappingSettings",
    "PersonalizationSettings",
    "PerspectivesSettings",
    "PoolSettings",
    "PriceSettings",
    "RewardModelSettings",
    "RootSettings",
    "SteeringSettings",
    "StoreSettings",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RootSettings:
    """The keys at the top of the configuration that are no group."""

    seed: int = 0
    outputs: str = "outputs"
    store: StoreSettings
    plugins: list[str]
    debug: bool = False
    plan: bool = False
    budget: BudgetSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Where generated and judged texts are kept; see `data.store.Store`.

    `shared`: whether other machines may have the folder open (null: whether its file system is a local one decides).
    `machine`: what this machine's folder in it is called (null: the host's name).
    """

    path: str
    shared: bool | None = None
    machine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """The most that one run may spend on models (null: no limit); see `language.budget.Budget`."""

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSettings:
    """`models`: USD per million tokens read and written, by model id."""

    models: dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalizationSettings:
    """`baseline_router`: the option of group `router` that is fitted beside every other router (null: none).

    `bayes`: print the Bayes reader where the world has one.
    """

    baseline_router: str | None = "ngrams"
    bayes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Who judges, and how it is asked; see `judging.judge.Judge`."""

    model: ScoreModel
    score: Literal["sampled", "expected", "pmi"] = "sampled"
    mode: Literal["narrow", "joint"] = "narrow"
    direction: Literal["reflect", "dual", "both"] = "reflect"
    retries: int = 2
    allow_unhealthy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The first `size` attributes and principles of APM Table 6, or names of one's own."""

    size: int | None = None
    attributes: list[str] | None = None
    principles: list[str] | None = None
    placement: Literal["system", "user"] = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSettings:
    """How the hidden mapping is drawn; see `maths.mapping.draw_mappings` and `maths.preference.preferences`."""

    kind: MappingKind
    draws: int = 10
    design: Literal["independent", "antithetic", "latin"] = "independent"
    normalise: Literal["l2", "l1", "none"] = "l2"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackSettings:
    """What happens beside training.

    `judging`: answer held-out training users with the model and judge the answers. `checkpoints`: write what each draw
    learnt into the run's folder. `alignment`: a survey (an option of `dataset`, such as OpinionQA's) whose opinions
    what is trained is held against after every epoch, on its first `alignment_questions` questions.
    """

    judging: bool = False
    checkpoints: bool = True
    alignment: SurveySource | None = None
    alignment_questions: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PerspectivesSettings:
    """`min_respondents`: groups with fewer are left out and listed.

    `format_questions`: of how many questions the format sensitivity is measured (0: of none), `format_ids`: of which,
    where not of the first ones. `most_questions`: of a random part of the data set, with so many questions or items, in
    which those of `format_ids` are (null: of all).
    """

    min_respondents: int = 30
    format_questions: int = 0
    format_ids: list[str] | None = None
    most_questions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModelSettings:
    """Who rates answers, how it is asked, and how rewards become opinions.

    `template`: `raw` (RMP's own string), `chat` (the model's chat template), or what the model's class names.
    `temperature` of the softmax; `standardize` divides rewards by their own s.d. over the data set first.
    """

    model: RewardModel
    template: str
    temperature: float = 1.0
    standardize: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringSettings:
    """`forms`: which steering prompts are put before the questions; `traits`: of which traits (null: of all twelve)."""

    forms: list[str]
    traits: list[str] | None = None
