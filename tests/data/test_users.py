import numpy as np

from apm_lab.data.prompts import read_prompts, split_prompts
from apm_lab.data.users import make_users

POOLS = split_prompts(read_prompts()[0], 4, seed=0)


def people(split="train", count=60, turns=2, seed=0, balance=True):
    return make_users(split, count, attributes=5, active=1, turns=turns, balance=balance, pools=POOLS, seed=seed)


def test_fewer_users_are_the_beginning_of_more():
    few, many = people(count=37), people(count=90)
    assert few.ids == many.ids[:37]
    assert few.neutral == many.neutral[:37]
    np.testing.assert_array_equal(few.attributes, many.attributes[:37])


def test_prompts_come_from_their_pool_and_never_twice_for_a_user():
    texts = {split: {p.text for p in getattr(POOLS, split)} for split in ("train", "test_history", "test_query")}
    train, test = people(turns=4), people("test", turns=4)
    assert all(len(set(history)) == 4 and set(history) <= texts["train"] for history in train.neutral)
    assert all(set(history) <= texts["test_history"] for history in test.neutral)
    assert set(test.queries) <= texts["test_query"]
    assert train.queries == ()


def test_more_turns_begin_with_the_same_prompts():
    assert [history[:2] for history in people(turns=4).neutral] == list(people(turns=2).neutral)


def test_splits_and_seeds_are_independent():
    assert not set(people().ids) & set(people("validation").ids)
    assert people(seed=1).neutral != people(seed=2).neutral


def test_numbers_are_positive_and_different():
    numbers = people(count=500).numbers
    assert min(numbers) > 0
    assert len(set(numbers)) == 500
