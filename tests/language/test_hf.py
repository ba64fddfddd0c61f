import json
import subprocess
import sys
from collections import Counter
from math import exp

import pytest

from apm_lab.errors import ConfigError
from apm_lab.language import hf_engine
from apm_lab.language.hf import HfModel
from apm_lab.language.protocols import ChoiceCall, ChoiceModel, GenerationCall, Ready, StreamsTexts
from apm_lab.records import Message

PROMPTS = [
    "Why should I learn to swim?",
    "Be casual.",
    "Rate the text. " * 9,
    "2",
    "How strongly does the text follow this principle? " * 4,
    "It is fun.",
]


def chat(text):
    return (Message("user", text),)


def calls(samples=1, choices=None):
    return [GenerationCall(chat(text), sample, choices) for text in PROMPTS for sample in range(samples)]


def model(place, **values):
    return HfModel(place, **{"dtype": "float32", "device": "cpu", "max_tokens": 24, **values})


def test_it_is_what_the_house_asks_of_a_backend(tiny):
    one = model(tiny)
    assert isinstance(one, StreamsTexts)
    assert isinstance(one, ChoiceModel)
    assert isinstance(one, Ready)
    one.ready()


@pytest.mark.parametrize("place", ["tiny", "windowed", "recurrent"])
@pytest.mark.parametrize("batch_size", [1, 4, 32])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_answers_are_those_of_generate_one_by_one(place, batch_size, penalty, request):
    import torch

    one = model(request.getfixturevalue(place), temperature=0.0, repetition_penalty=penalty, batch_size=batch_size)
    loaded = hf_engine.load_language_model(request.getfixturevalue(place), None, "float32", "cpu")
    engine = hf_engine.load_engine(request.getfixturevalue(place), None, "float32", "cpu")
    texts, lengths = one.generate(calls(samples=2)), set()
    for call, text in zip(calls(samples=2), texts, strict=True):
        prompt = torch.tensor(engine.encoder.prompts([call.messages], 24))
        out = loaded.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=24,
            do_sample=False,
            repetition_penalty=penalty,
        )[0, prompt.shape[1] :].tolist()
        kept = out[:-1] if out[-1] in engine.ends else out
        lengths.add(len(kept))
        assert text == engine.text(kept)
    assert len(lengths) > 1  # rows that end early make room for others


def test_a_sampled_answer_does_not_depend_on_its_neighbours(tiny):
    asked = calls(samples=5)
    texts = model(tiny, batch_size=32).generate(asked)
    assert model(tiny, batch_size=3).generate(asked) == texts
    assert model(tiny).generate(asked[::-1]) == texts[::-1]
    assert [model(tiny).generate([call])[0] for call in asked] == texts
    assert len(set(texts[:5])) == 5  # another sample is another text


def test_answers_come_in_groups_and_each_once(tiny):
    groups = list(model(tiny, batch_size=4).stream(calls(samples=5)))
    assert len(groups) > 3
    assert sorted(answer.place for group in groups for answer in group) == list(range(30))
    assert all(answer.usage.tokens_in > 0 and answer.usage.tokens_out <= 24 for group in groups for answer in group)


def test_nothing_asked_is_nothing_loaded():
    assert list(HfModel("no/where").log_probabilities([])) == []


def test_choices_hold_the_answer_and_follow_their_probabilities(tiny):
    options = ("1", "2", "10", "casual")
    one = model(tiny)
    (group,) = one.log_probabilities([ChoiceCall(chat("It is fun."), options)])
    found = dict(zip(options, map(exp, group[0].value), strict=True))
    shares = {"1": found["1"] - found["10"], "2": found["2"], "10": found["10"], "casual": found["casual"]}
    drawn = Counter(one.generate([GenerationCall(chat("It is fun."), sample, options) for sample in range(600)]))
    for option, share in shares.items():
        assert drawn[option] / 600 == pytest.approx(share / sum(shares.values()), abs=0.07)
    best = max(shares, key=shares.__getitem__)
    assert set(model(tiny, temperature=0.0).generate(calls(choices=options)[5:])) == {best}
    mixed = [*calls(), *calls(choices=options)]
    assert all(text in options for text in one.generate(mixed)[len(PROMPTS) :])
    assert one.generate(mixed)[: len(PROMPTS)] == one.generate(calls())


def test_a_text_longer_than_the_context_is_refused_before_anything_is_written(tiny):
    with pytest.raises(ConfigError, match=r"a chat of \d+ tokens and 24 for the answer make \d+, more than .* 512"):
        next(model(tiny).stream([*calls(), GenerationCall(chat("Be casual. " * 300), 0)]))
    with pytest.raises(ConfigError, match="more than its context of 512"):
        next(model(tiny).log_probabilities([ChoiceCall(chat("Be casual."), ("it is fun " * 300,))]))


def test_weights_are_loaded_once_for_all_roles(tiny, monkeypatch):
    loads = []
    real = hf_engine.load_language_model
    monkeypatch.setattr(hf_engine, "load_language_model", lambda *given: loads.append(given) or real(*given))
    hf_engine._loaded.cache_clear()
    for temperature in (0.0, 0.5, 1.0):
        model(tiny, temperature=temperature, max_tokens=2).generate(calls()[:1])
    assert len(loads) == 1


def test_sampling_and_identity_are_what_figures_depend_on(tiny):
    assert json.loads(model(tiny).sampling) == {
        "dtype": "float32",
        "max_tokens": 24,
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "top_p": 1.0,
    }
    assert model(tiny, batch_size=2, name="x").sampling == model(tiny).sampling
    assert model(tiny, batch_size=2, name="x").identity == model(tiny).identity
    for key, value in (
        ("temperature", 0.5),
        ("top_p", 0.5),
        ("max_tokens", 9),
        ("repetition_penalty", 1.1),
        ("dtype", "bfloat16"),
    ):
        assert model(tiny, **{key: value}).sampling != model(tiny).sampling
    assert HfModel("org/name", revision="abc").identity == "org/name@abc"


@pytest.mark.parametrize(
    ("key", "value"),
    [("temperature", -0.1), ("top_p", 0.0), ("top_p", 1.1), ("max_tokens", 0), ("batch_size", 0)],
)
def test_values_out_of_range_are_named(key, value):
    with pytest.raises(ConfigError, match=f"{key}={value}"):
        HfModel("smollm2_135m", **{key: value})


def test_the_module_and_an_object_of_it_load_no_torch():
    code = "import sys; from apm_lab.language.hf import HfModel; HfModel('a/b'); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
