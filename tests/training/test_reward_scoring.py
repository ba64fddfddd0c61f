"""Rewards over processes: the store has them all, each once, and they are those of one process."""

import sys
from pathlib import Path

import pytest

from apm_lab.data.store import Store
from apm_lab.language.recall import CallCounts
from apm_lab.language.reward_model import RewardCall
from apm_lab.training.reward_scoring import RewardScoring
from apm_lab.training.trainer_settings import TrainerSettings

sys.path.insert(0, str(Path(__file__).parent))
from lengths import Lengths

CALLS = [RewardCall(f"prompt {number}", ("a", "bb" * (number % 3 + 1))) for number in range(700)]


def scoring(tmp_path, store, **trainer):
    settings = {"path": str(tmp_path / "store")}
    told = []
    trainer = TrainerSettings(threads=1, **trainer)
    found = RewardScoring(
        Lengths(tmp_path / "log"), store, settings, CallCounts(), trainer, lambda *report: told.append(report)
    )
    return found, told


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


def test_rewards_come_in_order_and_what_is_not_finite_is_none(tmp_path, store):
    score, told = scoring(tmp_path, store)
    found = score(CALLS, "rewards")
    assert found[7] == (None, None)
    assert found[:3] == [(1.0, 2.0), (1.0, 4.0), (1.0, 6.0)]
    assert told == [("rewards", 1, 3), ("rewards", 2, 3), ("rewards", 3, 3)]
    counts = score._counts
    assert (counts.asked, counts.made, counts.blank, counts.hits) == (1400, 1400, 2, 0)


def test_a_second_time_only_what_has_no_number_is_asked(tmp_path, store):
    score, _ = scoring(tmp_path, store)
    score(CALLS, "rewards")
    (tmp_path / "log").unlink()
    again, _ = scoring(tmp_path, store)
    assert again(CALLS, "rewards")[1] == (1.0, 4.0)
    assert (tmp_path / "log").read_text().split("\n")[:-1] == ["prompt 7"]
    assert (again._counts.asked, again._counts.made) == (1400, 2)


def test_two_processes_share_the_calls_and_none_is_made_twice(tmp_path, store):
    score, _ = scoring(tmp_path, store, devices=2)
    found = score(CALLS, "rewards")
    asked = (tmp_path / "log").read_text().split("\n")[:-1]
    assert sorted(asked) == sorted(call.prompt for call in CALLS)
    assert found[7] == (None, None)
    assert [rewards[1] for rewards in found[:3]] == [2.0, 4.0, 6.0]
    assert score._counts.made == 1400
