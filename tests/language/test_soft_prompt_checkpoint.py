"""A trained soft prompt on disk: written whole, read back, and refused by name where it does not fit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.soft_prompt_checkpoint import PolicyDescription, fitting, read_policy, write_policy

TENSORS = {"projector.layers.weight": torch.ones(2, 3), "adapter.q.lora_A.weight": torch.zeros(2, 2)}
SETTINGS = {"width": 3, "soft_tokens": 1, "projector": "linear", "lora_rank": 2, "lora_alpha": 4, "targets": ("q",)}
TOLD = PolicyDescription(base="tiny@1", encoder="hashed@1:3", pooling="mean", settings=SETTINGS, beta=0.1)


@pytest.fixture
def folder(tmp_path):
    write_policy(tmp_path / "policy", TENSORS, TOLD)
    return tmp_path / "policy"


def reseal(folder):
    """Let the description vouch for the weights as they are."""
    from hashlib import blake2b

    told = json.loads((folder / "soft_prompt.json").read_text())
    content = (folder / "soft_prompt.safetensors").read_bytes()
    told["digest"] = blake2b(content, digest_size=16).hexdigest()
    (folder / "soft_prompt.json").write_text(json.dumps(told))


def test_what_was_written_is_read_back(folder):
    tensors, told = read_policy(folder)
    assert told.base == "tiny@1"
    assert told.beta == 0.1
    assert {name: value.tolist() for name, value in tensors.items()} == {
        name: value.tolist() for name, value in TENSORS.items()
    }
    assert set(fitting(folder, TENSORS, TOLD)) == set(TENSORS)


def test_another_base_model_is_named(folder):
    with pytest.raises(ConfigError, match=r"trained with the base model tiny@1, and model is other@2; set model"):
        fitting(folder, TENSORS, replace(TOLD, base="other@2"))


def test_another_encoder_is_named(folder):
    with pytest.raises(ConfigError, match=r"trained with the encoder hashed@1:3, and encoder is minilm"):
        fitting(folder, TENSORS, replace(TOLD, encoder="minilm"))


@pytest.mark.parametrize(
    ("name", "mine", "message"),
    [
        ("lora_alpha", 8, "the lora_alpha 4, and method.lora_alpha is 8; set method.lora_alpha to that one"),
        ("lora_rank", 3, "the lora_rank 2, and method.lora_rank is 3"),
        ("projector", "mlp", "the projector linear, and method.projector is mlp"),
        ("soft_tokens", 0, "the soft_tokens 1, and method.soft_tokens is 0"),
        ("targets", ("q", "k"), "the layers q, and method.lora_targets is k q"),
    ],
)
def test_parts_of_another_kind_are_named_even_where_their_shapes_agree(folder, name, mine, message):
    with pytest.raises(ConfigError, match=message):
        fitting(folder, TENSORS, replace(TOLD, settings={**SETTINGS, name: mine}))


def test_another_pooling_is_named_and_the_dropout_is_free(folder):
    with pytest.raises(ConfigError, match=r"the pooling mean, and method.pooling is concat"):
        fitting(folder, TENSORS, replace(TOLD, pooling="concat"))
    fitting(folder, TENSORS, replace(TOLD, settings={**SETTINGS, "lora_dropout": 0.5}))


def test_an_encoder_of_another_width_is_named(folder):
    own = {**TENSORS, "projector.layers.weight": torch.ones(2, 4)}
    with pytest.raises(ConfigError, match=r"projector.layers.weight has shape \(2, 3\), expected \(2, 4\)"):
        fitting(folder, own, TOLD)


def test_a_renamed_key_is_named_on_both_sides(folder):
    tensors = load_file(folder / "soft_prompt.safetensors")
    tensors["adapter.k.lora_A.weight"] = tensors.pop("adapter.q.lora_A.weight")
    save_file(tensors, folder / "soft_prompt.safetensors")
    reseal(folder)
    message = r"missing weights \['adapter.q.lora_A.weight'\], extra weights \['adapter.k.lora_A.weight'\]"
    with pytest.raises(DataError, match=message):
        fitting(folder, TENSORS, TOLD)


def test_weights_that_were_replaced_or_cut_are_refused(folder):
    file = folder / "soft_prompt.safetensors"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(DataError, match="damaged or replaced"):
        read_policy(folder)
    reseal(folder)
    with pytest.raises(DataError, match="not a safetensors file"):
        read_policy(folder)


def test_a_folder_without_a_checkpoint_and_a_strange_description(folder, tmp_path):
    with pytest.raises(DataError, match=r"can't be read.*expected a folder with soft_prompt.safetensors"):
        read_policy(tmp_path / "nowhere")
    (folder / "soft_prompt.json").write_text("[]")
    with pytest.raises(DataError, match=r"missing \['base', 'beta'"):
        read_policy(folder)
    (folder / "soft_prompt.json").write_text("{")
    with pytest.raises(DataError, match="is not json"):
        read_policy(folder)
