"""The method soft_prompt on a tiny model: what it learns from, what it answers, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from apm_lab.data.store import Store
from apm_lab.errors import ConfigError, DataError
from apm_lab.language.hashed_encoder import HashedEncoder
from apm_lab.language.hf import HfModel
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.methods.protocols import Checkpointed, Counting, Method
from apm_lab.methods.soft_prompt import SoftPrompt
from apm_lab.methods.views import StyledTexts, TestView, TrainView, ValidationView
from apm_lab.training.trainer_settings import TrainerSettings

HISTORIES = (("Be casual.", "It is fun."), ("Rate the text.", "2"), ("Why swim?", "How strongly?"))
PRINCIPLES = ("casual",)


class Says:
    """Writes the style it is asked for."""

    identity, engine, sampling = "says@1", "simulated", "{}"

    def generate(self, calls):
        return [f"{call.messages[0].content} {call.messages[-1].content}" for call in calls]


@pytest.fixture
def store(tmp_path):
    one = Store(tmp_path / "store")
    yield one
    one.close()


@pytest.fixture
def views(store):
    handle = StyledTexts(StoredTexts(Says(), store.texts, CallCounts()), (11, 12, 13), HISTORIES, PRINCIPLES, "system")
    ratings = np.array([[[9.0, 2.0], [8.0, 3.0]], [[1.0, 7.0], [5.0, 5.0]], [[6.0, 4.0], [2.0, 9.0]]])
    train = TrainView(HISTORIES, ratings, np.ones(ratings.shape, bool), handle, PRINCIPLES, None, seed=5)
    return train, TestView(HISTORIES, ("It is fun.", "Be casual.", "2"), handle, PRINCIPLES, seed=6)


def method(place, **values):
    base = HfModel(place, dtype="float32", device="cpu", max_tokens=6, batch_size=2)
    given = {"lora_rank": 2, "batch_size": 2, "accumulate": 1, "epochs": 2, "learning_rate": 0.01, **values}
    return SoftPrompt(base, HashedEncoder(32), TrainerSettings(threads=1), **given)


def test_it_is_a_method_that_counts_and_saves(tiny):
    one = method(tiny)
    assert isinstance(one, Method)
    assert isinstance(one, Counting)
    assert isinstance(one, Checkpointed)


def test_it_learns_from_the_pairs_and_answers_everybody_in_its_own_words(tiny, views, tmp_path):
    train, test = views
    steps = []
    one = method(tiny)
    one.fit(replace(train, log=steps.append))
    texts = [response.text for response in one.respond(test)]
    assert len(texts) == 3
    assert all(isinstance(text, str) for text in texts)
    assert one.counts == {"dropped": 1, "truncated": 0}  # two ratings of 5
    assert len(steps) == 2 * 3  # five pairs in batches of two, twice
    assert all(np.isfinite(step["train/loss"]) for step in steps)
    again = method(tiny)
    again.fit(train)
    assert [response.text for response in again.respond(test)] == texts
    assert [response.text for response in again.respond(test)] == texts


def test_held_out_users_are_looked_at_after_every_epoch(tiny, views):
    train, _ = views
    plain, steps = [], []
    one = method(tiny)
    one.fit(replace(train, log=plain.append))
    view = ValidationView(HISTORIES[::-1], train.ratings[::-1], train.known, None, train.candidates)
    one.fit(replace(train, validation=view, log=steps.append))
    seen = [step for step in steps if "val/loss" in step]
    assert len(seen) == 2
    assert all(0 <= step["val/put_right"] <= 1 and np.isfinite(step["val/loss"]) for step in seen)
    assert [step for step in steps if "train/loss" in step] == plain  # looking changes nothing


def test_another_draw_leaves_nothing_of_the_one_before(tiny, views):
    train, test = views
    one, fresh = method(tiny), method(tiny)
    one.fit(replace(train, ratings=11 - train.ratings, seed=99))
    one.fit(train)
    fresh.fit(train)
    assert [response.text for response in one.respond(test)] == [response.text for response in fresh.respond(test)]


def test_the_model_answers_as_before_once_it_is_trained(tiny, views):
    from apm_lab.language.protocols import GenerationCall
    from apm_lab.records import Message

    base = HfModel(tiny, dtype="float32", device="cpu", max_tokens=6)
    calls = [GenerationCall((Message("user", "Be casual."),), sample) for sample in range(4)]
    before = base.generate(calls)
    one = method(tiny)
    one.fit(views[0])
    one.respond(views[1])
    assert base.generate(calls) == before


def test_a_checkpoint_starts_the_next_training_and_is_part_of_its_reference(tiny, views, tmp_path):
    train, _ = views
    one = method(tiny, soft_tokens=0, lora_dropout=0.0)
    one.fit(train)
    one.save(tmp_path / "policy")
    steps = []
    other = method(tiny, soft_tokens=0, lora_dropout=0.0, start=str(tmp_path / "policy"))
    other.fit(replace(train, log=steps.append))
    assert steps[0]["train/loss"] == pytest.approx(np.log(2), abs=1e-5)
    assert steps[0]["train/reward_chosen"] == pytest.approx(0, abs=1e-5)
    with pytest.raises(ConfigError, match=r"the soft_tokens 0, and method.soft_tokens is 1"):  # before any fit
        method(tiny, start=str(tmp_path / "policy"))


def test_without_a_pair_there_is_nothing_to_learn_from(tiny, views):
    train, _ = views
    with pytest.raises(DataError, match="no training user has a pair to learn from"):
        method(tiny).fit(replace(train, ratings=np.full(train.ratings.shape, 5.0)))
    with pytest.raises(DataError, match="no training user has a pair to learn from"):
        method(tiny, max_tokens=3).fit(train)


def test_a_query_longer_than_the_context_is_refused(tiny, views):
    train, test = views
    one = method(tiny)
    one.fit(train)
    with pytest.raises(ConfigError, match=r"more than its context of 512; shorten the text, .*method.context_tokens"):
        one.respond(replace(test, queries=("It is fun. " * 300, "2", "2")))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lora_rank": -1}, r"method.lora_rank is -1, expected at least 0"),
        ({"soft_tokens": 0, "lora_rank": 0}, "nothing to train"),
        ({"beta": 0.0}, r"method.beta is 0.0"),
        ({"beta": math.inf}, r"method.beta is inf"),
        ({"learning_rate": math.nan}, r"method.learning_rate is nan"),
        ({"max_tokens": 0}, r"method.max_tokens is 0, expected at least 1"),
        ({"lora_targets": ()}, r"method.lora_targets is empty"),
        ({"lora_dropout": 1.0}, r"method.lora_dropout is 1.0"),
        ({"accumulate": 0}, r"method.accumulate is 0"),
        ({"engine": "trl"}, r"method.engine=trl trains an adapter alone: set method.soft_tokens=0"),
    ],
)
def test_bad_values_are_named(tiny, values, message):
    with pytest.raises(ConfigError, match=message):
        method(tiny, **values)


def test_an_unfinished_training_goes_on_in_a_folder_of_its_own(tiny, views, tmp_path):
    train, test = views
    whole = method(tiny)
    whole.fit(train)
    expected = [response.text for response in whole.respond(test)]

    def interrupt(figures):
        if figures["step"] >= 3:
            raise KeyboardInterrupt

    settings = TrainerSettings(threads=1, checkpoint_folder=str(tmp_path / "unfinished"))
    one = method(tiny)
    one._trainer = settings
    one._training["every_n_steps"] = 1
    with pytest.raises(KeyboardInterrupt):
        one.fit(replace(train, log=interrupt))
    assert list((tmp_path / "unfinished").glob("*/last.ckpt"))
    steps = []
    again = method(tiny)
    again._trainer = settings
    again._training["every_n_steps"] = 1
    again.fit(replace(train, log=steps.append))
    assert len(steps) < 6
    assert [response.text for response in again.respond(test)] == expected


def test_an_unfinished_training_is_continued_only_by_one_that_trains_alike_from_the_same_weights(tiny, views, tmp_path):
    def place(start=None, **settings):
        one = method(tiny, start=start)
        one._trainer = TrainerSettings(threads=1, checkpoint_folder=str(tmp_path), **settings)
        return one._unfinished([], np.zeros((1, 32), np.float32), 5)

    assert place() == place(progress_bar=True)
    assert len({place(), place(max_epochs=3), place(gradient_clip=1.0)}) == 3
    found = []
    for seed in (5, 6):  # the same folder with other weights
        one = method(tiny)
        one.fit(replace(views[0], seed=seed))
        one.save(tmp_path / "policy")
        found.append(place(start=str(tmp_path / "policy")))
    assert found[0] != found[1]
