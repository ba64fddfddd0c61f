import json
import shutil
from pathlib import Path

import pytest

from apm_lab.errors import ConfigError
from apm_lab.language import hf_weights
from apm_lab.language.hf import HfModel
from apm_lab.language.hf_weights import identity_of, load_language_model, locate, require_model


@pytest.fixture
def copy(tiny, tmp_path):
    return Path(shutil.copytree(tiny, tmp_path / "model"))


def without(names):
    def change(folder):
        for name in names:
            (folder / name).unlink()

    return change


def cut(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def overwritten(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def indexed(folder):
    text = json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}})
    (folder / "model.safetensors.index.json").write_text(text)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (without(["tokenizer.json"]), "has no tokenizer"),
        (without(["model.safetensors"]), r"has no weights: expected \*.safetensors"),
        (without(["config.json"]), "has no config.json"),
        (cut, "is damaged: it is no whole safetensors file"),
        (overwritten("model.safetensors", b"hello"), "is damaged"),
        (overwritten("model.safetensors", b""), "is damaged"),
        (indexed, "lacks model-00002-of-00002.safetensors, which model.safetensors.index.json lists"),
    ],
)
def test_a_folder_that_lacks_something_is_named_before_anything_is_loaded(copy, damage, said):
    damage(copy)
    with pytest.raises(ConfigError, match=said) as found:
        HfModel(str(copy)).ready()
    assert str(copy) in str(found.value)
    assert "\n" not in str(found.value)


def fewer_layers(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (overwritten("config.json", b"{"), "can't be loaded as a causal language model"),
        (overwritten("config.json", b'{"model_type": "nonesuch"}'), "can't be loaded as a causal language model"),
        (overwritten("tokenizer.json", b"{}"), "can't be loaded as a causal language model"),
        (fewer_layers, "weights do not fit config.json: 9 missing"),
    ],
)
def test_what_shows_only_when_it_is_loaded_is_one_message(copy, damage, said):
    damage(copy)
    with pytest.raises(ConfigError, match=said) as found:
        load_language_model(str(copy), None, "float32", "cpu")
    assert "\n" not in str(found.value)


def test_a_model_that_is_nowhere_is_named_with_the_nearest_or_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("APM_LAB_MODELS", str(tmp_path))
    with pytest.raises(ConfigError, match="did you mean smollm2_135m"):
        locate("smolm2_135m")
    with pytest.raises(ConfigError, match=r"fetch it: make offline-models, or python -m .* smollm2_135m"):
        HfModel("smollm2_135m").ready()
    (tmp_path / "smollm2_135m").mkdir()
    assert locate("smollm2_135m") == str(tmp_path / "smollm2_135m")
    assert locate("org/name") == "org/name"
    with pytest.raises(ConfigError, match="expected a folder"):
        locate("../nowhere")


def test_a_hub_id_is_looked_up_where_the_hub_is_off(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="not in the local hub cache"):
        require_model("no-such-org/no-such-model")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    require_model("no-such-org/no-such-model")


def test_a_folders_identity_is_its_files(copy, monkeypatch, tmp_path):
    def identity():
        hf_weights._folder_digest.cache_clear()
        return identity_of(str(copy))

    first = identity()
    assert first.startswith("model@")
    (copy / "README.md").write_text("words about it")
    assert identity() == first
    weights = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    assert identity() != first
    (copy / "model.safetensors").write_bytes(weights)
    assert identity() == first
    (copy / "generation_config.json").write_text("{}")
    assert identity() != first


def test_the_digest_of_a_large_file_is_kept(copy, monkeypatch, tmp_path):
    monkeypatch.setenv("APM_LAB_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(hf_weights, "_BLOCK", 64)
    hf_weights._folder_digest.cache_clear()
    first = identity_of(str(copy))
    monkeypatch.setattr(hf_weights, "_file_digest", _kept_only(hf_weights._file_digest))
    hf_weights._folder_digest.cache_clear()
    assert identity_of(str(copy)) == first


def _kept_only(real):
    """A digest that may read no weights again."""

    def digest(file):
        class Kept(type(file)):
            def open(self, *given):
                raise AssertionError("read again")

        return real(Kept(file)) if file.suffix == ".safetensors" else real(file)

    return digest
