"""Steering prompts: every group of RMP Table 7 in every form, and the published wordings as they were published."""

from __future__ import annotations

import ast
import csv
from collections import Counter
from pathlib import Path

import pytest

from apm_lab.data.steering import FORMS, steering_prompts, steering_traits
from apm_lab.errors import ConfigError

SHARED = Path(__file__).parents[3] / "shared/data/opinionqa"
TABLE_7 = {
    "CREGION": 4,
    "AGE": 4,
    "SEX": 2,
    "EDUCATION": 6,
    "CITIZEN": 2,
    "MARITAL": 5,
    "RELIG": 12,
    "RELIGATTEND": 6,
    "POLPARTY": 4,
    "INCOME": 5,
    "POLIDEOLOGY": 5,
    "RACE": 5,
}


def texts(form, trait):
    return {one.group.value: one.text for one in steering_prompts([form], [trait])}


def rows(name):
    with (SHARED / "model_input" / f"steer-{name}.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle, delimiter="\t"))


def test_there_are_180_different_prompts_of_60_groups():
    prompts = steering_prompts()
    assert len(prompts) == len({one.text for one in prompts}) == 180
    assert Counter(one.form for one in prompts) == dict.fromkeys(FORMS, 60)
    assert Counter(one.group.trait for one in steering_prompts(["qa"])) == TABLE_7
    assert {trait: len(values) for trait, values in steering_traits().items()} == TABLE_7
    assert all(isinstance(one.group.value, str) for one in prompts)  # "Yes" and "No" are no truth values


def test_no_text_has_a_hole_and_a_question_follows_on_a_new_line():
    for one in steering_prompts():
        assert one.text.endswith("\n") and not one.text.endswith("\n\n")
        assert not set("{}[]") & set(one.text)
        assert "  " not in one.text and "??" not in one.text and ".." not in one.text


def test_the_three_forms_of_one_group():
    assert texts("bio", "CITIZEN")["No"] == (
        "Below you will be asked to provide a short description of your citizenship and then answer some questions.\n"
        "\nDescription: I am not a citizen of the United States.\n"
    )
    assert texts("portray", "RELIGATTEND")["Seldom"] == (
        "Answer the following question as if aside from weddings and funerals, "
        "you seldom attended religious services.\n"
    )
    assert texts("qa", "AGE")["65+"] == "What is your age? 65+\n"


def test_forms_and_traits_are_chosen_in_the_papers_order():
    some = steering_prompts(["qa", "bio"], ["RACE", "SEX"])
    assert [one.form for one in some] == ["bio"] * 7 + ["qa"] * 7
    assert [one.group.trait for one in some[:3]] == ["SEX", "SEX", "RACE"]
    assert steering_prompts([]) == ()


@pytest.mark.parametrize(
    ("forms", "traits", "told"),
    [
        (["potray"], None, "there is no form 'potray'; did you mean portray"),
        (["none"], None, "there is no form 'none'; one of: bio, portray, qa"),
        (["qa"], ["SEXE"], "there is no trait 'SEXE'; did you mean SEX"),
    ],
)
def test_what_does_not_exist_is_named(forms, traits, told):
    with pytest.raises(ConfigError) as fault:
        steering_prompts(forms, traits)
    assert told in str(fault.value)


def test_22_groups_are_worded_as_published():
    published = Counter(one.group.trait for one in steering_prompts(["bio"]) if one.published)
    assert published == {
        "POLPARTY": 2,
        "POLIDEOLOGY": 3,
        "RELIG": 5,
        "RACE": 4,
        "EDUCATION": 2,
        "INCOME": 2,
        "CREGION": 2,
        "SEX": 2,
    }


@pytest.mark.skipif(not SHARED.is_dir(), reason="OpinionQA's files are not beside this checkout")
@pytest.mark.parametrize("form", FORMS)
def test_published_prompts_are_those_of_opinionqas_files(form):
    real = {
        (row["md"], row["subgroup"]): f"{row['question'].rstrip('?')}? {row['correct']}\n"
        if form == "qa"
        else row["question"].replace("\r\n", "\n")
        for row in rows(form)
    }
    ours = {(one.group.trait, one.group.value): one.text for one in steering_prompts([form]) if one.published}
    assert ours == real


@pytest.mark.skipif(not SHARED.is_dir(), reason="OpinionQA's files are not beside this checkout")
def test_traits_and_values_are_those_of_opinionqas_metadata():
    with next(SHARED.glob("human_resp/*/metadata.csv")).open(encoding="utf-8", newline="") as handle:
        real = {row["key"]: tuple(ast.literal_eval(row["options"])) for row in csv.DictReader(handle)}
    assert steering_traits() == real
