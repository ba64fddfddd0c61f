"""Every command and example of the README runs, at smoke size."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from apm_lab.data.sources.bbq import CATEGORIES
from apm_lab.experiment.cli import main

sys.path.insert(0, str(Path(__file__).parent))
from audit_files import write_bbq, write_opinionqa, write_prism, write_stereoset

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
TABLE = re.findall(r"^\| [^|]+ \| `(.+?)` \|$", TEXT, re.MULTILINE)
EXPERIMENTS = [line for line in TABLE if line.startswith("python -m apm_lab ") and "=" in line]
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("readme")
    rows = [{"text": f"What is the use of number {number}?"} for number in range(60)]
    import gzip

    with gzip.open(path / "prompts.jsonl.gz", "wt") as handle:
        handle.writelines(json.dumps(row) + "\n" for row in rows)
    return path


@pytest.fixture(scope="module")
def audits(tmp_path_factory, tiny, windowed, classifier):
    """Return what the README's audits read, by name: data, and models in place of those that must be fetched."""
    path = tmp_path_factory.mktemp("audits")
    data = {"opinionqa": write_opinionqa(path / "opinionqa"), "stereoset": write_stereoset(path / "stereoset")}
    models = {"tiny": tiny, "other": windowed, "classifier": classifier}
    return {**data, "bbq": write_bbq(path / "bbq", CATEGORIES), "prism": write_prism(path / "prism"), **models}


def audit(words, audits):
    """Return the words of an audit with its folders filled in, and small models."""
    data = next((word.partition("=")[2] for word in words if word.startswith("dataset=")), "opinionqa")
    preset = next((word for word in words if word.startswith("experiment=rmp/")), None)
    if preset is not None:
        data = {"experiment=rmp/fig3": "prism"}[preset]
    elif "study=perspectives" not in words:
        return [*(word.replace("=FOLDER", f"={audits['opinionqa']}") for word in words), "logger=csv"]
    found = []
    for word in words:
        if word.startswith("reward_model.model.path_or_id="):
            found.append(f"reward_model.model.path_or_id={audits['classifier']}")
            continue
        if word.startswith("reward_model=") and "classifier" not in word:
            continue
        found.append(word.replace("dataset.path=FOLDER", f"dataset.path={audits[data]}"))
    if "reward_model=classifier" not in words:
        models = f"{audits['tiny']},{audits['other']}" if "-m" in words or preset else audits["tiny"]
        found += ["reward_model=lm_loglik", f"reward_model.model.path_or_id={models}"]
    return [*found, "logger=csv"]


def run(folder, arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline", "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "apm_lab", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def small(command):
    """Return the command's arguments at smoke size and without an encoder, where it does not say otherwise."""
    words = command.split()[3:]
    # Weights on the hub or of `make offline-models`, an endpoint of one's own, a model that is trained first.
    elsewhere = {"router=modernbert_base", "model=openai", "judge=smollm2_pmi"}
    elsewhere |= {"experiment=real_tiny", "experiment=simulated_lm"}
    if elsewhere & set(words):
        return [*words, "--cfg", "job"]
    if words[0] == "leaks":
        return [*words, "router=ngrams"]
    extra = [] if "scale" in command else ["+scale=smoke"]
    if "router" not in command and words[0] != "method=routing_oracle":
        extra.append("router=ngrams")
    if "scale=paper" in command:
        extra += ["users.train=40", "users.test=20", "mapping.draws=1"]
    if "logger" not in command:
        extra.append("logger=csv")
    return [*words, *extra]


def test_the_table_is_found():
    assert len(EXPERIMENTS) >= 11
    assert any("-m" in command.split() for command in EXPERIMENTS)


AUDITS = [command for command in EXPERIMENTS if "FOLDER" in command and "=FOLDER" in command]


@pytest.mark.parametrize("command", AUDITS)
def test_audit(command, audits, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    words = audit(command.split()[3:], audits)
    extra = (
        ["+scale=smoke", "router=ngrams", "users.train=12", "users.test=6"] if "callbacks=alignment" in words else []
    )
    assert main([*words, *extra]) == 0
    out = capfd.readouterr().out
    assert re.search(r"^results: |^2 jobs|^plan: 1 run", out, re.MULTILINE), out


@pytest.mark.parametrize("command", [command for command in EXPERIMENTS if command not in AUDITS])
def test_example(folder, command, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert main(small(command)) == 0, capfd.readouterr().err[-2000:]
    out = capfd.readouterr().out
    ended = r"^results: |^skipped: this run is done|^ *router:|^\d+ jobs|: no leak|^plan: 1 run"
    assert re.search(ended, out, re.MULTILINE), out


def test_verbs(folder):
    out = run(folder, ["+scale=smoke", "method=routing_oracle", "logger=csv", "seed=7"])
    done = re.search(r"^results: (\S+)", out, re.MULTILINE)[1]
    assert "routing_oracle" in run(folder, ["report", done])
    assert "texts" in run(folder, ["store"])
    pairs = run(folder, ["pairs", "export", "pairs.jsonl", "+scale=smoke", "router=ngrams", "seed=7"])
    assert "pairs of draw 0, format=trl" in pairs
    assert "modernbert_small" in run(folder, ["list", "router"])
    assert "config groups" in run(folder, ["--help"])


def test_the_plain_sweep_of_keys_runs(folder):
    command = next(line for line in TEXT.splitlines() if "pool.size=2,4,6" in line)
    arguments = re.search(r"`python -m apm_lab (.+?)`", command)[1].split()
    out = run(folder, [*arguments, "+scale=smoke", "router=ngrams", "logger=csv"])
    assert "6 jobs" in out


def test_the_plug_in_example_runs_as_printed(folder):
    code = next(body for kind, body in BLOCKS if kind == "python")
    config = next(body for kind, body in BLOCKS if kind == "yaml")
    command = next(body for kind, body in BLOCKS if "--config-dir" in body)
    (folder / re.match(r"# (\S+)", code)[1]).write_text(code)
    place = folder / re.match(r"# (\S+)", config)[1]
    place.parent.mkdir(parents=True)
    place.write_text(config)
    out = run(folder, [*command.split()[3:], "+scale=smoke", "logger=csv"])
    assert "always_casual" in out
    proof = re.search(r"`python -m apm_lab (leaks [^`]+always_casual[^`]*)`", TEXT)[1].split()
    assert "method=always_casual: no leak" in run(folder, proof)


@pytest.mark.parametrize("page", [README, *sorted((README.parent / "docs").glob("*.md"))], ids=lambda page: page.name)
def test_options_that_a_page_names_exist(page):
    conf = README.parent / "conf"
    groups = "|".join(folder.name for folder in conf.iterdir() if folder.is_dir())
    named = re.findall(rf"(?<![\w.])({groups})=([\w/,]+)(?![\w/,*])", page.read_text(encoding="utf-8"))
    options = {(group, option) for group, several in named for option in several.split(",") if option}
    missing = {f"{group}={option}" for group, option in options if not (conf / group / f"{option}.yaml").is_file()}
    of_ones_own = {"method=always_casual"}
    assert {name for name in missing - of_ones_own if not name.rpartition("=")[2].isupper()} == set()


def test_files_that_the_readme_names_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert target.startswith("http") or (README.parent / target).exists(), target
