import json
import random
import shutil
import sys
from pathlib import Path

import pytest
import torch

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.reward_architectures import ARCHITECTURES, architecture_of
from apm_lab.language.reward_classifier import RewardClassifier

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from reward_checkpoints import CALLS, llama_shape, rewards_of, save_own, words

NAMES = ("beaver", "ultrarm", "starling", "oasst", "oasst_mean")
TEMPLATES = {
    "beaver": "BEGINNING OF CONVERSATION: USER: {prompt} ASSISTANT:{answer}",
    "ultrarm": "Human: {prompt}\n\nAssistant: {answer}",
    "starling": "<s>[INST] {prompt} </s> [/INST] {answer}</s>",
    "oasst": "<|start|>{prompt}<|end|><|start|>{answer}<|end|>",
    "oasst_mean": "<|start|>{prompt}<|end|><|start|>{answer}<|end|>",
}
HEADS = {"beaver": "score_head", "ultrarm": "regression_head", "starling": "v_head", "oasst": "out_proj"}
PREFIXES = {"beaver": "model.", "ultrarm": "model.", "starling": "transformer.", "oasst": "gpt_neox."}
CLASSES = {
    "beaver": "LlamaForScore",
    "ultrarm": "LlamaRewardModel",
    "starling": "LLMForSequenceRegression",
    "oasst": "GPTNeoXRewardModel",
}
DEVIATION = {"mean": [1.5], "var": [4.0], "do_normalize": True, "score_type": "reward", "bias": True}


def body_of(name):
    """Return a body with random weights, and config.json as its authors wrote it."""
    from transformers import GPTNeoXConfig, GPTNeoXModel, LlamaConfig, LlamaModel

    torch.manual_seed(1)
    vocabulary = len(words())
    if name == "oasst":
        flat = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        shape = {**flat, "max_position_embeddings": 512, "initializer_range": 0.2, "vocab_size": vocabulary}
        half = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
        body = GPTNeoXModel(GPTNeoXConfig(**shape, rope_parameters=half)).eval()
        # As transformers wrote it in 2023.
        return body, {**shape, "rotary_pct": 0.5, "rotary_emb_base": 10000, "model_type": "gpt_neox_reward_model"}
    shape = {**llama_shape(), "vocab_size": vocabulary}
    return LlamaModel(LlamaConfig(**shape)).eval(), {**shape, "model_type": "llama", "rope_scaling": None}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Folder, body, head weight and bias of each kind, in the format of the real one."""
    root, made = tmp_path_factory.mktemp("own"), {}
    for name in NAMES:
        kind = name.removesuffix("_mean")
        body, config = body_of(kind)
        weight, bias = torch.randn(1, 48), torch.randn(1) if kind in ("beaver", "oasst") else None
        tensors = {f"{PREFIXES[kind]}{key}": value.clone() for key, value in body.state_dict().items()}
        tensors[f"{HEADS[kind]}.weight"] = weight
        if bias is not None:
            tensors[f"{HEADS[kind]}.bias"] = bias
        tensors |= spare(kind, body)
        config["architectures"] = [CLASSES[kind]]
        if kind == "beaver":
            config |= {**DEVIATION, "score_dim": 1}
        if kind == "oasst":
            config["pooling"] = "mean" if name.endswith("_mean") else "last"
        folder = save_own(root / name, config, tensors, shards=2 if kind == "starling" else 1)
        made[name] = (str(folder), body, weight[0], float(bias[0]) if bias is not None else 0.0)
    return made


def spare(kind, body):
    """Return what real files hold beside the weights that count."""
    if kind == "starling":
        copied = {f"model.model.{key}": value.clone() for key, value in body.state_dict().items()}
        return {**copied, "model.lm_head.weight": torch.ones(3, 48)}
    if kind == "oasst":
        return {
            f"gpt_neox.layers.0.attention.{key}": torch.ones(4)
            for key in ("bias", "masked_bias", "rotary_emb.inv_freq")
        }
    return {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}


def by_hand(name, body, weight, bias, call, answer):
    """Return the score from one plain pass of the body, the head and the pooling written out."""
    text = TEMPLATES[name].format(prompt=call.prompt.rstrip(), answer=answer.lstrip())
    ids = words()(text, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        states = body(input_ids=ids, use_cache=False).last_hidden_state[0]
    pooled = states.mean(0) if name == "oasst_mean" else states[-1]
    score = float(pooled @ weight) + bias
    return (score - 1.5) / 2.0 if name == "beaver" else score


def made(folder, template, **given):
    return RewardClassifier(folder, template, dtype="float32", device="cpu", **given)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_a_pass_written_by_hand(checkpoints, name):
    folder, *parts = checkpoints[name]
    for call, found in zip(CALLS, rewards_of(made(folder, TEMPLATES[name]), CALLS), strict=True):
        hand = [by_hand(name, *parts, call, answer) for answer in call.answers]
        assert found == pytest.approx(hand, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_neither_neighbours_order_nor_padding_has_a_say(checkpoints, tmp_path, name, side):
    folder = tmp_path / f"{name}-{side}"
    shutil.copytree(checkpoints[name][0], folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "padding_side": side}))
    together = rewards_of(made(checkpoints[name][0], TEMPLATES[name]), CALLS)
    order = list(range(len(CALLS)))
    random.Random(7).shuffle(order)
    shuffled = rewards_of(made(str(folder), TEMPLATES[name], batch_size=3), [CALLS[place] for place in order])
    for place, call in enumerate(CALLS):
        assert rewards_of(made(str(folder), TEMPLATES[name]), [call])[0] == pytest.approx(together[place], abs=1e-4)
        assert shuffled[order.index(place)] == pytest.approx(together[place], abs=1e-4)


def test_each_is_recognised_by_its_config(checkpoints):
    for name in NAMES:
        config = json.loads((Path(checkpoints[name][0]) / "config.json").read_text())
        assert architecture_of(config) == name.removesuffix("_mean")
    assert architecture_of({"model_type": "gpt_neox_reward_model"}) == "oasst"
    assert architecture_of({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}) is None
    assert architecture_of({}) is None
    assert list(ARCHITECTURES) == ["beaver", "ultrarm", "starling", "oasst"]


def test_one_is_set_where_the_config_does_not_say(checkpoints, tmp_path):
    folder = changed(checkpoints["ultrarm"][0], tmp_path / "silent", lambda config: config.pop("architectures"))
    found = rewards_of(made(folder, TEMPLATES["ultrarm"], architecture="ultrarm"), CALLS[:1])
    assert found[0] == pytest.approx(rewards_of(made(checkpoints["ultrarm"][0], TEMPLATES["ultrarm"]), CALLS[:1])[0])


def changed(folder, to, change):
    """Return a copy whose config.json is changed."""
    shutil.copytree(folder, to)
    config = json.loads((to / "config.json").read_text())
    change(config)
    (to / "config.json").write_text(json.dumps(config))
    return str(to)


def test_beavers_normaliser_is_optional_and_its_running_figures_may_lie_in_the_file(checkpoints, tmp_path):
    folder, body, weight, bias = checkpoints["beaver"]
    plain = changed(folder, tmp_path / "plain", lambda config: config.update(do_normalize=False))
    cost = changed(folder, tmp_path / "cost", lambda config: config.update(score_type="cost"))
    critic = changed(folder, tmp_path / "critic", lambda config: config.update(score_type="critic"))
    hand = by_hand("ultrarm", body, weight, bias, CALLS[0], CALLS[0].answers[0])
    template = TEMPLATES["ultrarm"]
    assert rewards_of(made(plain, template), CALLS[:1])[0][0] == pytest.approx(hand, abs=1e-4)
    assert rewards_of(made(cost, template), CALLS[:1])[0][0] == pytest.approx(hand / 2, abs=1e-4)
    assert rewards_of(made(critic, template), CALLS[:1])[0][0] == pytest.approx(hand, abs=1e-4)
    buffers = {"normalizer.mean": torch.tensor([-1.0]), "normalizer.var": torch.tensor([9.0])}
    filed = with_tensors(folder, tmp_path / "filed", lambda tensors: tensors.update(buffers))
    assert rewards_of(made(filed, template), CALLS[:1])[0][0] == pytest.approx((hand + 1) / 3, abs=1e-4)
    without = changed(folder, tmp_path / "without", lambda config: config.pop("var"))
    with pytest.raises(DataError, match=r"do_normalize, and neither normalizer\.var nor var in config.json"):
        rewards_of(made(without, template), CALLS[:1])
    other = changed(folder, tmp_path / "other", lambda config: config.update(score_type="praise"))
    with pytest.raises(ConfigError, match="score_type=praise, expected reward, cost or critic"):
        rewards_of(made(other, template), CALLS[:1])


def with_tensors(folder, to, change):
    """Return a copy whose weights are changed."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, to)
    tensors = load_file(to / "model.safetensors")
    change(tensors)
    save_file(tensors, to / "model.safetensors", {"format": "pt"})
    return str(to)


def test_starling_reads_the_score_before_the_first_unknown_token(checkpoints, tmp_path):
    folder = tmp_path / "unknown"
    shutil.copytree(checkpoints["starling"][0], folder)
    told = words()
    told.unk_token = "<|pad|>"
    told.save_pretrained(folder)
    short, long = "{prompt} {answer}", "{prompt} {answer}<|pad|> and more"
    assert rewards_of(made(str(folder), long), CALLS[:1])[0] == pytest.approx(
        rewards_of(made(str(folder), short), CALLS[:1])[0], abs=1e-5
    )


def test_a_tokenizer_may_lie_elsewhere(checkpoints, tiny, tmp_path):
    folder = tmp_path / "without"
    shutil.copytree(checkpoints["starling"][0], folder)
    for file in folder.glob("*token*"):
        file.unlink()
    with pytest.raises(ConfigError, match="has no tokenizer"):
        made(str(folder), "raw").ready()
    with pytest.raises(ConfigError, match="has no tokenizer"):
        rewards_of(made(str(folder), "raw"), CALLS[:1])
    borrowed = made(str(folder), "raw", tokenizer=tiny)
    borrowed.ready()
    assert rewards_of(borrowed, CALLS[:1])[0] == pytest.approx(
        rewards_of(made(checkpoints["starling"][0], "raw"), CALLS[:1])[0]
    )


@pytest.mark.parametrize("name", ["beaver", "ultrarm", "oasst"])
def test_weights_that_do_not_fit_are_named(checkpoints, tmp_path, name):
    folder, template = checkpoints[name][0], TEMPLATES[name]
    head = f"{HEADS[name]}.weight"
    norm = f"{PREFIXES[name]}{'final_layer_norm' if name == 'oasst' else 'norm'}.weight"
    for lost in (head, norm):
        missing = with_tensors(folder, tmp_path / f"missing-{lost}", lambda tensors, lost=lost: tensors.pop(lost))
        with pytest.raises(DataError, match=rf"missing weights \['{lost}'\]"):
            rewards_of(made(missing, template), CALLS[:1])
    for extra in (f"{PREFIXES[name]}other.weight", "other.weight", f"{HEADS[name]}.1.weight"):
        more = {extra: torch.ones(2)}
        folder_with = with_tensors(folder, tmp_path / f"extra-{extra}", lambda tensors, more=more: tensors.update(more))
        with pytest.raises(DataError, match=rf"extra weights \['{extra}'\]"):
            rewards_of(made(folder_with, template), CALLS[:1])
    for misshaped, shape in ((head, "(2, 48)"), (norm, "(2, 48)")):
        wide = {misshaped: torch.ones(2, 48)}
        folder_with = with_tensors(
            folder, tmp_path / f"wide-{misshaped}", lambda tensors, wide=wide: tensors.update(wide)
        )
        with pytest.raises(ConfigError, match=rf"{misshaped} has shape \({shape[1:-1]}\), expected"):
            rewards_of(made(folder_with, template), CALLS[:1])


def test_a_pooling_that_is_not_known_is_refused(checkpoints, tmp_path):
    folder = changed(checkpoints["oasst"][0], tmp_path / "max", lambda config: config.update(pooling="max"))
    with pytest.raises(ConfigError, match="pooling=max, expected last or mean"):
        rewards_of(made(folder, TEMPLATES["oasst"]), CALLS[:1])
