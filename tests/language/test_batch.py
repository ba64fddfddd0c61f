import json

import pytest

from apm_lab.data.store import Store
from apm_lab.errors import ConfigError, PendingCalls
from apm_lab.language.batch import BatchModel
from apm_lab.language.protocols import GenerationCall, StreamsTexts, Usage
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.language.remote.openai import OpenAiModel
from apm_lab.records import Message


def calls(*texts, sample=0):
    return [GenerationCall((Message("user", text),), sample) for text in texts]


def model(folder, **values):
    return BatchModel("served", str(folder), **values)


def exported(folder):
    return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]


def pend(made, *asked):
    with pytest.raises(PendingCalls) as pending:
        made.generate(asked)
    return str(pending.value)


def line(row, text=None, status=200, error=None):
    """Return the answer to an exported call, as a batch's output has it."""
    text = f"answer to {row['body']['messages'][-1]['content']}" if text is None else text
    body = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    body["usage"] = {"prompt_tokens": 5, "completion_tokens": 6}
    response = {"status_code": status, "request_id": "r", "body": body if status == 200 else {"error": "no"}}
    return json.dumps({"id": "x", "custom_id": row["custom_id"], "response": response, "error": error}) + "\n"


def answer(folder, rows, name="answers.jsonl", **values):
    (folder / name).write_text("".join(line(row, **values) for row in rows))


def test_missing_calls_go_out_as_a_batch_and_come_back(tmp_path):
    asked = calls("a", "b", "c")
    said = pend(model(tmp_path), *asked)
    assert said.startswith(f"3 calls of served wait for answers: {tmp_path / 'calls.jsonl'}")
    assert "vllm run-batch -i" in said
    rows = exported(tmp_path)
    assert {(row["method"], row["url"]) for row in rows} == {("POST", "/v1/chat/completions")}
    answer(tmp_path, rows[::-1])
    made = model(tmp_path)
    assert isinstance(made, StreamsTexts)
    assert made.generate(asked) == ["answer to a", "answer to b", "answer to c"]
    (group,) = made.stream(asked)
    assert {reply.usage for reply in group} == {Usage(5, 6)}


def test_the_request_is_that_of_an_endpoint_with_the_same_values(tmp_path):
    values = {"temperature": 0.5, "max_tokens": 9, "extra": {"reasoning_effort": "low"}, "revision": "r1"}
    made, direct = model(tmp_path, **values), OpenAiModel("served", "http://host/v1", **values)
    assert (made.identity, made.engine, made.sampling) == (direct.identity, direct.engine, direct.sampling)
    pend(made, *calls("a"))
    assert exported(tmp_path)[0]["body"] == direct._chat.body(calls("a")[0])


def test_equal_calls_go_out_once_and_answered_ones_not_at_all(tmp_path):
    pend(model(tmp_path), *calls("a", "b", "a"))
    rows = exported(tmp_path)
    assert len(rows) == 2
    answer(tmp_path, rows[:1])
    said = pend(model(tmp_path), *calls("a", "b", "a"))
    assert said.startswith("1 calls")
    assert exported(tmp_path) == rows[1:]


def test_what_came_is_stored_before_the_rest_goes_out(tmp_path):
    asked = calls("a", "b", "c")
    pend(model(tmp_path / "batch"), *asked)
    answer(tmp_path / "batch", exported(tmp_path / "batch")[:2])
    shelf, counts = Store(tmp_path / "store").texts, CallCounts()
    with pytest.raises(PendingCalls, match="1 calls"):
        StoredTexts(model(tmp_path / "batch"), shelf, counts).generate(asked)
    assert (shelf.count(), counts.made, counts.tokens_in) == (2, 2, 10)


def test_several_files_in_any_order_and_the_first_answer_counts(tmp_path):
    pend(model(tmp_path), *calls("a", "b"))
    rows = exported(tmp_path)
    answer(tmp_path, rows[1:], "answers-1.jsonl")
    answer(tmp_path, rows, "answers-2.jsonl", text="later")
    assert model(tmp_path).generate(calls("a", "b")) == ["later", "answer to b"]


def test_answers_that_arrive_while_the_process_lives_are_seen(tmp_path):
    made = model(tmp_path)
    pend(made, *calls("a"))
    answer(tmp_path, exported(tmp_path))
    assert made.generate(calls("a")) == ["answer to a"]


def test_errors_are_counted_and_their_calls_go_out_again_with_another_seed(tmp_path):
    pend(model(tmp_path), *calls("a", "b", "c"))
    rows = exported(tmp_path)
    text = line(rows[0], status=500) + line(rows[1], error={"message": "expired"}) + line(rows[2])
    (tmp_path / "answers.jsonl").write_text(text)
    said = pend(model(tmp_path), *calls("a", "b", "c"))
    assert "2 answers are errors, the first: status 500" in said
    assert "answers.jsonl, line 1" in said
    again = exported(tmp_path)
    assert [row["custom_id"] for row in again] == [row["custom_id"] for row in rows[:2]]
    assert again[0]["body"]["seed"] != rows[0]["body"]["seed"]


def test_an_error_beside_a_good_answer_does_not_hide_it(tmp_path):
    pend(model(tmp_path), *calls("a"))
    (row,) = exported(tmp_path)
    (tmp_path / "answers.jsonl").write_text(line(row, status=500) + line(row))
    assert model(tmp_path).generate(calls("a")) == ["answer to a"]


def test_an_answer_without_a_text_goes_out_again(tmp_path):
    pend(model(tmp_path), *calls("a"))
    answer(tmp_path, exported(tmp_path), text=["no", "text"])
    assert "1 answers are errors, the first: choices[0].message.content is" in pend(model(tmp_path), *calls("a"))


@pytest.mark.parametrize("damage", ["no json", "[]", '{"response": {}}', '{"custom_id": 7}', '{"custom_id": "xyz"}'])
def test_malformed_lines_are_named_by_file_and_line(tmp_path, damage):
    pend(model(tmp_path), *calls("a", "b"))
    rows = exported(tmp_path)
    (tmp_path / "answers.jsonl").write_text(f"{line(rows[0])}\n{damage}\n")
    said = pend(model(tmp_path), *calls("a", "b"))
    assert f"1 lines are no answers: {tmp_path / 'answers.jsonl'}, line 3" in said


def test_a_last_line_that_is_cut_short_is_told_as_a_part(tmp_path):
    pend(model(tmp_path), *calls("a", "b"))
    rows = exported(tmp_path)
    (tmp_path / "answers.jsonl").write_text(line(rows[0]) + line(rows[1])[:-30])
    said = pend(model(tmp_path), *calls("a", "b"))
    assert f"partly imported, the last line is cut short: {tmp_path / 'answers.jsonl'}, line 2" in said
    assert len(exported(tmp_path)) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"made": {"temperature": 0.5}},
        {"made": {"revision": "r"}},
        {"sample": 1},
        {"choices": ("1", "2")},
        {"messages": (Message("system", "a"),)},
    ],
)
def test_another_call_has_another_id(tmp_path, other):
    values = {"messages": (Message("user", "a"),), "sample": 0} | {key: other[key] for key in other if key != "made"}
    pend(model(tmp_path), *calls("a"))
    first = exported(tmp_path)
    pend(model(tmp_path, **other.get("made", {})), GenerationCall(**values))
    assert exported(tmp_path)[0]["custom_id"] != first[0]["custom_id"]


def test_all_calls_of_a_stage_go_out_as_one_file(tmp_path):
    made = model(tmp_path)
    pend(made, *calls("a", "b"))
    answer(tmp_path, exported(tmp_path)[:1])
    made.defer(calls("a", "b"))
    made.defer(calls("c", "b"))
    with pytest.raises(PendingCalls, match="2 calls"):
        made.export()
    assert [row["body"]["messages"][0]["content"] for row in exported(tmp_path)] == ["b", "c"]


def test_with_nothing_missing_the_file_of_calls_goes(tmp_path):
    made = model(tmp_path)
    pend(made, *calls("a"))
    answer(tmp_path, exported(tmp_path))
    made.defer(calls("a"))
    made.export()
    assert not (tmp_path / "calls.jsonl").exists()
    model(tmp_path / "never made").export()


def test_nothing_but_whole_files_is_left(tmp_path):
    pend(model(tmp_path), *calls("a"))
    assert [file.name for file in tmp_path.iterdir()] == ["calls.jsonl"]


@pytest.mark.parametrize("folder", ["", " ", "a\0b"])
def test_a_folder_is_needed(folder):
    with pytest.raises(ConfigError, match="folder="):
        model(folder)
