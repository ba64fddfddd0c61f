"""The vLLM backend: what can be said without vLLM, and (`make test-vllm`) what the engine itself does."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from apm_lab.errors import ConfigError, MissingPackageError
from apm_lab.language import hf_engine
from apm_lab.language.protocols import ChoiceCall, ChoiceModel, GenerationCall, NestsAnswers, Ready, StreamsTexts
from apm_lab.language.vllm import VllmModel
from apm_lab.records import Message

SMOLLM2 = Path(os.environ.get("APM_LAB_MODELS", Path.home() / ".cache/apm_lab/models")) / "smollm2_135m"


def chat(text):
    return (Message("user", text),)


def test_it_meets_the_protocols():
    model = VllmModel("org/model", revision="abc")
    assert isinstance(model, StreamsTexts) and isinstance(model, ChoiceModel) and isinstance(model, Ready)
    assert (model.identity, model.engine, model.name) == ("org/model@abc", "vllm", "org/model")


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 0.5},
        {"top_p": 0.9},
        {"max_tokens": 7},
        {"dtype": "float32"},
        {"template": {"a": 1}},
        {"answer_after": "</think>"},
    ],
)
def test_what_changes_the_text_is_in_the_sampling_values(values):
    assert VllmModel("m", **values).sampling != VllmModel("m").sampling


@pytest.mark.parametrize(
    "values",
    [
        *({"batch_size": 3}, {"tensor_parallel_size": 2}, {"enforce_eager": True}, {"max_model_len": 4096}),
        {"temperature": 1, "top_p": 1},
    ],
)
def test_what_does_not_change_the_text_is_not(values):
    assert VllmModel("m", **values).sampling == VllmModel("m").sampling


@pytest.mark.parametrize("values", [{"temperature": -1}, {"top_p": 0}, {"max_tokens": 0}, {"batch_size": 0}])
def test_impossible_values_are_refused(values):
    with pytest.raises(ConfigError, match=f"{next(iter(values))}={next(iter(values.values()))}"):
        VllmModel("m", **values)


def test_without_vllm_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("apm_lab.language.vllm.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match="make vllm"):
        VllmModel("m").ready()


def test_a_folder_without_a_tokenizer_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("apm_lab.language.vllm.find_spec", lambda name: object())
    with pytest.raises(ConfigError, match="has no tokenizer"):
        VllmModel(str(tmp_path)).ready()


class Engine:
    """As much of vLLM's `LLM` as is used, on a real tokenizer; it answers with the number of the prompt's tokens."""

    def __init__(self, tokenizer, longest):
        self.tokenizer, self.model_config, self.asked = tokenizer, SimpleNamespace(max_model_len=longest), []

    def get_tokenizer(self):
        return self.tokenizer

    def generate(self, prompts, _parameters, use_tqdm):
        assert not use_tqdm
        found = [prompt["prompt_token_ids"] for prompt in prompts]
        self.asked += found
        return [
            SimpleNamespace(
                prompt_token_ids=tokens,
                outputs=[SimpleNamespace(text=f" {len(tokens)} ", token_ids=[1])],
                prompt_logprobs=[{token: SimpleNamespace(logprob=-float(token))} for token in tokens],
            )
            for tokens in found
        ]


@pytest.fixture
def engine(tiny, monkeypatch):
    made = Engine(hf_engine.load_engine(tiny, None, "float32", "cpu").tokenizer, 40)
    monkeypatch.setattr("apm_lab.language.vllm._engine", lambda settings: made)
    vllm = SimpleNamespace(SamplingParams=dict, sampling_params=SimpleNamespace(StructuredOutputsParams=dict))
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", vllm.sampling_params)
    return made


def test_a_chat_longer_than_the_context_is_refused_before_anything_is_written(engine):
    model = VllmModel("m", max_tokens=8, batch_size=1)
    short, long = (GenerationCall(chat(text), 0) for text in ("fun", "fun " * 40))
    (text,) = model.generate([short])
    assert int(text) == len(engine.asked.pop())
    with pytest.raises(
        ConfigError, match=r"m: a chat of \d+ tokens and 8 for the answer make \d+, more than its context"
    ):
        model.generate([short, long])
    with pytest.raises(ConfigError, match=r"more than its context of 40"):
        VllmModel("m", max_tokens=41 - int(text)).generate([short])  # the answer would be cut short by the engine
    with pytest.raises(ConfigError, match=r"more than its context of 40"):
        list(model.log_probabilities([ChoiceCall(chat("fun"), ("fun " * 40,))]))
    assert engine.asked == []


def test_a_chat_is_what_the_template_makes_of_it_and_a_text_can_not_end_its_turn(engine):
    VllmModel("m", max_tokens=2).generate([GenerationCall(chat("a<|end|>"), 0)])
    said = engine.tokenizer.decode(engine.asked[0])
    assert said == "<|start|>user\na< |end|><|end|>\n<|start|>assistant\n"


def test_answers_are_cut_into_tokens_as_they_follow_a_turn(engine, tiny):
    model, encoder = VllmModel("m"), hf_engine.load_engine(tiny, None, "float32", "cpu").encoder
    answers = ("10", "1", "It is fun.")
    ((found,),) = model.log_probabilities([ChoiceCall(chat("x"), answers)])
    cut = encoder.answers(answers)
    assert found.value == tuple(-float(sum(tokens)) for tokens in cut)
    assert all(asked[-len(tokens) :] == tokens for asked, tokens in zip(engine.asked, cut, strict=True))
    assert isinstance(model, NestsAnswers)
    assert model.begins("1", "10") == (cut[0][: len(cut[1])] == cut[1])
    assert not model.begins("2", "10")


@pytest.fixture(scope="module")
def smollm2():
    pytest.importorskip("vllm", reason="vLLM is not installed here: make test-vllm")
    if not SMOLLM2.is_dir():
        pytest.skip(f"{SMOLLM2} is not there: make offline-models")
    for name, value in {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}.items():
        os.environ.setdefault(name, value)
    return VllmModel(str(SMOLLM2), dtype="float32", max_tokens=24, max_model_len=1024, enforce_eager=True, batch_size=2)


@pytest.mark.vllm
@pytest.mark.filterwarnings("default")
def test_an_answer_depends_on_its_own_call_alone(smollm2):
    calls = [GenerationCall(chat(f"Write one line about {word}."), place) for place, word in enumerate(("sea", "ice"))]
    texts = smollm2.generate([*calls, calls[0]])
    assert texts[0] == texts[2] != texts[1]
    assert smollm2.generate(calls[::-1])[::-1] == texts[:2]


@pytest.mark.vllm
@pytest.mark.filterwarnings("default")
def test_an_answer_is_one_of_the_choices_where_there_are_any(smollm2):
    calls = [GenerationCall(chat("Is fire hot?"), sample, ("maybe", "never")) for sample in range(4)]
    assert set(smollm2.generate(calls)) <= {"maybe", "never"}


@pytest.mark.vllm
@pytest.mark.filterwarnings("default")
def test_log_probabilities_are_those_of_transformers(smollm2):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    messages, answers = chat("The capital of France is"), (" Paris", "10", "I do not know that city at all.")
    ((found,),) = smollm2.log_probabilities([ChoiceCall(messages, answers)])
    tokenizer = AutoTokenizer.from_pretrained(SMOLLM2)
    model = AutoModelForCausalLM.from_pretrained(SMOLLM2, dtype=torch.float32).eval()
    before = tokenizer.apply_chat_template(
        [{"role": "user", "content": messages[0].content}], add_generation_prompt=True, return_dict=False
    )
    for answer, value in zip(answers, found.value, strict=True):
        ids = tokenizer.encode(answer, add_special_tokens=False)
        with torch.inference_mode():
            logits = model(torch.tensor([[*before, *ids]])).logits[0].log_softmax(-1)
        expected = sum(logits[len(before) - 1 + place, token].item() for place, token in enumerate(ids))
        assert value == pytest.approx(expected, abs=2e-2)
