"""A random part of a data set: the same for one seed, in order, and its own for each data set."""

import pytest

from apm_lab.data.subset import random_subset
from apm_lab.errors import ConfigError


def test_a_part_is_drawn_in_order_and_by_name_and_seed():
    part = random_subset(range(100), 10, 0, "a")
    assert part == sorted(set(part)) and len(part) == 10
    assert part == random_subset(range(100), 10, 0, "a")
    assert part != random_subset(range(100), 10, 0, "b")
    assert part != random_subset(range(100), 10, 1, "a")


@pytest.mark.parametrize("count", [None, 3, 4])
def test_all_are_taken_where_no_more_are_there(count):
    assert random_subset("abc", count, 0, "a") == ["a", "b", "c"]


@pytest.mark.parametrize("count", [0, -1])
def test_none_is_no_part(count):
    with pytest.raises(ConfigError, match=f"dataset.items={count}: expected at least 1"):
        random_subset("abc", count, 0, "a")


def test_every_item_is_as_likely_as_another():
    taken = [item for seed in range(300) for item in random_subset(range(4), 2, seed, "a")]
    assert all(abs(taken.count(item) - 150) < 40 for item in range(4))  # s.d. 8.7
