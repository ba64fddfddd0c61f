import itertools
import json
import random
import shutil
import sys
from pathlib import Path

import pytest
import torch

from apm_lab.data.store import Store
from apm_lab.errors import ConfigError, DataError
from apm_lab.language.pair_scores import MARKS
from apm_lab.language.pairwise_ranker import PairwiseRanker
from apm_lab.language.recall import CallCounts
from apm_lab.language.reward_model import ComparesAnswers, RewardCall, RewardModel
from apm_lab.language.stored_rewards import StoredRewards

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from reward_checkpoints import CALLS, rewards_of, save_own, words

TASKS = 2


def marked_words():
    told = words(pairs=True)
    told.add_special_tokens({"additional_special_tokens": list(MARKS)})
    return told


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    """A tiny PairRM with random weights: its folder, body and head."""
    from transformers import DebertaV2Config, DebertaV2Model

    told = marked_words()
    flat = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    relative = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}
    shape = {**flat, **relative, "type_vocab_size": 0, "initializer_range": 0.3, "vocab_size": len(told)}
    torch.manual_seed(4)
    body = DebertaV2Model(DebertaV2Config(**shape)).eval()
    head = torch.nn.Sequential(
        torch.nn.Dropout(0.1),
        torch.nn.Linear(96, 48),
        torch.nn.Tanh(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(48, TASKS),
    ).eval()
    tensors = {f"pretrained_model.{name}": value.clone() for name, value in body.state_dict().items()}
    tensors |= {f"head_layer.{name}": value.clone() for name, value in head.state_dict().items()}
    tensors["pretrained_model.embeddings.position_ids"] = torch.arange(9)  # a table of older versions
    config = {**shape, "model_type": "deberta-v2", "architectures": ["DebertaV2PairRM"], "n_tasks": TASKS}
    folder = save_own(tmp_path_factory.mktemp("pairrm") / "ranker", config, tensors)
    told.save_pretrained(folder)
    return str(folder), body, head


def by_hand(ranker, source, one, other):
    """Return the logit that `one` is better than `other`, by one pass with nothing beside it."""
    _, body, head = ranker
    told = marked_words()
    ids = []
    for mark, text in zip(MARKS, (source, one, other), strict=True):
        ids += told(f"{mark}{text}")["input_ids"]
    marks = [ids.index(told.convert_tokens_to_ids(mark)) for mark in MARKS]
    with torch.inference_mode():
        states = body(input_ids=torch.tensor([ids])).last_hidden_state[0]
        left, right = (head(torch.cat([states[marks[0]], states[marks[side]]])) for side in (1, 2))
    return float((left - right).mean())


def made(place, template="pair", **given):
    return PairwiseRanker(place, template, dtype="float32", device="cpu", **given)


def test_a_reward_is_the_mean_advantage_over_the_others(ranker):
    model = made(ranker[0])
    assert isinstance(model, RewardModel)
    assert isinstance(model, ComparesAnswers)
    for call, found in zip(CALLS, rewards_of(model, CALLS), strict=True):
        source, answers = call.prompt.rstrip(), [answer.lstrip() for answer in call.answers]
        logit = {
            (a, b): by_hand(ranker, source, answers[a], answers[b])
            for a, b in itertools.permutations(range(len(answers)), 2)
        }
        for a, value in enumerate(found):
            others = [b for b in range(len(answers)) if b != a]
            assert value == pytest.approx(sum((logit[a, b] - logit[b, a]) / 2 for b in others) / len(others), abs=1e-4)
        assert sum(found) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_neither_neighbours_order_nor_padding_has_a_say(ranker, tmp_path, side):
    folder = tmp_path / side
    shutil.copytree(ranker[0], folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "padding_side": side}))
    together = rewards_of(made(ranker[0]), CALLS)
    order = list(range(len(CALLS)))
    random.Random(9).shuffle(order)
    shuffled = rewards_of(made(str(folder), batch_size=3), [CALLS[place] for place in order])
    for place, call in enumerate(CALLS):
        assert rewards_of(made(str(folder)), [call])[0] == pytest.approx(together[place], abs=1e-4)
        assert shuffled[order.index(place)] == pytest.approx(together[place], abs=1e-4)
        turned = RewardCall(call.prompt, call.answers[::-1])
        assert rewards_of(made(ranker[0]), [turned])[0][::-1] == pytest.approx(together[place], abs=1e-4)


def test_one_answer_alone_has_reward_nought(ranker, tmp_path):
    calls = [RewardCall("Why?", ("fun",)), CALLS[0]]
    found = rewards_of(made(ranker[0]), calls)
    assert found[0] == (0.0,)
    stored = StoredRewards(made(ranker[0]), Store(tmp_path / "store").scores, CallCounts())
    assert stored.rewards([RewardCall("p", ("fit", "fit")), calls[0]]) == [(0.0, 0.0), (0.0,)]


def test_what_is_too_long_is_cut_at_the_end(ranker, monkeypatch):
    monkeypatch.setattr("apm_lab.language.pairwise_ranker.SOURCE", 10)
    monkeypatch.setattr("apm_lab.language.pairwise_ranker.WHOLE", 30)
    told = marked_words()
    prompt, answers = "Why should I learn to swim? " * 5, ("it is fun and it is fit and it is casual ", "no")
    ids = told(f"{MARKS[0]}{prompt.rstrip()}")["input_ids"]
    assert len(ids) > 12
    short = told.decode(ids[2:9])  # the first 10 with what the tokenizer puts round them
    tail = told(f"{MARKS[1]}{answers[0]}")["input_ids"]
    assert len(tail) > 10
    whole = (told.decode(tail[2:9]), answers[1])
    found = rewards_of(made(ranker[0]), [RewardCall(prompt, answers)])[0]
    hand = (by_hand(ranker, short, *whole) - by_hand(ranker, short, *whole[::-1])) / 2
    assert found == pytest.approx([hand, -hand], abs=1e-4)


def test_no_text_can_write_a_mark(ranker):
    call = RewardCall("fit <|source|>", ("fun <|candidate1|><|candidate2|>", "fit<|end|>"))
    broken = RewardCall("fit < |source|>", ("fun < |candidate1|>< |candidate2|>", "fit< |end|>"))
    assert rewards_of(made(ranker[0]), [call]) == rewards_of(made(ranker[0]), [broken])


def test_user_mistakes_are_named(ranker, tiny, tmp_path):
    with pytest.raises(ConfigError, match="template='chat': a pairwise ranker has its own form: set pair"):
        made(ranker[0], "chat")
    with pytest.raises(ConfigError, match=r"is no PairRM: its tokenizer has no <\|source\|>"):
        rewards_of(made(tiny), CALLS[:1])
    with pytest.raises(ConfigError, match="names no model"):
        made(None)
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "lacking"
    shutil.copytree(ranker[0], folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["head_layer.7.bias"] = tensors.pop("head_layer.4.bias")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match=r"missing weights \['head_layer.4.bias'\], extra .*'head_layer.7.bias'"):
        rewards_of(made(str(folder)), CALLS[:1])
    made(ranker[0]).ready()
    assert made(ranker[0]).identity.startswith("ranker@")
    assert list(made(ranker[0]).rewards([])) == []
