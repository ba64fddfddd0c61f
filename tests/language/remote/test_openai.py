import json
import socket
import sys
import threading
from pathlib import Path

import pytest
from aiohttp import web

from apm_lab.errors import ConfigError, EndpointError
from apm_lab.judging.language_judge import LanguageJudge
from apm_lab.language.protocols import ChoiceModel, GenerationCall, Question, Ready, StreamsTexts, Usage
from apm_lab.language.remote.host import this_host
from apm_lab.language.remote.openai import OpenAiModel
from apm_lab.language.remote.patience import Patience
from apm_lab.records import Message

sys.path.insert(0, str(Path(__file__).parent))
from misbehaving import Endpoint, completion, refused

QUICK = Patience(first_s=0.005, most_s=0.05, grace_s=2.0)
KEY = "sk-very-secret-4711"
LETTERS = "gsk_verySecret4711"


def model(endpoint, patience=QUICK, **values):
    values = {"api_key_env": None, "concurrency": 16, "timeout_s": 20.0} | values
    made = OpenAiModel(values.pop("model", "served"), endpoint.address, **values)
    made.endpoint.patience = patience
    return made


def calls(count, sample=0):
    return [GenerationCall((Message("system", "be"), Message("user", f"prompt {n}")), sample) for n in range(count)]


def assert_each_has_its_own(texts):
    assert texts == [f"answer to prompt {n}" for n in range(len(texts))]


def test_it_is_what_the_house_asks_of_a_backend():
    made = OpenAiModel("served", "http://localhost:1/v1", api_key_env=None)
    assert isinstance(made, StreamsTexts)
    assert isinstance(made, ChoiceModel)
    assert isinstance(made, Ready)
    assert made.engine == "remote"


def test_every_call_gets_its_own_answer_with_its_tokens():
    with Endpoint() as endpoint:
        groups = list(model(endpoint).stream(calls(100)))
    answers = sorted((answer for group in groups for answer in group), key=lambda answer: answer.place)
    assert [answer.place for answer in answers] == list(range(100))
    assert_each_has_its_own([answer.value for answer in answers])
    assert {answer.usage for answer in answers} == {Usage(11, 7)}


def test_no_call_is_no_request():
    with Endpoint() as endpoint:
        assert model(endpoint).generate([]) == []
    assert not endpoint.asked


@pytest.mark.parametrize(
    "fault",
    [
        *("storm", "dated_storm", "fails", "busy", "conflict", "half", "cut_json", "nonsense", "listed", "excuse"),
        *("empty", "null", "drop", "twice"),
    ],
)
def test_no_answer_is_lost_or_invented_and_none_is_asked_twice_after_success(fault):
    with Endpoint(faults={fault: 0.3}) as endpoint:
        assert_each_has_its_own(model(endpoint).generate(calls(120)))
    assert max(endpoint.asked.values()) > 1 or fault == "twice"
    assert set(endpoint.answered.values()) == {1}
    assert sum(endpoint.answered.values()) == 120


def test_all_faults_at_once():
    kinds = ("storm", "fails", "busy", "half", "cut_json", "nonsense", "excuse", "empty", "drop", "twice")
    with Endpoint(faults=dict.fromkeys(kinds, 0.06), seed=1) as endpoint:
        assert_each_has_its_own(model(endpoint).generate(calls(400)))
    assert set(endpoint.answered.values()) == {1}
    assert sum(endpoint.answered.values()) == 400


def test_a_stall_is_given_up_and_asked_again():
    with Endpoint(faults={"stall": 0.2}) as endpoint:
        assert_each_has_its_own(model(endpoint, timeout_s=0.5).generate(calls(30)))
    assert max(endpoint.asked.values()) > 1
    assert set(endpoint.answered.values()) == {1}


def test_the_limit_comes_down_to_what_the_endpoint_bears_and_recovers():
    with Endpoint(room=4, latency_s=0.01) as endpoint:
        made = model(endpoint, concurrency=32)
        limit = this_host().limit(endpoint.address.removesuffix("/v1"), 32)
        assert_each_has_its_own(made.generate(calls(300)))
        assert limit.size < 12
        endpoint.room = None
        assert_each_has_its_own(made.generate(calls(1500)))
        assert limit.size >= 24
        assert limit.in_flight == 0


def test_all_roles_of_a_process_share_an_endpoints_limit():
    with Endpoint(latency_s=0.02) as endpoint:
        threads = [
            threading.Thread(target=model(endpoint, concurrency=8).generate, args=(calls(60, n),)) for n in (0, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(endpoint.answered.values()) == 120
        assert endpoint.most_at_once == 8


def test_what_came_before_a_fault_that_stays_is_handed_out():
    def answer(body):
        poison = body["messages"][-1]["content"] == "prompt 40"
        return refused(500, "this one never works") if poison else completion("fine")

    with Endpoint(answer, latency_s=0.01) as endpoint:
        came = []
        with pytest.raises(EndpointError, match=r"10 attempts at one call failed.*never works") as fault:
            for group in model(endpoint).stream(calls(60)):
                came += [reply.place for reply in group]
    assert len(came) == len(set(came)) >= 40
    assert 40 not in came
    assert endpoint.address in str(fault.value)
    assert "the same command continues" in str(fault.value)


def test_an_endpoint_that_is_down_is_named_soon():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    made = OpenAiModel("served", address, api_key_env=None)
    made.endpoint.patience = QUICK
    with pytest.raises(EndpointError, match=r"4 attempts at one call failed.*base_url") as fault:
        made.generate(calls(50))
    assert address in str(fault.value)


def test_a_wrong_model_name_is_told_at_once_with_what_is_served():
    with Endpoint(models=("smollm2", "gemma")) as endpoint, pytest.raises(ConfigError, match="did you mean smollm2"):
        model(endpoint, model="smolm2").generate(calls(20))


def test_a_wrong_key_is_told_at_once_without_the_key(monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with Endpoint(key="another") as endpoint, pytest.raises(ConfigError, match=r"HTTP 401.*MY_KEY") as fault:
        model(endpoint, api_key_env="MY_KEY").generate(calls(20))
    assert KEY not in str(fault.value)
    assert "Bearer ***" in str(fault.value)


@pytest.mark.parametrize("kind", ["storm", "fails"])
def test_a_key_that_the_server_echoes_stays_out_of_the_message(kind, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with Endpoint(faults={kind: 1.0}, key=KEY) as endpoint, pytest.raises(EndpointError) as fault:
        model(endpoint, Patience(attempts=2, first_s=0.01), api_key_env="MY_KEY").generate(calls(3))
    assert KEY not in str(fault.value)
    assert fault.value.__cause__ is None
    assert "***" in str(fault.value)


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_is_found_before_anything_is_sent(value, monkeypatch):
    if value is None:
        monkeypatch.delenv("MY_KEY", raising=False)
    else:
        monkeypatch.setenv("MY_KEY", value)
    with Endpoint() as endpoint:
        made = model(endpoint, api_key_env="MY_KEY")
        with pytest.raises(ConfigError, match="variable MY_KEY is not set"):
            made.ready()
        with pytest.raises(ConfigError, match="variable MY_KEY is not set"):
            made.generate(calls(3))
    assert not endpoint.asked


@pytest.mark.parametrize("key", [f"{KEY}\nHost: elsewhere", f"{KEY}\u20ac"])
def test_a_key_that_no_header_can_hold_is_refused_unshown(key, monkeypatch):
    monkeypatch.setenv("MY_KEY", key)
    with Endpoint() as endpoint, pytest.raises(ConfigError, match="no key has") as fault:
        model(endpoint, api_key_env="MY_KEY").generate(calls(1))
    assert KEY not in str(fault.value)


def test_the_key_is_in_no_repr(monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with Endpoint(key=KEY) as endpoint:
        made = model(endpoint, api_key_env="MY_KEY")
        assert_each_has_its_own(made.generate(calls(3)))
        shown = f"{made!r} {vars(made)} {vars(made.endpoint)} {made.endpoint.access('m')!r}"
    assert KEY not in shown


def test_a_text_longer_than_the_context_is_told_as_such():
    said = "This model's maximum context length is 1024 tokens. However, you requested 3000 tokens."
    with (
        Endpoint(lambda _: refused(400, said)) as endpoint,
        pytest.raises(ConfigError, match="more than the model's conte"),
    ):
        model(endpoint).generate(calls(20))
    assert max(endpoint.asked.values()) == 1


def test_another_bad_request_is_not_tried_again():
    answer = refused(400, "unknown field seed")
    with Endpoint(lambda _: answer) as endpoint, pytest.raises(EndpointError, match=r"unknown field seed.*seeded"):
        model(endpoint).generate(calls(1))
    assert max(endpoint.asked.values()) == 1


def test_a_redirect_is_named_and_not_followed():
    moved = web.Response(status=307, headers={"Location": "http://elsewhere/v1"})
    with Endpoint(lambda _: moved) as endpoint, pytest.raises(ConfigError, match=r"307.*to http://elsewhere/v1"):
        model(endpoint, concurrency=1).generate(calls(1))


def test_a_server_that_asks_for_an_hour_is_not_waited_for():
    answer = refused(429, "daily quota", {"Retry-After": "3600"})
    with Endpoint(lambda _: answer) as endpoint, pytest.raises(EndpointError, match="asks to wait 3600 s"):
        model(endpoint, concurrency=1).generate(calls(1))


@pytest.mark.parametrize("reason", ["length", "stop", "content_filter"])
def test_an_answer_without_text_is_not_drawn_again(reason):
    cut = completion(None, finish_reason=reason, reasoning_content="let me see")
    with Endpoint(lambda _: cut) as endpoint:
        assert model(endpoint).generate(calls(1)) == [""]
    assert len(endpoint.bodies) == 1


def test_a_generator_that_is_left_leaves_nothing_behind():
    with Endpoint(latency_s=0.02) as endpoint:
        stream = model(endpoint).stream(calls(500))
        next(stream)
        stream.close()
        asked = sum(endpoint.asked.values())
        assert asked < 100
        assert this_host().limit(endpoint.address.removesuffix("/v1"), 16).in_flight == 0


def test_few_calls_are_in_flight_or_untaken_however_many_there_are():
    with Endpoint() as endpoint:
        stream = model(endpoint, concurrency=8).stream(calls(400))
        taken = len(next(stream))
        threading.Event().wait(0.5)
        assert sum(endpoint.asked.values()) <= taken + 16
        assert taken + sum(len(group) for group in stream) == 400


def test_the_request_carries_what_was_set():
    with Endpoint() as endpoint:
        made = model(endpoint, temperature=0.7, top_p=0.9, max_tokens=33, extra={"reasoning_effort": "low"})
        made.generate(calls(1, sample=5))
        made.generate(calls(1, sample=6))
        model(endpoint, seeded=False).generate(calls(1))
    first, second, third = endpoint.bodies
    seed = first.pop("seed")
    assert first == {
        "model": "served",
        "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "prompt 0"}],
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 33,
        "reasoning_effort": "low",
    }
    assert seed != second["seed"]
    assert 0 <= seed < 2**31
    assert "seed" not in third


@pytest.mark.parametrize(
    ("guided", "field", "sent"),
    [
        ("structured", {"structured_outputs": {"choice": ["1", "10"]}}, "10"),
        ("guided_choice", {"guided_choice": ["1", "10"]}, " 10\n"),
        ("json_schema", {"response_format": None}, '{"answer": "10"}'),
    ],
)
def test_an_answer_of_given_ones_is_asked_for(guided, field, sent):
    call = GenerationCall((Message("user", "rate"),), 0, ("1", "10"))
    with Endpoint(lambda _: completion(sent)) as endpoint:
        assert model(endpoint, guided=guided).generate([call]) == ["10"]
        assert model(endpoint, guided="none").generate([call]) == [sent]
    constrained, free = endpoint.bodies
    (name,) = field
    assert name in constrained
    assert field[name] in (None, constrained[name])
    assert name not in free


@pytest.mark.parametrize("guided", ["structured", "json_schema"])
@pytest.mark.parametrize("sent", ["Rating: 10", '{"answer": "11"}', "[" * 100_000])
def test_an_answer_outside_the_choices_comes_back_as_it_is_and_is_not_drawn_again(guided, sent):
    call = GenerationCall((Message("user", "rate"),), 0, ("1", "10"))
    with Endpoint(lambda _: completion(sent)) as endpoint:
        assert model(endpoint, guided=guided).generate([call]) == [sent]
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize("sent", [None, "no idea"])
def test_a_judge_counts_an_answer_that_states_no_rating_as_no_verdict_after_one_call(sent):
    with Endpoint(lambda _: completion(sent, finish_reason="length")) as endpoint:
        judge = LanguageJudge(model(endpoint, guided="structured"))
        assert judge.score("A text.", [Question("casual", 1)], [b"k" * 16]) == [None]
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"base_url": "localhost:8000"}, "expected an address like"),
        ({"base_url": "ftp://host/v1"}, "expected an address like"),
        ({"base_url": f"http://user:{KEY}@host/v1"}, "expected an address alone"),
        ({"base_url": f"http://host/v1?key={KEY}"}, "expected an address alone"),
        *(({"api_key_env": key}, "expected the upper-case name of an environment") for key in (KEY, LETTERS, "my_key")),
        ({"extra": {"api_key": KEY}}, "extra may not hold api_key: a key goes into an environment variable"),
        ({"extra": {"headers": [{"X-Api-Key": KEY, "a": 1}]}}, "extra may not hold X-Api-Key"),
        ({"extra": {"a": {"b": {"token": KEY}}, "Authorization": f"Bearer {KEY}"}}, "hold token, Authorization"),
        ({"model": " "}, "model is empty"),
        ({"temperature": -0.1}, "temperature=-0.1: expected at least 0"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"max_tokens": 0}, "max_tokens=0"),
        ({"concurrency": 0}, "concurrency=0: expected more than 0"),
        ({"timeout_s": 0.0}, "timeout_s=0.0: expected more than 0"),
        ({"extra": {"messages": []}}, "extra may not hold messages"),
        ({"extra": 5}, "extra=5: expected fields"),
    ],
)
def test_values_that_can_not_be_are_refused_without_showing_a_secret(values, said):
    with pytest.raises(ConfigError, match=said) as fault:
        OpenAiModel(**{"model": "m", "base_url": "http://host/v1"} | values)
    assert KEY not in str(fault.value) and LETTERS not in str(fault.value)


@pytest.mark.parametrize("extra", [{"max_completion_tokens": 9}, {"api_key": None}, {"chat_template_kwargs": {"a": 1}}])
def test_other_fields_are_no_secrets(extra):
    assert json.loads(OpenAiModel("m", "http://host/v1", extra=extra).sampling)["extra"] == extra


def test_address_key_and_speed_are_no_part_of_what_is_stored():
    plain = OpenAiModel("m", "http://one/v1")
    other = OpenAiModel("m", "http://two/v1/", "OTHER_KEY", concurrency=2, timeout_s=3.0, seeded=False, name="mine")
    assert (plain.identity, plain.engine, plain.sampling) == (other.identity, other.engine, other.sampling)


@pytest.mark.parametrize(
    "values",
    [
        *({"revision": "a"}, {"temperature": 0.5}, {"top_p": 0.5}, {"max_tokens": 5}, {"guided": "structured"}),
        *({"extra": {"top_k": 3}}, {"logprobs_via": "echo"}, {"model": "n"}),
    ],
)
def test_what_changes_texts_is_part_of_what_is_stored(values):
    plain = OpenAiModel("m", "http://one/v1")
    other = OpenAiModel(**{"model": "m", "base_url": "http://one/v1"} | values)
    assert (plain.identity, plain.sampling) != (other.identity, other.sampling)
