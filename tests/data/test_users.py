import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare, spearmanr

from apm_lab.data.prompts import read_prompts, split_prompts
from apm_lab.data.users import make_users
from apm_lab.errors import ConfigError
from apm_lab.maths.mapping import SignedPermutation, draw_mappings

POOLS = split_prompts(read_prompts(), 4, seed=0)


def people(split="train", count=60, turns=2, seed=0, balance=True):
    return make_users(split, count, attributes=5, active=1, turns=turns, balance=balance, pools=POOLS, seed=seed)


def classes_of(users):
    """Return 2 i for attribute i shown and 2 i + 1 for its opposite."""
    active = np.abs(users.attributes).argmax(axis=1)
    return 2 * active + (users.attributes[np.arange(len(users)), active] < 0)


@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_fewer_users_are_the_beginning_of_more(split, balance):
    few, many = people(split, count=37, balance=balance), people(split, count=90, balance=balance)
    assert (few.ids, few.numbers) == (many.ids[:37], many.numbers[:37])
    assert (few.neutral, few.queries) == (many.neutral[:37], many.queries[:37])
    np.testing.assert_array_equal(few.attributes, many.attributes[:37])


def test_prompts_come_from_their_pool_and_never_twice_for_a_user():
    texts = {split: {p.text for p in getattr(POOLS, split)} for split in ("train", "test_history", "test_query")}
    train, test = people(turns=4), people("test", turns=4)
    assert all(len(set(history)) == 4 and set(history) <= texts["train"] for history in train.neutral)
    assert all(len(set(history)) == 4 and set(history) <= texts["test_history"] for history in test.neutral)
    assert all(set(history) <= texts["train"] for history in people("validation", turns=4).neutral)
    assert set(test.queries) <= texts["test_query"]
    assert len(test.queries) == len(test) == 60
    assert train.queries == ()


def test_a_pool_is_used_again_when_it_is_short():
    small = split_prompts(read_prompts()[:20], 4, seed=0)
    users = make_users("train", 50, attributes=5, active=1, turns=4, balance=True, pools=small, seed=0)
    assert all(len(set(history)) == 4 for history in users.neutral)
    assert {text for history in users.neutral for text in history} == {prompt.text for prompt in small.train}


def test_more_turns_begin_with_the_same_prompts():
    for split in ("train", "test"):
        few, many = people(split, turns=2), people(split, turns=4)
        assert [history[:2] for history in many.neutral] == list(few.neutral)
        assert many.queries == few.queries
        assert many.ids == few.ids
        np.testing.assert_array_equal(many.attributes, few.attributes)


def test_splits_and_seeds_are_independent():
    assert not set(people().ids) & set(people("validation").ids)
    assert people(seed=1).neutral != people(seed=2).neutral
    assert people().attributes.tolist() != people("validation").attributes.tolist()


def test_numbers_are_positive_and_different():
    numbers = people(count=500).numbers
    assert min(numbers) > 0
    assert len(set(numbers)) == 500


@pytest.mark.parametrize("balance", [True, False])
def test_ids_and_numbers_carry_nothing(balance):
    users = people("test", count=4000, balance=balance)
    classes = classes_of(users)
    for marks in (np.array([int(user_id, 16) for user_id in users.ids]), np.array(users.numbers)):
        quarter = marks.argsort().argsort() * 4 // len(users)
        table = np.zeros((4, 10))
        np.add.at(table, (quarter, classes), 1)
        assert chi2_contingency(table).pvalue > 0.001
        parity = np.zeros((2, 10))
        np.add.at(parity, (marks % 2, classes), 1)
        assert chi2_contingency(parity).pvalue > 0.001
        assert spearmanr(marks, np.arange(len(users))).pvalue > 0.001
    assert {len(user_id) for user_id in users.ids} == {16}


def test_prompts_do_not_depend_on_who_asks():
    users = people(count=4000, turns=1)
    half = {prompt.text for prompt in POOLS.train[: len(POOLS.train) // 2]}
    table = np.zeros((2, 10))
    np.add.at(table, ([int(text in half) for (text,) in users.neutral], classes_of(users)), 1)
    assert chi2_contingency(table).pvalue > 0.001


def test_attributes_are_independent_of_the_mapping_drawn_from_the_same_seed():
    # Principle and sign that the first user's attribute meets, over seeds: uniform over the ten pairs.
    met = np.zeros(10)
    for seed in range(400):
        attributes = people(count=1, seed=seed).attributes[0]
        (preferences,) = draw_mappings(SignedPermutation(), "independent", 1, 5, 5, seed).matrices @ attributes
        principle = np.abs(preferences).argmax()
        met[2 * principle + (preferences[principle] < 0)] += 1
    assert chisquare(met).pvalue > 0.001


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match=r"users\.active=6"):
        make_users("train", 5, attributes=5, active=6, turns=1, balance=True, pools=POOLS, seed=0)
