"""Runs whose roles are real models: tiny random ones here."""

import json
from pathlib import Path

import pytest

from apm_lab.experiment.cli import main

SMALL = ["+scale=smoke", "logger=csv", "router=ngrams", "pool.size=2", "mapping.draws=2", "users.train=12"]
SMALL += ["users.test=8", "users.validation=0", "study.baseline_router=null"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def option(group, name, folder, **values):
    file = Path("mine", group, f"{name}.yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = {"_target_": "apm_lab.language.hf.HfModel", "path_or_id": folder, "dtype": "float32", **values}
    file.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))


def test_one_role_may_be_a_transformers_model(tiny, capsys):
    option("model", "tiny", tiny, max_tokens=8, device="cpu")
    command = ["--config-dir", "mine", *SMALL, "model=tiny", "pool.placement=user"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "nonpersonalized" in said
    (file,) = Path("outputs").rglob("manifest.json")
    manifest = json.loads(file.read_text())
    assert manifest["store"]["key_headers"]["model"][2] == "hf"
    made = manifest["calls"]["model"]
    assert made["made"] == made["asked"] == 8 * (4 + 2)
    assert made["tokens_out"] <= 8 * made["made"]
    assert made["blank"] > 0 and f"model: {made['blank']} of the 48 answers made hold no text" in said
    assert main([*command, "method=routing_oracle"]) == 0  # another method writes nothing anew
    again = [json.loads(file.read_text())["calls"]["model"]["made"] for file in Path("outputs").rglob("manifest.json")]
    assert sorted(again) == [0, 48]


@pytest.mark.parametrize("command", [["experiment=real_tiny"], ["model=smollm2_135m"], ["rewriter=smollm2_135m"]])
def test_a_model_that_is_not_fetched_is_one_message_with_the_command(command, monkeypatch, capsys):
    monkeypatch.setenv("APM_LAB_MODELS", "nothing")
    assert main([*command, "logger=csv"]) == 2
    said = capsys.readouterr().err
    assert "make offline-models" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["model.temperature=-1"], "temperature=-1"),
        (["model.dtype=float16"], "model.dtype='float16': expected auto or float32 or bfloat16"),
        (["model.path_or_id=nowhere/at/all"], "no model at 'nowhere/at/all'"),
        (["model.max_tokens=600"], "more than its context of 512"),
    ],
)
def test_values_that_cannot_work_are_one_message(tiny, changes, said, capsys):
    option("model", "tiny", tiny, max_tokens=8, device="cpu")
    assert main(["--config-dir", "mine", *SMALL, "model=tiny", *changes]) == 2
    assert said in capsys.readouterr().err


def test_a_method_is_handed_the_encoder_it_asks_for(monkeypatch, capsys):
    Path("reads_vectors.py").write_text(
        "from apm_lab.records import Response\n"
        "class Reads:\n"
        "    def __init__(self, encoder): self.encoder = encoder\n"
        "    def fit(self, view): pass\n"
        "    def respond(self, view):\n"
        "        assert self.encoder.embed([text for text in view.queries]).shape == (len(view.queries), 64)\n"
        "        return [Response()] * len(view.histories)\n"
    )
    monkeypatch.syspath_prepend(".")
    Path("mine/method").mkdir(parents=True)
    Path("mine/method/reads.yaml").write_text("_target_: reads_vectors.Reads\n")
    command = ["--config-dir", "mine", "plugins=[reads_vectors]", *SMALL, "method=reads", "encoder.dimensions=64"]
    assert main(command) == 0
    (manifest,) = Path("outputs/personalization").rglob("manifest.json")
    told = json.loads(manifest.read_text())
    assert told["store"]["key_headers"]["encoder"] == ["embed", "hashed@1:64", "simulated"]
    calls = told["calls"]["encoder"]
    assert 0 < calls["made"] <= calls["asked"] / 2  # the second draw's come from the store
    assert calls["bytes_written"] == calls["made"] * 64 * 4
    assert told["stages"]["mapping draws"]["encoder"] == calls["made"]
    monkeypatch.setenv("APM_LAB_MODELS", "nothing")
    assert main([*command[:-1], "encoder=minilm"]) == 2
    assert "make offline-models" in capsys.readouterr().err
