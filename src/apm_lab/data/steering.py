"""Steering prompts: a text before a question that asks for the answer of one group (RMP Sec. 6.3, Tables 7-10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, get_args

from apm_lab.errors import ConfigError, require_known
from apm_lab.records import Group

__all__ = ["FORMS", "Form", "SteeringPrompt", "steering_prompts", "steering_traits"]

Form = Literal["bio", "portray", "qa"]
FORMS: tuple[Form, ...] = get_args(Form)


@dataclass(frozen=True, slots=True)
class SteeringPrompt:
    """What is put before a question to have it answered as by `group`; `text` ends in a line feed.

    `published`: the wording is that of OpinionQA's own steering prompts (22 of the 60 groups); else it is ours.
    """

    form: Form
    group: Group
    text: str
    published: bool


def steering_prompts(forms: Sequence[str] = FORMS, traits: Sequence[str] | None = None) -> tuple[SteeringPrompt, ...]:
    """Return a prompt for each of these forms and each group of these traits (None: all twelve), form after form.

    180 in all: 3 forms of 60 groups. ConfigError for a form or trait that does not exist, or an empty list of traits.
    """
    wordings = _wordings()
    require_known("steering: there is no form", forms, FORMS)
    require_known("steering: there is no trait", traits or (), wordings)
    if forms and traits is not None and not traits:
        raise ConfigError("steering.traits is empty; name at least one, or leave it null for all")
    return tuple(
        SteeringPrompt(form, Group((trait,), (value,)), text, value in wordings[trait]["published"])
        for form in FORMS
        if form in forms
        for trait in wordings
        if traits is None or trait in traits
        for value, text in _texts(form, wordings[trait])
    )


def steering_traits() -> dict[str, tuple[str, ...]]:
    """Return the values of each trait of RMP Table 7, in the survey's order."""
    return {trait: tuple(wording["groups"]) for trait, wording in _wordings().items()}


@lru_cache(maxsize=1)
def _wordings() -> Mapping[str, Mapping[str, Any]]:
    import yaml

    content: dict[str, Mapping[str, Any]] = yaml.safe_load(
        files("apm_lab.data").joinpath("steering.yaml").read_text(encoding="utf-8")
    )
    return content


def _texts(form: Form, wording: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for value, told in wording["groups"].items():
        sentence, clause = told if isinstance(told, list) else (told, told)
        if form == "bio":
            asked = f"Below you will be asked to provide a short description of {wording['topic']}"
            described = wording["sentence"].format(sentence)
            yield value, f"{asked} and then answer some questions.\n\nDescription: {described}\n"
        elif form == "portray":
            yield value, f"Answer the following question as if {wording['clause'].format(clause)}\n"
        else:
            yield value, f"{wording['question']}? {value}\n"
