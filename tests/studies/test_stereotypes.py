"""BBQ and StereoSet by models whose preferences are known."""

import numpy as np
import pytest

from apm_lab.data.sources.bbq import BbqItem
from apm_lab.data.sources.stereoset import StereoSetItem
from apm_lab.studies.stereotypes import (
    audit_bbq,
    audit_stereoset,
    bbq_questions,
    choice_order,
    stereoset_questions,
)


def bbq(number, ambiguous, gold, shows=0, category="Age", groups=("old",)):
    answers = (f"A{number}", f"B{number}", "Unknown")
    other = None if shows is None else 1 - shows
    return BbqItem(
        f"{category}/{number}", category, f"Context {number}.", "Who?", answers, gold, 2, shows, other, groups,
        ambiguous, True,
    )  # fmt: skip


ITEMS = [
    *(bbq(number, True, 2) for number in range(6)),
    *(bbq(number, False, number % 2, groups=("Old", "poor") if number % 3 else ("old",)) for number in range(6, 18)),
    bbq(18, False, 0, shows=None, category="Race_ethnicity", groups=("Black",)),
]


def shown(items, reward):
    """Return rewards as the choices are shown: `reward(item, place)` of the file's places."""
    return np.array([[reward(item, place) for place in choice_order(item.id, 3, 0)] for item in items], dtype=float)


def test_choices_are_shown_in_an_order_of_their_own_and_read_back_by_their_places():
    questions = bbq_questions(ITEMS, 0)
    orders = {question.choices.index("Unknown") for question in questions}
    assert orders == {0, 1, 2}
    assert questions[0].text == "Context 0. Who?"
    right = audit_bbq(ITEMS, shown(ITEMS, lambda item, place: place == item.gold), False, 0)
    assert right.confusion.tolist() == [[6, 0, 0], [0, 6, 0], [0, 0, 6]]
    assert right.test.share == pytest.approx(np.ones(3))


def test_a_model_that_always_stereotypes():
    found = audit_bbq(ITEMS, shown(ITEMS, lambda item, place: place == item.stereotyped), False, 0)
    assert found.confusion.tolist() == [[6, 0, 0], [6, 0, 0], [6, 0, 0]]
    name, ambiguous, clear = found.bias[0]
    assert (name, ambiguous.value, ambiguous.accuracy) == ("all", 1.0, 0.0)
    assert (clear.value, clear.accuracy) == (1.0, 0.5)
    assert found.unresolved == 1
    assert [category for category, *_ in found.bias] == ["all", "Age", "Race_ethnicity"]
    assert found.bias[2][1].value is None  # its one item names no target


def test_without_refusals_only_items_about_a_person_can_be_correct():
    found = audit_bbq(ITEMS, shown(ITEMS, lambda item, place: 9.0 * (place == 2) + (place == item.gold)), True, 0)
    assert found.confusion[:, 1].tolist() == [0, 0, 0]
    groups = {group.value: row for row, group in enumerate(found.groups)}
    assert set(groups) == {"old", "poor", "black"}
    assert found.test.total[groups["old"]] == 12  # the six ambiguous items are not asked
    assert found.test.share[groups["old"]] == 1.0


def test_a_missing_reward_leaves_the_item_out_and_is_counted():
    rewards = shown(ITEMS, lambda item, place: place == item.gold)
    rewards[6, 1] = np.nan
    found = audit_bbq(ITEMS, rewards, False, 0)
    assert found.missing == 1
    assert found.confusion.sum() == 17
    assert found.test.total.sum() == audit_bbq(ITEMS, shown(ITEMS, lambda *_: 0.0), False, 0).test.total.sum() - 1


def test_ties_are_drawn_and_counted():
    found = audit_bbq(ITEMS, np.zeros((len(ITEMS), 3)), False, 0)
    assert found.tied == len(ITEMS)
    assert found.confusion.sum(axis=0).min() > 0  # not always the first


STEREO = [
    StereoSetItem(
        f"s{number}", "intersentence", ("race", "gender")[number % 2], f"t{number % 4}", "c", ("x", "y", "z"),
        number % 3, (number + 1) % 3, (number + 2) % 3,
    )
    for number in range(24)
]  # fmt: skip


def test_stereoset_shares_and_scores_by_hand():
    def reward(item, place):
        number = int(item.id[1:])
        kind = (place - number) % 3  # 0 stereotype, 1 antistereotype, 2 unrelated
        liked = 0 if number < 12 else 1  # half of the items stereotype
        return 2.0 if kind == liked else 1.0 if kind == 2 else 0.0

    found = audit_stereoset(STEREO, shown(STEREO, reward), 0)
    assert found.overall.tolist() == [12, 12, 0]
    assert found.counts.sum() == 24
    assert [group.value for group in found.groups] == ["t1", "t3", "t0", "t2"]
    # One of the two meaningful sentences is over the unrelated one, always: LM 50; half prefer the stereotype: SS 50.
    assert (found.language_model, found.stereotype, found.icat) == (50.0, 50.0, 50.0)
    assert stereoset_questions(STEREO, 0)[0].text == "c"


def test_an_ideal_model_has_icat_one_hundred_and_a_stereotyping_one_none():
    ideal = shown(STEREO, lambda item, place: 0.0 if place == item.unrelated else 1.0)
    assert audit_stereoset(STEREO, ideal, 0).icat == 100.0  # equal rewards count half
    biased = shown(STEREO, lambda item, place: 2.0 * (place == item.stereotype) + (place == item.antistereotype))
    found = audit_stereoset(STEREO, biased, 0)
    assert (found.language_model, found.stereotype, found.icat) == (100.0, 100.0, 0.0)


def test_without_any_reward_there_is_no_score():
    found = audit_stereoset(STEREO, np.full((24, 3), np.nan), 0)
    assert (found.missing, found.icat, found.overall.sum()) == (24, None, 0)
