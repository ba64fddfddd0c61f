"""The soft prompt through the program, on a simulated language model that has learnt next to nothing."""

from __future__ import annotations

import json
import re

import pyarrow.parquet as pq
import pytest

from apm_lab.experiment.cli import main
from apm_lab.language.simulated.lm import simulated_lm_folder
from apm_lab.language.simulated.lm_training import make_simulated_lm
from apm_lab.language.soft_prompt_checkpoint import read_policy

SMALL = ["experiment=simulated_lm", "+scale=smoke", "logger=csv", "model.max_tokens=12", "method.epochs=1"]
SMALL += ["users.train=12", "users.test=6", "pool.size=2"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("soft")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("APM_LAB_MODELS", str(folder / "models"))
        patch.chdir(folder)
        make_simulated_lm(simulated_lm_folder(), 160)  # with fewer it may say nothing, which stops a run
        yield folder


@pytest.fixture
def run(capsys):
    def called(*arguments, code=0):
        found = main([*arguments])
        out, error = capsys.readouterr()
        assert found == code, out[-2000:] + error[-2000:]
        assert "Traceback" not in out + error
        return out + error

    return called


def test_a_whole_run_leaves_its_rows_and_a_checkpoint_per_draw(run, place):
    out = run(*SMALL)
    assert "soft_prompt_small on simulated_lm" in out
    folder = place / re.search(r"^results: (\S+)", out, re.MULTILINE)[1]
    rows = pq.read_table(folder / "results.parquet").to_pylist()
    assert {"soft_prompt_small", "nonpersonalized", "routing_oracle", "shuffled"} <= {row["method"] for row in rows}
    files = sorted(folder.glob("checkpoints/**/soft_prompt.safetensors"))
    draws = {row["draw"] for row in rows if row["draw"] is not None}
    assert len(files) == len(draws)
    tensors, told = read_policy(files[0].parent)
    assert told.base.startswith("simulated_lm-")
    assert told.settings["soft_tokens"] == 1
    assert all(name.startswith(("projector.", "adapter.")) for name in tensors)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["calls"]["encoder"]["made"] > 0
    assert "train/loss" in (folder / "metrics.csv").read_text()
    assert "skipped: this run is done already" in run(*SMALL)


def test_it_sees_nothing_hidden(run):
    assert "method=soft_prompt_small: no leak" in run("leaks", *SMALL)


def test_on_a_text_simulator_it_stops_and_names_the_model_that_can_be_trained(run):
    out = run("method=soft_prompt", "+scale=smoke", "logger=csv", code=2)
    assert "take model=simulated_lm" in out


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("method.engine=trl", "set method.soft_tokens=0"),
        ("method.lora_rank=-1", "method.lora_rank is -1, expected at least 0"),
        ("method.projector=cnn", "method.projector='cnn'"),
        ("method.start=nowhere", "can't be read"),
        ("+method.max_tokens=3", "no training user has a pair"),
    ],
)
def test_mistakes_are_one_message(run, override, told):
    out = run(*SMALL, override, code=2)
    assert told in out
