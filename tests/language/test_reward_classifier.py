import json
import random
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from apm_lab.errors import ConfigError
from apm_lab.language.hf_body import Body
from apm_lab.language.reward_classifier import RewardClassifier
from apm_lab.language.reward_model import RewardCall, RewardModel

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from reward_checkpoints import CALLS, llama_shape, rewards_of, save_classifier, words

ENCODERS = ("bert", "deberta")


def made(place, template="raw", **given):
    return RewardClassifier(place, template, dtype="float32", device="cpu", **given)


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory):
    """Folders of tiny classifiers with random weights: three decoders, two encoders."""
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        DebertaV2Config,
        DebertaV2ForSequenceClassification,
        Gemma3TextConfig,
        Gemma3TextForSequenceClassification,
        GPT2Config,
        GPT2ForSequenceClassification,
        LlamaConfig,
        LlamaForSequenceClassification,
    )

    root = tmp_path_factory.mktemp("classifiers")
    flat = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    common = {**flat, "initializer_range": 0.4, "num_labels": 1, "pad_token_id": 0}
    window = {"head_dim": 16, "num_key_value_heads": 1, "sliding_window": 24, "eos_token_id": 2, "bos_token_id": None}
    deberta = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}
    gpt2 = {"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 512, "initializer_range": 0.4, "num_labels": 1}
    makers = {
        "llama": (LlamaForSequenceClassification, LlamaConfig(**llama_shape(), num_labels=1)),
        "gemma": (Gemma3TextForSequenceClassification, Gemma3TextConfig(**common, **window)),
        "gpt2": (GPT2ForSequenceClassification, GPT2Config(**gpt2, pad_token_id=0)),
        "bert": (BertForSequenceClassification, BertConfig(**common, max_position_embeddings=512)),
        "deberta": (
            DebertaV2ForSequenceClassification,
            DebertaV2Config(**common, **deberta, max_position_embeddings=512, type_vocab_size=0, pooler_hidden_size=48),
        ),
    }
    return {
        name: save_classifier(root / name, kind, config, pairs=name in ENCODERS)
        for name, (kind, config) in makers.items()
    }


def by_hand(folder, encoded):
    """Return the logit of one text from the model's own pass, with nothing beside it."""
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return float(model(**encoded).logits[0, 0])


def texts(call, answer, template):
    """Return what the model reads, written out."""
    user, reply = call.prompt.rstrip(), answer.lstrip()
    if template == "raw":
        return call.prompt + answer
    if template == "chat":
        return f"<|start|>user\n{user}<|end|>\n<|start|>assistant\n{reply}<|end|>\n"
    return template.format(prompt=user, answer=reply)


@pytest.mark.parametrize("template", ["raw", "chat", "Human: {prompt}\n\nAssistant: {answer}", "pair"])
@pytest.mark.parametrize("kind", ["llama", "gemma", "gpt2", "bert", "deberta"])
def test_scores_are_those_of_the_models_own_pass(classifiers, kind, template):
    folder, tokenizer = classifiers[kind], words(pairs=kind in ENCODERS)
    model = made(folder, template)
    assert isinstance(model, RewardModel)
    for call, found in zip(CALLS, rewards_of(model, CALLS), strict=True):
        for answer, value in zip(call.answers, found, strict=True):
            if template == "pair":
                encoded = tokenizer(call.prompt.rstrip(), answer.lstrip(), return_tensors="pt")
            else:
                special = template != "chat"
                encoded = tokenizer(texts(call, answer, template), add_special_tokens=special, return_tensors="pt")
            assert value == pytest.approx(by_hand(folder, encoded), abs=1e-4)


@pytest.mark.parametrize("kind", ["llama", "gemma", "gpt2", "bert", "deberta"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_neither_neighbours_order_nor_padding_has_a_say(classifiers, tmp_path, kind, side):
    folder = tmp_path / f"{kind}-{side}"
    shutil.copytree(classifiers[kind], folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "padding_side": side}))
    together = rewards_of(made(classifiers[kind]), CALLS)
    order = list(range(len(CALLS)))
    random.Random(5).shuffle(order)
    shuffled = rewards_of(made(str(folder), batch_size=3), [CALLS[place] for place in order])
    for place, call in enumerate(CALLS):
        assert rewards_of(made(str(folder)), [call])[0] == pytest.approx(together[place], abs=1e-4)
        assert shuffled[order.index(place)] == pytest.approx(together[place], abs=1e-4)


def test_a_decoder_reads_a_question_once(classifiers, monkeypatch):
    read, real = [], Body.hidden

    def counted(self, ids, *given):
        read.append(ids.numel())
        return real(self, ids, *given)

    calls = [RewardCall(f"{word} {'Why should I learn to swim? ' * 10}\n", tuple("12345")) for word in ("fit", "fun")]
    rewards_of(made(classifiers["llama"]), calls[:1])
    monkeypatch.setattr(Body, "hidden", counted)
    rewards_of(made(classifiers["llama"]), calls)
    tokens = len(words()(calls[0].prompt)["input_ids"])
    assert sum(read) < 2 * (tokens + 40)


def test_an_end_that_is_also_used_for_padding_does_not_count(classifiers):
    """As in transformers: the score is read at the last token that is not the padding token."""
    folder = classifiers["llama"]
    plain, ended = (
        rewards_of(made(folder, template), CALLS[:1])[0]
        for template in ("{prompt} {answer}", "{prompt} {answer}<|pad|>")
    )
    assert ended == pytest.approx(plain, abs=1e-5)
    encoded = words()(f"{CALLS[0].prompt.rstrip()} {CALLS[0].answers[0].lstrip()}<|pad|>", return_tensors="pt")
    assert plain[0] == pytest.approx(by_hand(folder, {"input_ids": encoded["input_ids"]}), abs=1e-4)


def test_no_text_can_write_a_special_token(classifiers):
    folder = classifiers["llama"]
    call = RewardCall("fit<|end|>\n", ("fun<|end|>",))
    broken = RewardCall("fit< |end|>\n", ("fun< |end|>",))
    for template in ("raw", "chat", "{prompt}<|end|>{answer}", "pair"):
        assert rewards_of(made(folder, template), [call]) == rewards_of(made(folder, template), [broken])


def test_a_longer_text_is_refused_or_loses_its_beginning(classifiers):
    long = RewardCall("Why should I learn to swim? " * 100, ("fit",))
    for kind in ("llama", "bert"):
        with pytest.raises(ConfigError, match=r"the text 'Why should I .* more than its context of 512"):
            rewards_of(made(classifiers[kind]), [long])
    row = words()(long.prompt + "fit")["input_ids"]
    short = torch.tensor([[row[0], *row[-19:]]])
    found = rewards_of(made(classifiers["llama"], max_tokens=20), [long])[0][0]
    assert found == pytest.approx(by_hand(classifiers["llama"], {"input_ids": short}), abs=1e-4)


def test_several_numbers_need_a_label(tmp_path):
    from transformers import LlamaConfig, LlamaForSequenceClassification

    config = LlamaConfig(**llama_shape(), num_labels=3)
    folder = save_classifier(tmp_path / "three", LlamaForSequenceClassification, config)
    with pytest.raises(ConfigError, match=r"helpful gives 3 numbers, and a reward is one: set .*label to 0"):
        rewards_of(made(folder, name="helpful"), CALLS[:1])
    with pytest.raises(ConfigError, match="label=3, and the model gives 3"):
        rewards_of(made(folder, label=3), CALLS[:1])
    tokenizer = words()
    model = LlamaForSequenceClassification.from_pretrained(folder).eval()
    ids = tokenizer(CALLS[0].prompt + CALLS[0].answers[0], return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        hand = model(input_ids=ids).logits[0]
    for label in range(3):
        found = rewards_of(made(folder, label=label), CALLS[:1])
        assert found[0][0] == pytest.approx(float(hand[label]), abs=1e-4)


def test_a_head_that_is_not_known_is_left_to_the_model(classifiers, monkeypatch):
    """Then each text is read alone, since what the head makes of padding is not known either."""
    monkeypatch.setattr("apm_lab.language.classifier_scores.decoder_scores", lambda *given: None)
    sizes, folder = [], classifiers["gpt2"]
    from transformers import GPT2ForSequenceClassification

    real = GPT2ForSequenceClassification.forward

    def counted(self, input_ids, **given):
        sizes.append(len(input_ids))
        return real(self, input_ids, **given)

    expected = rewards_of(made(folder, name="known"), CALLS)
    monkeypatch.setattr(GPT2ForSequenceClassification, "forward", counted)
    from apm_lab.language import reward_classifier

    reward_classifier._loaded.cache_clear()
    found = rewards_of(made(folder), CALLS)
    assert set(sizes) == {1}
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)


def test_templates_are_never_guessed(classifiers, tmp_path):
    for wrong in ("cht", "{prompt}", "{prompt} {answer} {answer}", "{prompt} {answer} {", "{prompt} {answer} {other}"):
        with pytest.raises(ConfigError, match=r"expected raw, chat, pair, or a text that holds \{prompt\} and"):
            made(classifiers["llama"], wrong)
    folder = tmp_path / "plain"
    shutil.copytree(classifiers["llama"], folder)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match=r"has no chat template; set reward_model\.template to raw"):
        rewards_of(made(str(folder), "chat"), CALLS[:1])
    with pytest.raises(TypeError):
        RewardClassifier(classifiers["llama"])


def test_user_mistakes_are_named(classifiers, tiny, tmp_path):
    with pytest.raises(ConfigError, match=r"weights do not fit config.json: 1 missing, first score.weight"):
        rewards_of(made(tiny), CALLS[:1])
    with pytest.raises(ConfigError, match="path_or_id names no model"):
        made(None)
    with pytest.raises(ConfigError, match=r"architecture=bever.*beaver"):
        made(classifiers["llama"], architecture="bever")
    with pytest.raises(ConfigError, match="max_tokens=0 must be at least 1"):
        made(classifiers["llama"], max_tokens=0)
    pickled = tmp_path / "pickled"
    shutil.copytree(classifiers["llama"], pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    for architecture in (None, "beaver"):
        with pytest.raises(ConfigError, match="pickled weights are not read: convert them"):
            rewards_of(made(str(pickled), architecture=architecture), CALLS[:1])
        with pytest.raises(ConfigError, match="pickled weights are not read: convert them"):
            made(str(pickled), architecture=architecture).ready()


def test_the_pooler_of_a_classifier_must_be_there(classifiers, tmp_path):
    from safetensors.torch import load_file

    folder = tmp_path / "headless"
    shutil.copytree(classifiers["deberta"], folder)
    tensors = load_file(folder / "model.safetensors")
    tensors.pop("pooler.dense.weight")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"1 missing, first pooler\.dense\.weight"):
        rewards_of(made(str(folder)), CALLS[:1])


def test_what_changes_the_rewards_is_in_the_key(classifiers):
    folder = classifiers["llama"]
    kinds = [{}, {"label": 0}, {"max_tokens": 9}, {"template": "chat"}, {"tokenizer": folder}]
    assert len({made(folder, **{"template": "raw", **given}).sampling for given in kinds}) == 5
    assert made(folder).identity.startswith("llama@")
    assert list(made(folder).rewards([])) == []
