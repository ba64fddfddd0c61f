"""Tiny reward models with random weights, saved in the formats of real ones."""

import json

import torch
from safetensors.torch import save_file

from apm_lab.language.reward_model import RewardCall

CALLS = [
    RewardCall(
        "Why should I learn to swim?\nA. It keeps you fit\nB. It is fun\nAnswer:", (" A", " B", " it is fun to swim")
    ),
    RewardCall("Rate the text from 1 to 10.\n", ("10", "It keeps you fit and it is fun. Why should I avoid it?" * 3)),
    RewardCall("How strongly does the text follow this principle: fit?\n", ("1", "2", "strongly")),
    RewardCall("Why should I learn to swim?\nA. It keeps you fit\nB. It is fun\nAnswer:", (" 10", " fun")),
]


def rewards_of(model, calls):
    """Return the rewards in order of calls."""
    found = {answer.place: answer.value for group in model.rewards(calls) for answer in group}
    assert sorted(found) == list(range(len(calls)))
    return [found[place] for place in range(len(calls))]


def words(pairs=False):
    """Return the tests' tokenizer; for encoders one that marks texts and pairs of texts as BERT's does."""
    from conftest import tokenizer  # the tests' own, one folder up

    told = tokenizer()
    if pairs:
        from tokenizers.processors import TemplateProcessing

        told.backend_tokenizer.post_processor = TemplateProcessing(
            single="<|start|> $A <|end|>",
            pair="<|start|> $A <|end|> $B:1 <|end|>:1",
            special_tokens=[("<|start|>", 1), ("<|end|>", 2)],
        )
        told.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        told.init_kwargs["model_input_names"] = told.model_input_names
    return told


def llama_shape():
    """Return the keys of a tiny Llama."""
    flat = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0}
    return {**flat, **ends, "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.4}


def save_classifier(folder, kind, config, pairs=False):
    """Write a transformers classifier with its tokenizer and return its folder."""
    told = words(pairs)
    config.vocab_size = len(told)
    torch.manual_seed(0)
    kind(config).save_pretrained(folder)
    told.save_pretrained(folder)
    return str(folder)


def save_own(folder, config, tensors, shards=1):
    """Write a checkpoint of an authors' own class: config.json as they wrote it, and weights by name."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = sorted(tensors)
    where = {}
    for shard in range(shards):
        part = {name: tensors[name].contiguous() for name in names[shard::shards]}
        file = "model.safetensors" if shards == 1 else f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        save_file(part, folder / file, {"format": "pt"})
        where |= dict.fromkeys(part, file)
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    words().save_pretrained(folder)
    return folder
