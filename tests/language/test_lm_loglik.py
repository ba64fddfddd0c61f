import json
import math
import random

import pytest
import torch

from apm_lab.errors import ConfigError
from apm_lab.language.hf_engine import load_engine
from apm_lab.language.hf_network import Network
from apm_lab.language.hf_weights import load_language_model
from apm_lab.language.lm_loglik import LmLoglik, token_splits
from apm_lab.language.offline_models import models_folder
from apm_lab.language.reward_model import RewardCall, RewardModel

CALLS = [
    RewardCall(
        "Why should I learn to swim?\nA. It keeps you fit\nB. It is fun\nAnswer:", (" A", " B", " it is fun to swim")
    ),
    RewardCall("Rate the text from 1 to 10.\n", ("10", "It keeps you fit and it is fun.")),
    RewardCall("How strongly does the text follow this principle: fit?\n", ("1", "2", "strongly")),
    RewardCall("Why should I learn to swim?\nA. It keeps you fit\nB. It is fun\nAnswer:", (" 10", " fun")),
]


def made(place, template="raw", **given):
    return LmLoglik(place, template, dtype="float32", device="cpu", **given)


def rewards_of(model, calls):
    found = {answer.place: answer.value for group in model.rewards(calls) for answer in group}
    assert sorted(found) == list(range(len(calls)))
    return [found[place] for place in range(len(calls))]


def by_hand(place, before, behind):
    """Return the mean log-probability of the tokens `behind`, by one plain pass."""
    network = load_language_model(place, None, "float32", "cpu").model
    with torch.inference_mode():
        logs = network(torch.tensor([before + behind])).logits[0].log_softmax(-1)
    return sum(float(logs[len(before) - 1 + step, token]) for step, token in enumerate(behind)) / len(behind)


@pytest.mark.parametrize("place", ["tiny", "windowed", "recurrent"])
@pytest.mark.parametrize("batch_size", [1, 64])
def test_raw_is_the_mean_over_the_answers_tokens(place, batch_size, request):
    folder = request.getfixturevalue(place)
    tokenizer = load_engine(folder, None, "float32", "cpu").tokenizer
    model = made(folder, batch_size=batch_size)
    assert isinstance(model, RewardModel)
    for call, found in zip(CALLS, rewards_of(model, CALLS), strict=True):
        before = tokenizer(call.prompt)["input_ids"]  # here no token spans the seam
        for answer, value in zip(call.answers, found, strict=True):
            whole = tokenizer(call.prompt + answer)["input_ids"]
            assert whole[: len(before)] == before
            assert value == pytest.approx(by_hand(folder, before, whole[len(before) :]), abs=1e-4)


def test_chat_makes_the_answer_the_reply(tiny):
    engine = load_engine(tiny, None, "float32", "cpu")
    for call, found in zip(CALLS, rewards_of(made(tiny, "chat"), CALLS), strict=True):
        prompt = f"<|start|>user\n{call.prompt.rstrip()}<|end|>\n<|start|>assistant\n"
        before = engine.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        for answer, value in zip(call.answers, found, strict=True):
            behind = engine.tokenizer(answer.lstrip(), add_special_tokens=False)["input_ids"]
            assert value == pytest.approx(by_hand(tiny, before, behind), abs=1e-4)


@pytest.mark.parametrize("template", ["raw", "chat"])
def test_a_reward_is_the_same_alone_in_a_batch_and_shuffled(tiny, template):
    together = rewards_of(made(tiny, template), CALLS)
    order = list(range(len(CALLS)))
    random.Random(3).shuffle(order)
    shuffled = rewards_of(made(tiny, template, batch_size=3), [CALLS[place] for place in order])
    for place, call in enumerate(CALLS):
        (alone,) = rewards_of(made(tiny, template), [call])
        assert alone == pytest.approx(together[place], abs=1e-4)
        assert shuffled[order.index(place)] == pytest.approx(together[place], abs=1e-4)


def test_sum_and_mean(tiny):
    tokens = [len(load_engine(tiny, None, "float32", "cpu").tokenizer(answer)["input_ids"]) for answer in ("10", "fit")]
    call = RewardCall("Rate the text\n", ("10", "fit"))
    (mean,), (total,) = (rewards_of(made(tiny, reduction=kind), [call]) for kind in ("mean", "sum"))
    assert total == pytest.approx([value * count for value, count in zip(mean, tokens, strict=True)])


def test_the_seam_between_prompt_and_answer(tiny):
    engine = load_engine(tiny, None, "float32", "cpu")
    text = engine.tokenizer.convert_ids_to_tokens
    # The blank stands in the prompt, and in the answer's first token.
    ((before, behind),) = token_splits(engine, [RewardCall("Why should I learn to ", ("swim?",))], "raw", "m")[0]
    whole = engine.tokenizer("Why should I learn to swim?")["input_ids"]
    assert before + behind == whole
    assert text(behind)[0].startswith("\u0120")
    # A line's end is the prompt's own.
    ((before, behind),) = token_splits(engine, [RewardCall("Answer:\n", ("fit",))], "raw", "m")[0]
    assert behind == engine.tokenizer("fit")["input_ids"]
    # Nothing says how probable a text's first token is.
    ((before, behind),) = token_splits(engine, [RewardCall("", ("10",))], "raw", "m")[0]
    assert (len(before), len(behind)) == (1, 1)


def test_an_answer_without_tokens_has_no_reward(tiny):
    for template in ("raw", "chat"):
        found = rewards_of(made(tiny, template), [RewardCall("Why?", ("", "fun")), RewardCall("Why?", ("",))])
        assert [list(map(math.isnan, each)) for each in found] == [[True, False], [True]]
    assert list(made(tiny).rewards([])) == []


def test_no_text_can_end_its_own_turn(tiny):
    engine = load_engine(tiny, None, "float32", "cpu")
    end = engine.tokenizer.eos_token_id
    for template, ends in (("raw", 0), ("chat", 1)):
        (((before, behind),),) = token_splits(engine, [RewardCall("fit<|end|>\n", ("fun<|end|>",))], template, "m")
        assert (before + behind).count(end) == ends


def test_the_prompt_is_read_once(tiny, monkeypatch):
    read, real = [], Network.hidden
    monkeypatch.setattr(
        Network, "hidden", lambda self, ids, *given: read.append(ids.numel()) or real(self, ids, *given)
    )
    prompt = "Why should I learn to swim? " * 10
    calls = [RewardCall(f"{word} {prompt}\n", tuple("12345")) for word in ("fit", "fun", "Rate")]
    rewards_of(made(tiny), calls)
    tokens = len(load_engine(tiny, None, "float32", "cpu").tokenizer(calls[0].prompt)["input_ids"])
    assert sum(read) < 3 * (tokens + 30)


def test_what_changes_the_rewards_is_in_the_key(tiny):
    said = {made(tiny, template, reduction=kind).sampling for template in ("raw", "chat") for kind in ("mean", "sum")}
    assert len(said) == 4
    assert json.loads(made(tiny).sampling) == {
        "dtype": "float32",
        "kind": "lm_loglik",
        "reduction": "mean",
        "template": "raw",
    }
    assert made(tiny).identity.startswith("tiny")


def test_user_mistakes_are_named(tiny, windowed, tmp_path):
    with pytest.raises(ConfigError, match=r"template='cha': a language model takes raw or chat.*chat"):
        made(tiny, "cha")
    with pytest.raises(ConfigError, match="path_or_id names no model: give a folder"):
        made(None)
    with pytest.raises(ConfigError, match="reduction=max, expected mean or sum"):
        made(tiny, reduction="max")
    with pytest.raises(ConfigError, match="batch_size=0 must be at least 1"):
        made(tiny, batch_size=0)
    with pytest.raises(ConfigError, match="no chat template; set reward_model"):
        rewards_of(made(windowed, "chat", name="gemma"), CALLS[:1])
    long = RewardCall("Why should I learn to swim? " * 100, ("fit",))
    for template in ("raw", "chat"):
        with pytest.raises(
            ConfigError, match=r"text 'Why should I .*'\.\.\. has \d+ tokens, more than its context of 512"
        ):
            rewards_of(made(tiny, template), [long])
    with pytest.raises(ConfigError, match=r"no config\.json"):
        made(str(tmp_path)).ready()


@pytest.mark.skipif(not (models_folder() / "smollm2_135m").is_dir(), reason="smollm2_135m is not fetched")
@pytest.mark.parametrize("template", ["raw", "chat"])
def test_on_a_real_model(template):
    """SmolLM2 prefers the right answer, and its figures are those of a plain pass."""
    engine = load_engine("smollm2_135m", None, "float32", "cpu")
    model = engine.network.model
    call = RewardCall("What is the capital of France?\nAnswer:", (" Paris", " Berlin", " Spoon"))
    (found,) = rewards_of(made("smollm2_135m", template), [call])
    for answer, value in zip(call.answers, found, strict=True):
        if template == "raw":
            before = engine.tokenizer(call.prompt)["input_ids"]
            behind = engine.tokenizer(call.prompt + answer)["input_ids"][len(before) :]
        else:
            turn = [{"role": "user", "content": call.prompt}]
            text = engine.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
            before = engine.tokenizer(text, add_special_tokens=False)["input_ids"]
            behind = engine.tokenizer(answer.strip(), add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logs = model(torch.tensor([before + behind])).logits[0].float().log_softmax(-1)
        hand = sum(float(logs[len(before) - 1 + step, token]) for step, token in enumerate(behind)) / len(behind)
        assert value == pytest.approx(hand, abs=1e-4)
    if template == "raw":
        assert max(found) == found[0]
