"""What the form of a prompt does to a model that heeds it, and to one that does not."""

import numpy as np
import pytest

from apm_lab.records import ChoiceQuestion
from apm_lab.studies.format_sensitivity import AXES, format_effect
from apm_lab.studies.question_format import alterations

QUESTION = ChoiceQuestion("Q", "?", ("a", "b", "c", "d"))
FORMS = list(alterations(QUESTION))


def test_a_model_that_ranks_alike_in_every_form():
    found = format_effect(QUESTION, np.tile([4.0, 3.0, 2.0, 1.0], (148, 1)) + np.arange(148)[:, None])
    assert (found.formats, found.kendall_w, found.same_top) == (148, pytest.approx(1.0), 1.0)
    assert all(found.by_axis[axis] == pytest.approx(1.0) for axis in AXES)


def test_a_model_that_heeds_the_display_alone():
    up, down = [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]
    found = format_effect(QUESTION, np.array([up if form.display == "qa" else down for form in FORMS]))
    assert found.by_axis["display"] == pytest.approx(-1.0)
    assert [found.by_axis[axis] for axis in AXES[1:]] == pytest.approx([1.0] * 5)
    assert found.same_top == pytest.approx(144 / 148)


def test_formats_with_a_missing_reward_are_left_out_and_counted():
    rewards = np.tile([4.0, 3.0, 2.0, 1.0], (148, 1))
    rewards[3, 2] = np.nan
    found = format_effect(QUESTION, rewards)
    assert (found.formats, found.missing) == (147, 1)
    nothing = format_effect(QUESTION, np.full((148, 4), np.nan))
    assert (nothing.formats, nothing.kendall_w, nothing.same_top) == (0, None, None)


def test_ties_are_no_agreement():
    assert format_effect(QUESTION, np.zeros((148, 4))).same_top is None
    rewards = np.tile([4.0, 3.0, 2.0, 1.0], (148, 1))
    rewards[FORMS.index(next(form for form in FORMS if form.display == "qa"))] = 0.0  # one format ties everywhere
    assert format_effect(QUESTION, rewards).same_top == 1.0


def test_friedmans_test_can_hardly_reject_when_ranks_are_random():
    # As RMP App. B.3.1 found: every format's ranks have one sum, so that no format can be above the others.
    rewards = np.random.default_rng(0).normal(size=(148, 4))
    assert format_effect(QUESTION, rewards).p_value > 0.9
