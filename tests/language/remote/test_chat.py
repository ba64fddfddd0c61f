import pytest

from apm_lab.language.protocols import GenerationCall, Usage
from apm_lab.language.remote.chat import ChatSettings, read_text, read_usage
from apm_lab.language.remote.fault import MalformedError
from apm_lab.records import Message


def completed(content, reason="stop", **message):
    return {"choices": [{"message": {"content": content, **message}, "finish_reason": reason}]}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (completed("Hello"), "Hello"),
        (completed(" kept as it is\n"), " kept as it is\n"),
        (completed("cut by max_tok", "length"), "cut by max_tok"),
        (completed(""), ""),
        (completed("<think>\nhm\n</think>\n\n7"), "7"),
        (completed("hm, so\n</think>\n7"), "7"),
        (completed("Write <think> and </think> as tags"), "Write <think> and </think> as tags"),
        (completed("7", reasoning_content="hm"), "7"),
        (completed(None, refusal="I can't do that."), "I can't do that."),
        (completed(None, "content_filter"), ""),
        (completed(None), ""),
        (completed(None, "length", reasoning_content="hm"), ""),
        (completed("", "length"), ""),
        (completed("<think>still at it", "length"), ""),
    ],
)
def test_the_text_of_an_answer_is_what_was_said_not_what_was_thought(answer, text):
    assert read_text(answer) == text


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": ["text"]},
        {"choices": [{"text": "a completion"}]},
        completed(None, "error"),
        completed(["parts"]),
        completed(7),
    ],
)
def test_what_is_no_answer_of_a_chat_is_malformed(answer):
    with pytest.raises(MalformedError):
        read_text(answer)


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        ({}, None),
        ({"usage": None}, None),
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}, Usage(3, 4)),
        ({"usage": {"prompt_tokens": 3}}, Usage(3, 0)),
        ({"usage": {"prompt_tokens": "3"}}, None),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": 1}}, None),
    ],
)
def test_tokens_are_read_where_they_are_told(answer, usage):
    assert read_usage(answer) == usage


def test_seeds_differ_by_chat_sample_and_attempt_and_repeat_otherwise():
    settings = ChatSettings(model="m")

    def seed(text, sample, tried=0):
        return settings.body(GenerationCall((Message("user", text),), sample), tried)["seed"]

    assert seed("a", 0) == seed("a", 0)
    assert len({seed("a", 0), seed("b", 0), seed("a", 1), seed("a", 0, 1)}) == 4


def test_the_newer_name_of_max_tokens_takes_its_place():
    body = ChatSettings(model="m", extra={"max_completion_tokens": 9}).body(GenerationCall((Message("user", "a"),), 0))
    assert body["max_completion_tokens"] == 9
    assert "max_tokens" not in body


def test_sampling_is_one_text_however_the_values_were_written():
    assert ChatSettings(model="m", temperature=1).sampling == ChatSettings(model="m", temperature=1.0).sampling
    one, other = {"b": 1, "a": 2}, {"a": 2, "b": 1}
    assert ChatSettings(model="m", extra=one).sampling == ChatSettings(model="m", extra=other).sampling
