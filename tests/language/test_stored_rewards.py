import math

import pytest

from apm_lab.data.store import Store
from apm_lab.errors import DataError
from apm_lab.language.protocols import Answer, Usage
from apm_lab.language.recall import CallCounts
from apm_lab.language.reward_model import RewardCall
from apm_lab.language.stored_rewards import StoredRewards


class Lengths:
    """Rewards an answer by its letters; "?" has none. Gives groups of two calls, the last first."""

    engine, sampling = "hf", "{}"

    def __init__(self, identity="lengths@1"):
        self.identity, self.asked = identity, []

    def rewards(self, calls):
        self.asked += calls
        places = list(range(len(calls)))[::-1]
        for start in range(0, len(places), 2):
            yield [Answer(place, self.rated(calls[place]), Usage(3, 0)) for place in places[start : start + 2]]

    def rated(self, call):
        return tuple(math.nan if answer == "?" else len(call.prompt) + len(answer) / 4 for answer in call.answers)


class Compares(Lengths):
    """Rewards an answer by how much longer it is than the others."""

    compares_answers = True

    def rated(self, call):
        mean = sum(map(len, call.answers)) / len(call.answers)
        return tuple(len(answer) - mean for answer in call.answers)


@pytest.fixture
def shelf(tmp_path):
    return Store(tmp_path / "store").scores


CALLS = [RewardCall("one", ("a", "bb")), RewardCall("three", ("ccc",)), RewardCall("one", ("bb", "dddd"))]


def test_rewards_come_in_order_and_each_is_made_once(shelf):
    model, counts = Lengths(), CallCounts()
    stored = StoredRewards(model, shelf, counts)
    told = []
    assert stored.missing(CALLS) == [CALLS[0], CALLS[1], RewardCall("one", ("dddd",))]
    assert stored.rewards(CALLS, lambda *given: told.append(given)) == [(3.25, 3.5), (5.75,), (3.5, 4.0)]
    assert model.asked == [CALLS[0], CALLS[1], RewardCall("one", ("dddd",))]
    assert told == [(2, 3), (3, 3)]
    assert (counts.asked, counts.made, counts.hits, counts.blank, counts.tokens_in) == (5, 4, 1, 0, 9)
    assert stored.missing(CALLS) == []
    assert stored.rewards(CALLS[::-1]) == [(3.5, 4.0), (5.75,), (3.25, 3.5)]
    assert len(model.asked) == 3
    assert stored.rewards([]) == []


def test_another_run_finds_them_and_another_model_does_not(shelf):
    StoredRewards(Lengths(), shelf, CallCounts()).rewards(CALLS)
    again, other = Lengths(), Lengths("lengths@2")
    assert StoredRewards(again, shelf, CallCounts()).rewards(CALLS)[1] == (5.75,)
    StoredRewards(other, shelf, CallCounts()).rewards(CALLS[:1])
    assert (again.asked, other.asked) == ([], CALLS[:1])
    raw = Lengths()
    raw.sampling = '{"template":"raw"}'
    assert StoredRewards(raw, shelf, CallCounts()).missing(CALLS[:1]) == CALLS[:1]


def test_what_is_not_finite_is_counted_and_asked_again(shelf):
    model, counts = Lengths(), CallCounts()
    calls = [RewardCall("one", ("?", "a")), RewardCall("one", ("?",))]
    assert StoredRewards(model, shelf, counts).rewards(calls) == [(None, 3.25), (None,)]
    assert (counts.made, counts.blank, shelf.count()) == (2, 1, 1)
    assert StoredRewards(model, shelf, counts).missing(calls) == [RewardCall("one", ("?",))]


def test_a_killed_run_goes_on(shelf):
    class Dies(Lengths):
        def rewards(self, calls):
            yield next(super().rewards(calls))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        StoredRewards(Dies(), shelf, CallCounts()).rewards(CALLS)
    again = Lengths()
    assert StoredRewards(again, shelf, CallCounts()).rewards(CALLS) == [(3.25, 3.5), (5.75,), (3.5, 4.0)]
    assert again.asked == CALLS[:1]


def test_where_answers_are_compared_the_others_are_in_the_key(shelf):
    model = Compares()
    stored = StoredRewards(model, shelf, CallCounts())
    calls = [RewardCall("p", ("a", "bbb")), RewardCall("p", ("a", "bbbbb")), RewardCall("p", ("a", "bbb"))]
    assert stored.rewards(calls) == [(-1.0, 1.0), (-2.0, 2.0), (-1.0, 1.0)]
    assert model.asked == calls[:2]
    assert stored.missing(calls) == []
    assert stored.missing([RewardCall("p", ("a",))]) == [RewardCall("p", ("a",))]


def test_answers_that_are_the_same_text_have_the_same_reward(shelf):
    for kind in (Lengths, Compares):
        stored = StoredRewards(kind(), shelf, CallCounts())
        assert len(set(stored.rewards([RewardCall("q", ("aa", "aa"))])[0])) == 1


def test_texts_that_meet_at_another_place_are_other_calls(shelf):
    stored = StoredRewards(Lengths(), shelf, CallCounts())
    keys = stored.keys([RewardCall("a\x1d", ("b",)), RewardCall("a", ("\x1db", "b", "\ud800"))])
    assert len({key for each in keys for key in each}) == 4


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ([Answer(0, (1.0,))], "lengths@1 gave 1 rewards for 2 answers to 'one'"),
        ([Answer(0, (1.0, 2.0))], "lengths@1 left 1 of 2 calls unanswered"),
        ([Answer(0, (1.0, None))], r"lengths@1 gave \(1.0, None\) for 'one': expected numbers"),
        ([Answer(0, ("1", "2"))], "expected numbers, NaN where there is none"),
        ([Answer(0, (1.0, 2.0)), Answer(0, (1.0, 2.0))], "lengths@1 answered call 0 twice"),
    ],
)
def test_other_than_one_reward_an_answer_is_refused(shelf, group, message):
    model = Lengths()
    model.rewards = lambda calls: iter([group])
    with pytest.raises(DataError, match=message):
        StoredRewards(model, shelf, CallCounts()).rewards(CALLS[:2])
