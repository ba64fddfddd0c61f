import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.pickled_weights import convert, main
from apm_lab.language.reward_classifier import RewardClassifier

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from reward_checkpoints import CALLS, llama_shape, rewards_of, save_classifier


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    from transformers import LlamaConfig, LlamaForSequenceClassification

    folder = tmp_path_factory.mktemp("models") / "llama"
    return Path(save_classifier(folder, LlamaForSequenceClassification, LlamaConfig(**llama_shape(), num_labels=1)))


def pickled(classifier, folder, parts):
    """Return a copy with its weights in as many pickles."""
    shutil.copytree(classifier, folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    for part in range(parts):
        file = "pytorch_model.bin" if parts == 1 else f"pytorch_model-{part + 1:05}-of-{parts:05}.bin"
        torch.save({name: tensors[name] for name in names[part::parts]}, folder / file)
    (folder / "pytorch_model.bin.index.json").write_text("{}")
    return folder


@pytest.mark.parametrize("parts", [1, 2])
def test_a_converted_model_gives_the_same_scores(classifier, tmp_path, parts, capsys):
    source = pickled(classifier, tmp_path / "pickled", parts)
    torch.save(object, source / "training_args.bin")  # no weights: it is not opened
    assert main([str(source), str(tmp_path / "converted")]) == 0
    assert "name it as reward_model.model.path_or_id" in capsys.readouterr().out
    files = sorted(file.name for file in (tmp_path / "converted").iterdir())
    assert sum(name.endswith(".safetensors") for name in files) == parts
    assert not [name for name in files if ".bin" in name]
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
    found, expected = (
        rewards_of(RewardClassifier(str(place), "raw", dtype="float32", device="cpu"), CALLS)
        for place in (tmp_path / "converted", classifier)
    )
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


def test_two_names_of_one_tensor_are_both_kept(tmp_path):
    source = tmp_path / "tied"
    source.mkdir()
    one = torch.arange(6.0).reshape(2, 3)
    torch.save({"a": one, "b": one, "c": one.T}, source / "weights.pt")
    (source / "config.json").write_text(json.dumps({"model_type": "llama"}))
    found = load_file(convert(str(source), tmp_path / "converted") / "model.safetensors")
    assert torch.equal(found["a"], one)
    assert torch.equal(found["b"], one)
    assert torch.equal(found["c"], one.T)


def test_a_pickle_that_would_run_code_is_refused(tmp_path, capsys):
    source = tmp_path / "evil"
    source.mkdir()
    torch.save({"a": Path("x")}, source / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"pytorch_model\.bin is damaged, or holds more than tensors"):
        convert(str(source), tmp_path / "converted")
    torch.save([torch.ones(1)], source / "pytorch_model.bin")
    with pytest.raises(DataError, match="holds no tensors by name"):
        convert(str(source), tmp_path / "converted")
    assert not (tmp_path / "converted").exists()
    assert main([str(source), str(tmp_path / "converted")]) == 2
    assert "holds no tensors" in capsys.readouterr().err


def test_user_mistakes_are_named(classifier, tmp_path, capsys):
    with pytest.raises(ConfigError, match="is there already"):
        convert(str(classifier), tmp_path)
    with pytest.raises(ConfigError, match=r"has no pickled weights: expected pytorch_model\*\.bin or \*\.pt"):
        convert(str(classifier), tmp_path / "converted")
    assert main(["one"]) == 2
    assert "usage:" in capsys.readouterr().err
