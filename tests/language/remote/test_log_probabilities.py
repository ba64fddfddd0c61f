import sys
from math import exp, inf, log
from pathlib import Path

import pytest

from apm_lab.errors import ConfigError, EndpointError
from apm_lab.language.protocols import ChoiceCall, Usage
from apm_lab.language.remote.openai import OpenAiModel
from apm_lab.language.remote.patience import Patience
from apm_lab.records import Message

sys.path.insert(0, str(Path(__file__).parent))
from misbehaving import Endpoint, completion

RATINGS = tuple(str(rating) for rating in range(1, 11))
# A model whose first token is a digit, and "1" is followed by "0" a quarter of the time.
FIRST = {str(digit): digit / 50 for digit in range(1, 10)} | {"I": 0.1}
AFTER_ONE = {"0": 0.25, "<end>": 0.7}


def model(endpoint, **values):
    made = OpenAiModel("served", endpoint.address, **{"api_key_env": None, "concurrency": 8} | values)
    made.endpoint.patience = Patience(first_s=0.005, most_s=0.05)
    return made


def listed(probabilities, sampled=None):
    rows = [{"token": token, "logprob": log(share)} for token, share in probabilities.items()]
    first = next((row for row in rows if row["token"] == sampled), rows[0])
    found = completion(first["token"])
    found["choices"][0]["logprobs"] = {"content": [{**first, "top_logprobs": rows}]}
    return found


def rater(body):
    last = body["messages"][-1]
    return listed(AFTER_ONE if last == {"role": "assistant", "content": "1"} else FIRST)


def call(answers=RATINGS, content="How casual is it?"):
    return ChoiceCall((Message("system", "rate"), Message("user", content)), answers)


def asked(made, *calls):
    answers = [answer for group in made.log_probabilities(calls) for answer in group]
    return {answer.place: answer for answer in answers}


def test_an_answer_of_two_tokens_is_the_product_of_both():
    with Endpoint(rater) as endpoint:
        answer = asked(model(endpoint, temperature=0.3, extra={"top_k": 4, "reasoning_effort": "low"}), call())[0]
    wanted = [digit / 50 for digit in range(1, 10)] + [1 / 50 * 0.25]
    assert [exp(value) for value in answer.value] == pytest.approx(wanted)
    assert answer.usage == Usage(22, 14)
    first, second = endpoint.bodies
    assert (first["logprobs"], first["top_logprobs"], first["max_tokens"], first["temperature"]) == (True, 20, 1, 1.0)
    assert "top_k" not in first  # of the model itself, whatever it samples with
    assert first["reasoning_effort"] == "low"
    assert second["messages"][-1] == {"role": "assistant", "content": "1"}
    assert (second["continue_final_message"], second["add_generation_prompt"]) == (True, False)


def test_ten_as_one_token_needs_no_second_request():
    with Endpoint(lambda _: listed({"1": 0.5, "10": 0.25})) as endpoint:
        values = asked(model(endpoint), call())[0].value
    assert [exp(value) for value in (values[0], values[9])] == pytest.approx([0.5, 0.25])
    assert set(values[1:9]) == {-inf}
    assert len(endpoint.bodies) == 1


def test_the_first_token_alone_is_enough_where_it_was_set():
    whole = FIRST | {"10": 0.002}
    with Endpoint(lambda _: listed(whole)) as endpoint:
        made = model(endpoint, logprobs_via="first_token")
        values = asked(made, call())[0].value
        assert [exp(values[place]) for place in (6, 9)] == pytest.approx([7 / 50, 0.002])
        assert len(endpoint.bodies) == 1
        whole.pop("10")  # known to be one token, and now too unlikely to be listed
        assert asked(made, call())[0].value[9] == -inf


def test_a_first_token_that_may_hold_two_answers_is_refused():
    with (
        Endpoint(rater) as endpoint,
        pytest.raises(EndpointError, match=r"'10' is not among.*logprobs_via=chat or pro"),
    ):
        asked(model(endpoint, logprobs_via="first_token"), call())
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize("answers", [RATINGS[:9], ("10", "2")])
def test_answers_that_do_not_begin_one_another_need_no_more_than_the_first_token(answers):
    with Endpoint(rater) as endpoint:
        values = asked(model(endpoint, logprobs_via="first_token"), call(answers))[0].value
    assert exp(values[1]) == pytest.approx(2 / 50)


def test_a_first_token_that_is_next_to_impossible_holds_nothing():
    with Endpoint(lambda _: listed({"9": 0.99, "1": 1e-9})) as endpoint:
        assert asked(model(endpoint, logprobs_via="first_token"), call())[0].value[9] == -inf


def test_what_hardly_ever_begins_is_not_followed():
    with Endpoint(lambda _: listed({"9": 0.99, "1": 1e-9})) as endpoint:
        values = asked(model(endpoint), call())[0].value
    assert values[9] == -inf
    assert len(endpoint.bodies) == 1


def test_tokens_that_read_the_same_are_one_and_the_sampled_one_counts_too():
    found = listed({"7": 0.25, "8": 0.5})
    content = found["choices"][0]["logprobs"]["content"][0]
    content["top_logprobs"].append({"token": "7", "logprob": log(0.125)})
    content |= {"token": "3", "logprob": log(0.0625)}
    with Endpoint(lambda _: found) as endpoint:
        values = asked(model(endpoint), call())[0].value
    assert [exp(values[place]) for place in (6, 7, 2)] == pytest.approx([0.375, 0.5, 0.0625])


@pytest.mark.parametrize("fault", ["nan", "fails", "cut_json", "empty", "drop"])
def test_impossible_numbers_and_other_faults_are_asked_again(fault):
    with Endpoint(rater, faults={fault: 0.3}) as endpoint:
        found = asked(model(endpoint), *(call(content=f"question {n}") for n in range(40)))
    wanted = [digit / 50 for digit in range(1, 10)] + [1 / 50 * 0.25]
    assert sorted(found) == list(range(40))
    for answer in found.values():
        assert [exp(value) for value in answer.value] == pytest.approx(wanted)
    assert max(endpoint.asked.values()) > 1
    assert set(endpoint.answered.values()) == {1}


def test_numbers_that_stay_impossible_are_an_error():
    with Endpoint(rater, faults={"nan": 1.0}) as endpoint:
        made = model(endpoint)
        made.endpoint.patience = Patience(first_s=0.005, malformed=3)
        with pytest.raises(EndpointError, match=r"3 attempts.*a log-probability is .*at most 0"):
            asked(made, call())


def test_a_minus_infinity_is_a_number():
    found = listed({"1": 0.5})
    found["choices"][0]["logprobs"]["content"][0]["top_logprobs"].append({"token": "2", "logprob": -inf})
    with Endpoint(lambda _: found) as endpoint:
        assert asked(model(endpoint), call(("2",)))[0].value == (-inf,)


@pytest.mark.parametrize("via", ["chat", "first_token", "prompt", "echo"])
def test_an_endpoint_without_log_probabilities_is_told_and_never_replaced_by_samples(via):
    plain = completion("7")
    with Endpoint(lambda _: plain) as endpoint, pytest.raises(EndpointError, match=r"no log-prob.*score=sampled"):
        asked(model(endpoint, logprobs_via=via), call())


@pytest.mark.parametrize(("answers", "said"), [(("",), "empty answer"), (("x" * 17,), "17 characters.*=prompt")])
def test_answers_that_can_not_be_followed_are_refused_before_anything_is_sent(answers, said):
    with Endpoint(rater) as endpoint, pytest.raises(ConfigError, match=said):
        asked(model(endpoint), call(answers))
    assert not endpoint.bodies


def prompted(body):
    """Play a server that gives log-probabilities of a prompt; each word is a token, of log-probability -length."""
    texts = [message["content"] for message in body["messages"]]
    words = [word for text in texts for word in (f"{part} " for part in text.split())]
    if body.get("continue_final_message"):
        words[-1] = words[-1].rstrip()
    else:
        words.append("<assistant>")
    rows = [{"7": {"logprob": -float(len(word.strip())), "rank": 1, "decoded_token": word}} for word in words]
    if body.get("continue_final_message"):
        place = len(words) - len(texts[-1].split())
        rows.insert(place, {"1": {"logprob": -99.0, "rank": 1, "decoded_token": "<assistant>"}})
    return completion("x") | {"prompt_logprobs": [None, *rows]}


def test_long_answers_are_exact_by_the_prompts_own_log_probabilities():
    with Endpoint(prompted) as endpoint:
        values = asked(model(endpoint, logprobs_via="prompt"), call(("one three", "seventeen")))[0].value
    assert values == (-8.0, -9.0)
    assert all(body["prompt_logprobs"] == 0 for body in endpoint.bodies)


def test_a_template_that_puts_answers_elsewhere_is_told():
    def changing(body):
        found = prompted(body)
        found["prompt_logprobs"].append({"2": {"logprob": -1.0, "decoded_token": "<end>"}})
        return found if body.get("continue_final_message") else prompted(body)

    with Endpoint(changing) as endpoint, pytest.raises(EndpointError, match="chat template does not put"):
        asked(model(endpoint, logprobs_via="prompt"), call(("one",)))


def echoed(body):
    """Play a completions server with echo; each character is a token of log-probability -1, digits of -0.5."""
    text = body["prompt"] + "!"
    found = {"text": text, "finish_reason": "length"}
    found["logprobs"] = {
        "tokens": list(text),
        "token_logprobs": [None, *(-0.5 if character.isdigit() else -1.0 for character in text[1:])],
        "text_offset": list(range(len(text))),
    }
    return {"choices": [found], "usage": {"prompt_tokens": len(text), "completion_tokens": 1}}


def test_a_base_model_is_asked_by_echo_with_turns_parted_by_newlines():
    with Endpoint(echoed) as endpoint:
        values = asked(model(endpoint, logprobs_via="echo"), call(("10", "seven")))[0].value
    assert values == (-1.0, -5.0)
    assert endpoint.bodies[0]["prompt"] == "rate\nHow casual is it?\n10"
    assert endpoint.bodies[0]["echo"] is True


def test_a_token_across_the_answers_beginning_is_no_answer():
    def straddling(body):
        found = echoed(body)
        found["choices"][0]["logprobs"]["text_offset"] = [
            offset - (offset == len("rate\nHow casual is it?\n"))
            for offset in found["choices"][0]["logprobs"]["text_offset"]
        ]
        return found

    with Endpoint(straddling) as endpoint, pytest.raises(EndpointError, match="begins where the answer does"):
        asked(model(endpoint, logprobs_via="echo"), call(("10",)))
