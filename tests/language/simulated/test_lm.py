"""The simulated language model: its lessons, its tokenizer, and that it is made once, whole or not at all."""

from __future__ import annotations

import threading

import pytest

from apm_lab.errors import UnfetchedError
from apm_lab.language.hf import HfModel
from apm_lab.language.protocols import GenerationCall, Ready
from apm_lab.language.simulated import lm, lm_training
from apm_lab.language.simulated.lm_corpus import lessons, lm_tokenizer
from apm_lab.language.simulated.lm_training import make_simulated_lm
from apm_lab.records import Message


@pytest.fixture(scope="module")
def tokenizer():
    return lm_tokenizer()


def test_lessons_ask_in_both_turns_and_in_every_style_and_some_ask_for_none():
    taught = lessons(400, seed=1)
    asked = {turn.content for one in taught for turn in one.messages if turn.role == "system"}
    fenced = [one for one in taught if one.messages[-1].content.startswith("<answer_style>")]
    plain = [one for one in taught if len(one.messages) == 1 and one not in fenced]
    assert len(asked) == 20
    assert len(fenced) > 100
    assert 60 < len(plain) < 100
    assert taught[:50] == lessons(50, seed=1)
    assert taught[:50] != lessons(50, seed=2)


def test_an_answer_is_few_tokens_and_comes_back_as_it_was(tokenizer):
    taught = lessons(60, seed=1)
    tokens = [tokenizer(one.answer, add_special_tokens=False)["input_ids"] for one in taught]
    assert sum(map(len, tokens)) / len(tokens) < 50
    assert [tokenizer.decode(one) for one in tokens] == [one.answer for one in taught]


def test_any_text_has_tokens(tokenizer):
    text = "Ünïcödé \U0001f600 \n\t日本"
    assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_it_is_a_model_that_answers_and_can_be_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("APM_LAB_MODELS", str(tmp_path))
    monkeypatch.setattr(lm_training, "LESSONS", 64)
    monkeypatch.setattr(make_simulated_lm, "__defaults__", (64, None))
    model = HfModel("simulated_lm", dtype="float32", device="cpu", max_tokens=20)
    assert isinstance(model, Ready)
    with pytest.raises(UnfetchedError, match="its first run trains it"):
        _ = model.identity
    model.ready()
    assert model.identity.startswith("simulated_lm-")
    texts = model.generate(
        [GenerationCall((Message("user", "How do plants grow?"),), sample) for sample in range(1, 9)]
    )
    assert len(set(texts)) > 2  # one that has learnt so little may well have nothing to say now and then


def test_two_that_need_it_at_once_make_one(tmp_path, monkeypatch):
    monkeypatch.setenv("APM_LAB_MODELS", str(tmp_path))
    made = []

    def make(folder, say=None):
        made.append(folder)
        folder.mkdir()

    monkeypatch.setattr(lm_training, "make_simulated_lm", make)
    threads = [threading.Thread(target=lm.make_once) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert lm.simulated_lm_folder().is_dir()
    assert [file.name for file in tmp_path.iterdir() if file.name.endswith(".part")] == []


def test_what_a_killed_process_left_is_no_model(tmp_path, monkeypatch):
    monkeypatch.setenv("APM_LAB_MODELS", str(tmp_path))

    def fail(folder, say=None):
        folder.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(lm_training, "make_simulated_lm", fail)
    with pytest.raises(KeyboardInterrupt):
        lm.make_once()
    assert not lm.simulated_lm_folder().exists()


def test_training_on_more_lessons_lowers_the_loss(tmp_path):
    said = []
    make_simulated_lm(tmp_path / "model", 160, said.append)
    losses = [float(line.rpartition(" ")[2]) for line in said]
    assert losses[-1] < losses[0] - 0.3
