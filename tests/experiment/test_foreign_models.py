"""A folder with a model that can't be used is one message; a text that is too long for one that can is told."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch

from apm_lab.data.prompts import read_prompts
from apm_lab.experiment.cli import main
from apm_lab.training.encoder_base import SmallModernBert

SHAPE = SmallModernBert(
    layers=1,
    hidden_size=16,
    heads=2,
    intermediate_size=16,
    local_attention=16,
    global_every=1,
    dropout=0.0,
    embedding_dropout=0.0,
    initializer_range=0.02,
    tokenizer="word",
    vocab_size=300,
    min_frequency=1,
)
SMALL = ["+scale=smoke", "logger=csv", "pool.size=2", "mapping.draws=1", "users.train=12", "users.test=8"]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """The folder of a tiny ModernBERT with its tokenizer."""
    from transformers import PreTrainedTokenizerFast

    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    with torch.random.fork_rng():
        base = SHAPE.build([(prompt.text,) for prompt in read_prompts()[:100]], max_tokens=32)
    base.encoder.save_pretrained(folder)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=base.tokenizer.backend, **names).save_pretrained(folder)
    return folder


def changed(**values):
    def change(folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **values}))

    return change


def written(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def without(pattern):
    return lambda folder: [file.unlink() for file in folder.glob(pattern)]


def cut(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def pickled(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


def with_code(folder):
    changed(model_type="mine", auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})(folder)
    (folder / "own.py").write_text("raise SystemError('foreign code was run')\n")


FAULTS = {
    "without a tokenizer": (without("tokenizer*"), r"router\.pretrained=\S+ has no tokenizer"),
    "with half a tokenizer": (written("tokenizer.json", b"{"), r"router\.pretrained=\S+ has no tokenizer"),
    "with an empty tokenizer": (written("tokenizer.json", b"{}"), r"router\.pretrained=\S+ has no tokenizer"),
    "without weights": (without("model*"), r"router\.pretrained=\S+: .*model\.safetensors"),
    "with cut weights": (cut, r"router\.pretrained=\S+: SafetensorError"),
    "with empty weights": (written("model.safetensors", b""), r"router\.pretrained=\S+: SafetensorError"),
    "with pickled weights": (pickled, r"router\.pretrained=\S+: .*model\.safetensors"),
    "of another shape": (changed(hidden_size=32), r"weights are of another shape than its config\.json says"),
    "with a word for a size": (changed(hidden_size="many"), r"router\.pretrained=\S+: .*hidden_size"),
    "of an unknown kind": (changed(model_type="nope"), r"router\.pretrained=\S+: .*nope"),
    "with code of its own": (with_code, r"router\.pretrained=\S+: "),
    "without a config": (without("config.json"), r"router\.pretrained=\S+: "),
    "with half a config": (written("config.json", b"{"), r"router\.pretrained=\S+: .*config\.json"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_model(name, model, capfd):
    damage, message = FAULTS[name]
    damage(model)
    assert main([*SMALL, "router=modernbert_base", "router.pretrained=model"]) == 2
    shown = capfd.readouterr()
    assert "Traceback" not in shown.err + shown.out
    assert shown.err.count("error: ") == 1
    assert re.search(message, shown.err), shown.err


@pytest.mark.slow
def test_a_text_longer_than_the_context_is_counted_and_told(model):
    command = [sys.executable, "-m", "apm_lab", *SMALL, "router=modernbert_base", "router.pretrained=model"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d+ of \d+ histories are longer than 32 tokens; .*router\.max_tokens", done.stderr)
    assert "results: " in done.stdout
