"""Pairs from texts to tokens: what is cut, what is left out, and that both are counted."""

from __future__ import annotations

import pytest

from apm_lab.errors import ConfigError
from apm_lab.language.encoded_pairs import PairTexts, encoded_pairs, end_token
from apm_lab.language.hf_engine import load_engine
from apm_lab.records import Message

LONG = "It keeps you fit and it is fun. " * 8


@pytest.fixture
def engine(tiny):
    return load_engine(tiny, None, "float32", "cpu")


def prompt_length(engine, text):
    return len(engine.encoder.tokens([(Message("user", text),)])[0])


def test_answers_end_with_the_token_that_ends_a_turn(engine):
    found = encoded_pairs(engine, [PairTexts("Be casual.", "It is fun.", "2", 4)], None, 1)
    (pair,) = found.pairs
    assert engine.tokenizer.decode(pair.chosen) == "It is fun.<|end|>"
    assert engine.tokenizer.decode(pair.rejected) == "2<|end|>"
    assert engine.tokenizer.decode(pair.prompt) == "<|start|>user\nBe casual.<|end|>\n<|start|>assistant\n"
    assert (pair.user, found.dropped, found.truncated) == (4, 0, 0)


def test_an_empty_answer_is_its_end_alone(engine):
    found = encoded_pairs(engine, [PairTexts("Be casual.", "", "2", 0)], None, 1)
    assert found.pairs[0].chosen == (end_token(engine),)


def test_answers_that_are_equal_teach_nothing_and_are_counted(engine):
    found = encoded_pairs(engine, [PairTexts("Be casual.", "2", "2", 0), PairTexts("Be casual.", "2", "3", 1)], None, 1)
    assert ([pair.user for pair in found.pairs], found.dropped) == ([1], 1)


def test_a_longer_answer_is_cut_to_the_room_that_prompt_and_soft_tokens_leave(engine):
    room = prompt_length(engine, "Be casual.") + 3 + 5
    found = encoded_pairs(engine, [PairTexts("Be casual.", LONG, "2", 0)], room, 3)
    assert len(found.pairs[0].chosen) == 5
    assert end_token(engine) not in found.pairs[0].chosen
    assert found.truncated == 1
    assert found.pairs[0].rejected[-1] == end_token(engine)


@pytest.mark.parametrize("spare", [0, -4])
def test_a_prompt_that_leaves_no_room_for_an_answer_is_left_out(engine, spare):
    room = prompt_length(engine, "Be casual.") + 1 + spare
    found = encoded_pairs(engine, [PairTexts("Be casual.", "2", "3", 0)], room, 1)
    assert (found.pairs, found.dropped, found.truncated) == ([], 1, 0)


def test_a_cut_that_makes_both_answers_equal_leaves_the_pair_out(engine):
    room = prompt_length(engine, "Be casual.") + 1 + 4
    found = encoded_pairs(engine, [PairTexts("Be casual.", LONG + "2", LONG + "3", 0)], room, 1)
    assert (found.pairs, found.dropped) == ([], 1)


def test_a_conversation_is_no_longer_than_the_context_without_another_limit(engine):
    found = encoded_pairs(engine, [PairTexts("Be casual.", LONG * 9, "2", 0)], None, 1)
    assert len(found.pairs[0].prompt) + len(found.pairs[0].chosen) + 1 == engine.network.context


def test_a_model_without_an_end_is_refused(engine, monkeypatch):
    class Endless:
        tokenizer = type("T", (), {"eos_token_id": None})
        ends = frozenset()

    with pytest.raises(ConfigError, match="no token that ends an answer"):
        end_token(Endless())
