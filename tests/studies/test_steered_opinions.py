"""Steering of opinions: a model that follows its prompts, one that does not, and one that moves whatever it is told."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from surveys import survey

from apm_lab.data.steering import steering_prompts
from apm_lab.errors import ConfigError
from apm_lab.records import Group
from apm_lab.studies.opinions import DistanceSettings
from apm_lab.studies.steered_opinions import prompts_for, steered_opinions

GROUPS = tuple(Group(("SEX",), (value,)) for value in ("Male", "Female")) + tuple(
    Group(("AGE",), (value,)) for value in ("18-29", "65+")
)
PROMPTS = [(form, group) for form in ("bio", "qa") for group in GROUPS]


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    return survey(rng.dirichlet(np.ones(3), size=(4, 25)), groups=GROUPS)


def effects(people, steered, unsteered=None, prompts=PROMPTS, kept=(0, 1, 2, 3)):
    base = np.zeros((25, 3)) if unsteered is None else unsteered
    return steered_opinions(
        people, kept, prompts, steered, base, "wasserstein", DistanceSettings().at(people), temperature=1.0, seed=0
    )


def test_a_model_that_becomes_the_group_gains_all_there_is_and_more_than_other_values_do(people):
    steered = np.stack([np.log(people.shares[GROUPS.index(group)]) for _, group in PROMPTS])
    found = effects(people, steered)
    for effect in found.effects:
        assert effect.aligned == pytest.approx(np.ones(4))
        assert effect.gain == pytest.approx(1.0 - effect.unsteered)
        assert (effect.low > 0).all()
        assert (effect.aligned - effect.others > 0.05).all()
        assert effect.test.z > 0 and effect.test.p_value < 0.001
    assert found.form_ranks[0].tolist() == [3.0] * 4  # no steering comes off worst, the two forms are level
    assert found.form_ranks[1:].tolist() == [[1.5] * 4] * 2


def test_a_model_that_ignores_its_prompts_gains_nothing(people):
    base = np.random.default_rng(1).normal(size=(25, 3))
    found = effects(people, np.stack([base] * len(PROMPTS)), base)
    for effect in found.effects:
        assert effect.gain == pytest.approx(np.zeros(4))
        assert (effect.test.n, effect.test.p_value) == (0, None)
        assert effect.spread == pytest.approx(np.zeros(4))
    assert found.form_ranks == pytest.approx(np.full((3, 4), 2.0))


def test_a_model_that_moves_the_same_way_for_everybody_gains_without_steering(people):
    towards = np.log(people.shares.mean(axis=0))
    found = effects(people, np.stack([towards] * len(PROMPTS)))
    for effect in found.effects:
        assert effect.mean_gain > 0.01
        assert effect.aligned - effect.others == pytest.approx(np.zeros(4))


def test_the_test_is_over_questions_and_means_of_groups(people):
    steered = np.random.default_rng(2).normal(size=(8, 25, 3))
    found = effects(people, steered)
    assert found.effects[0].test.n == 25
    gain = (found.after["bio"] - found.before["bio"]).mean()
    assert gain == pytest.approx(found.effects[0].mean_gain)


def test_groups_without_a_prompt_of_every_form_are_left_out(people):
    found = effects(people, np.zeros((7, 25, 3)), prompts=PROMPTS[:-1])
    assert found.groups == (0, 1, 2)
    assert effects(people, np.zeros((1, 25, 3)), prompts=[("bio", Group(("X",), ("y",)))]) is None
    assert effects(people, np.zeros((8, 25, 3)), kept=(1,)).groups == (1,)


def test_missing_rewards_leave_their_question_out_of_both_sides(people):
    steered = np.random.default_rng(3).normal(size=(8, 25, 3))
    steered[:, 4] = np.nan
    found = effects(people, steered)
    assert np.isnan(found.before["bio"][4]) and np.isnan(found.after["bio"][4])
    assert found.effects[0].test.n == 24
    assert np.isfinite(found.effects[0].gain).all()


def test_groups_that_share_few_questions_have_no_bounds_and_nothing_is_warned_of():
    answered = np.zeros((4, 25))
    answered[:, 0] = 100  # most samples of the questions miss the first
    few = survey(np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 25)), groups=GROUPS, answered=answered)
    found = effects(few, np.random.default_rng(3).normal(size=(8, 25, 3))).effects[0]
    assert np.isfinite(found.gain).all() and np.isfinite(found.mean_gain)
    assert np.isnan([*found.low, found.mean_low, found.mean_high]).all()


def test_only_prompts_that_name_a_group_of_the_survey_are_asked(people):
    kept = prompts_for(people, steering_prompts(["bio", "qa"]), None)
    assert {prompt.group for prompt in kept} == set(GROUPS)
    assert len(kept) == 2 * len(GROUPS)


def test_a_trait_that_the_survey_lacks_is_refused(people):
    with pytest.raises(ConfigError, match=r"steering\.traits: small has no groups of RACE; one of: AGE, SEX"):
        prompts_for(people, steering_prompts(["bio"], ["SEX", "RACE"]), ["SEX", "RACE"])
    elsewhere = survey(people.shares)
    with pytest.raises(ConfigError, match=r"steering: no prompt names a group of small, whose traits are T"):
        prompts_for(elsewhere, steering_prompts(["bio"]), None)
