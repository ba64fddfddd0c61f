"""A trained soft prompt on disk: written whole, read back, and refused by name where it does not fit."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.soft_prompt_checkpoint import PolicyDescription, fitting, read_policy, write_policy

TENSORS = {"projector.layers.weight": torch.ones(2, 3), "adapter.q.lora_A.weight": torch.zeros(2, 2)}
TOLD = PolicyDescription(base="tiny@1", encoder="hashed@1:3", pooling="mean", settings={"width": 3}, beta=0.1)


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
    assert set(fitting(folder, TENSORS, "tiny@1", "hashed@1:3")) == set(TENSORS)


def test_another_base_model_is_named(folder):
    with pytest.raises(ConfigError, match=r"trained with the base model tiny@1, and model is other@2; set model"):
        fitting(folder, TENSORS, "other@2", "hashed@1:3")


def test_another_encoder_is_named(folder):
    with pytest.raises(ConfigError, match=r"trained with the encoder hashed@1:3, and encoder is minilm"):
        fitting(folder, TENSORS, "tiny@1", "minilm")


def test_an_encoder_of_another_width_is_named(folder):
    own = {**TENSORS, "projector.layers.weight": torch.ones(2, 4)}
    with pytest.raises(ConfigError, match=r"projector.layers.weight has shape \(2, 3\), expected \(2, 4\)"):
        fitting(folder, own, "tiny@1", "hashed@1:3")


def test_a_renamed_key_is_named_on_both_sides(folder):
    tensors = load_file(folder / "soft_prompt.safetensors")
    tensors["adapter.k.lora_A.weight"] = tensors.pop("adapter.q.lora_A.weight")
    save_file(tensors, folder / "soft_prompt.safetensors")
    reseal(folder)
    message = r"missing weights \['adapter.q.lora_A.weight'\], extra weights \['adapter.k.lora_A.weight'\]"
    with pytest.raises(DataError, match=message):
        fitting(folder, TENSORS, "tiny@1", "hashed@1:3")


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
