"""Retrieval on the command line."""

import json
import re
from pathlib import Path

import pytest

from apm_lab.experiment.cli import main

SMALL = ["+scale=smoke", "logger=csv", "users.train=24", "users.test=10", "users.validation=0"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments, code=0):
    assert main([*SMALL, *arguments]) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return said.err if code else said.out


def test_a_run_counts_what_its_method_asks_and_another_finds_it(capsys):
    out = run(capsys, "method=rag_summary")
    assert re.search(r"^ rag_summary +[+-]", out, re.MULTILINE)
    (file,) = Path("outputs/personalization").rglob("manifest.json")
    told = json.loads(file.read_text())
    headers, calls = told["store"]["key_headers"], told["calls"]
    assert headers["summariser"][:1] + headers["encoder"][:1] == ["generate", "embed"]
    assert 34 < calls["summariser"]["made"] <= 34 + 2 * 24
    assert calls["encoder"]["made"] <= 34 < calls["encoder"]["asked"]
    assert told["stages"]["mapping draws"]["summariser"] == calls["summariser"]["made"]
    again = run(capsys, "method=rag_summary", "method.neighbours=2")
    assert re.search(r"^ rag_summary +[+-]", again, re.MULTILINE)
    other = next(each for each in Path("outputs/personalization").rglob("manifest.json") if each != file)
    assert json.loads(other.read_text())["calls"]["summariser"]["made"] == 0


def test_a_plan_asks_no_summariser_and_says_what_comes_on_top(capsys):
    out = run(capsys, "plan=true", "method=rag_summary", "summariser=smollm2_135m")
    assert "on top, at most: summariser 82 calls, model 20 calls; and ratings" in " ".join(out.split())


def test_a_budget_holds_the_summariser_back(capsys):
    run(capsys, "method=rag_exemplar")
    said = run(capsys, "method=rag_summary", "budget.calls=5", code=2)
    assert "the next call of the summariser might not fit" in " ".join(said.split())
    assert "summariser 5" in said


def test_a_role_that_a_method_does_not_take_is_not_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("APM_LAB_MODELS", "nothing")
    out = run(capsys, "method=rag_exemplar", "summariser=smollm2_135m")
    assert "rag_exemplar" in out
    said = run(capsys, "method=rag_summary", "summariser=smollm2_135m", code=2)
    assert "make offline-models" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["method.neighbours=0"], "method.neighbours=0: expected at least 1"),
        (["method.neighbours=25"], "rag_exemplar learns; expected at least 25"),
        (["method.pooling=max"], "method.pooling='max': expected mean or concat"),
    ],
)
def test_mistakes_are_one_message(capsys, changes, said):
    assert said in run(capsys, "method=rag_exemplar", *changes, code=2)


def test_every_option_of_the_groups_composes(capsys):
    import apm_lab.experiment.config_folder as folder

    options = {
        group: [str(file.relative_to(root).with_suffix("")) for file in root.rglob("*.yaml")]
        for group in ("summariser", "encoder")
        for root in [Path(str(folder.config_folder())) / group]
    }
    assert sorted(options["summariser"]) == [
        *("batch", "openai", "openai/gpt_oss_120b"),
        *("simulated", "smollm2_135m", "vllm/gpt_oss_120b"),
    ]
    for group, names in options.items():
        for name in names:
            assert main([*SMALL, "method=rag_summary", f"{group}={name}", "--cfg", "job"]) == 0
    assert "SimulatedSummariser" in capsys.readouterr().out


def test_a_batch_of_summaries_stops_the_run_and_a_plan_needs_no_encoder(capsys, monkeypatch):
    batch = ["summariser=batch", "summariser.model=served", "summariser.folder=asked"]
    said = run(capsys, "method=rag_summary", *batch, code=2)
    assert "24 calls of served wait for answers" in " ".join(said.split())
    assert len(Path("asked/calls.jsonl").read_text().splitlines()) == 24  # training users' styles come first
    monkeypatch.setenv("APM_LAB_MODELS", "nothing")
    assert "rag_exemplar: what it asks" in run(capsys, "plan=true", "method=rag_exemplar", "encoder=minilm")
