"""The study of reward models, from a sound config: its data, its reward model, and the study itself."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from apm_lab.data.steering import steering_prompts
from apm_lab.data.store import Store
from apm_lab.data.survey import Survey
from apm_lab.errors import ConfigError
from apm_lab.experiment.making import make
from apm_lab.experiment.plugin import of_kind
from apm_lab.experiment.settings import PerspectivesSettings, RewardModelSettings, SteeringSettings
from apm_lab.experiment.signature import read_signature
from apm_lab.language.protocols import Ready
from apm_lab.language.recall import CallCounts
from apm_lab.language.reward_model import RewardModel
from apm_lab.studies.audited_part import random_part
from apm_lab.studies.perspectives import Audited, Perspectives, Progress, Rate, audited
from apm_lab.studies.steered_opinions import prompts_for
from apm_lab.training.reward_scoring import RewardScoring

__all__ = ["audited_digest", "audited_part", "build_perspectives", "read_audited", "reward_model_of", "reward_scoring"]


def read_audited(config: Mapping[str, Any]) -> Audited:
    """Return the data that the run audits; ConfigError or DataError where they are none."""
    where = f"dataset {config['dataset']['_target_']}"
    source = make(config["dataset"], tuple(config["plugins"]))
    if not hasattr(source, "read"):
        raise ConfigError(f"{where}: has no read(); take dataset=bbq, stereoset, opinionqa or prism")
    return audited(source.read(), where)


def audited_part(config: Mapping[str, Any], whole: Audited) -> Audited:
    """Return what the run audits of the whole data."""
    study: PerspectivesSettings = make(config["study"], tuple(config["plugins"]))
    return random_part(whole, study.most_questions, config["seed"], study.format_ids or ())


def audited_digest(data: Audited) -> str:
    """Return the digest of questions, choices and people's answers, wherever they were read from."""
    digest = blake2b(digest_size=16)
    if not isinstance(data, Survey):
        for item in data:
            digest.update(f"{item!r}\x1e".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()
    digest.update(f"{data.questions!r}\x1e{data.groups!r}".encode("utf-8", "surrogatepass"))
    for array in (data.real, data.shares, data.answered, data.overall, data.overall_answered, data.people):
        digest.update(array.tobytes())
    if data.positions is not None:
        digest.update(data.positions.tobytes())
    return digest.hexdigest()


def reward_model_of(config: Mapping[str, Any], planning: bool = False) -> tuple[RewardModelSettings, RewardModel]:
    """Return the settings and the model, told the template that it reads calls through.

    For `planning` it need not be usable on this machine.

    ConfigError where the model has none to choose, or two different ones are named.
    """
    node, plugins = config["reward_model"], tuple(config["plugins"])
    model = node["model"]
    takes = read_signature(model["_target_"], plugins)
    if "template" in model and model["template"] != node["template"]:
        raise ConfigError(
            f"reward_model.model.template={model['template']} and reward_model.template={node['template']} contradict "
            "each other; set reward_model.template and leave the other out"
        )
    if takes is None or "template" in takes:
        model = {**model, "template": node["template"]}
    settings: RewardModelSettings = make({**node, "model": model}, plugins)
    found: RewardModel = of_kind(settings.model, RewardModel, "reward_model.model")
    if isinstance(found, Ready) and not planning:
        found.ready()
    return settings, found


def reward_scoring(
    config: Mapping[str, Any], model: RewardModel, store: Store, counts: CallCounts, progress: Progress
) -> RewardScoring:
    """Return the model with its memory, over the trainer's devices."""
    trainer = make(config["trainer"], tuple(config["plugins"]))
    return RewardScoring(model, store, dict(config["store"]), counts, trainer, progress)


def build_perspectives(
    config: Mapping[str, Any], data: Audited, settings: RewardModelSettings, rate: Rate, progress: Progress
) -> Perspectives:
    """Return the study that a sound, resolved config describes."""
    plugins = tuple(config["plugins"])
    study: PerspectivesSettings = make(config["study"], plugins)
    steering: SteeringSettings = make(config["steering"], plugins)
    prompts = steering_prompts(steering.forms, steering.traits)
    if isinstance(data, Survey) and prompts:
        prompts = prompts_for(data, prompts, steering.traits)
    return Perspectives(
        data=data,
        rate=rate,
        form=make(config["prompt_format"], plugins),
        prompts=prompts,
        distance=make(config["distance"], plugins),
        temperature=settings.temperature,
        standardize=settings.standardize,
        min_respondents=study.min_respondents,
        format_questions=study.format_questions,
        format_ids=None if study.format_ids is None else tuple(study.format_ids),
        seed=config["seed"],
        progress=progress,
    )
