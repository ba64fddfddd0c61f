"""What a run leaves behind: checkpoints that load, every figure in a file, flags wherever a figure is shown."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
from test_run import folder_of, launch, run

from apm_lab.data.store import Store
from apm_lab.errors import DataError
from apm_lab.experiment.finished import print_finished
from apm_lab.training.encoder_router import EncoderRouter

SETTINGS = {"layers": 1, "hidden_size": 32, "heads": 2, "intermediate_size": 32, "epochs": 1}
ENCODER = ["router=modernbert_small", *(f"router.{name}={value}" for name, value in SETTINGS.items())]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run whose encoder cuts histories, and what it printed."""
    folder = tmp_path_factory.mktemp("finished")
    out = run(folder, *ENCODER, "router.max_tokens=24")
    return folder_of(folder, out), out


def table(folder, name):
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def test_every_draw_leaves_a_checkpoint_that_loads(finished):
    folder, _ = finished
    for draw in ("draw-0000", "draw-0001"):
        assert [path.name for path in (folder / "checkpoints" / draw).iterdir()] == ["routing"]
        router = EncoderRouter(**SETTINGS, head_init=0.1, max_tokens=24)
        router.load(folder / "checkpoints" / draw / "routing", label="margin")
        assert np.allclose(router.predict([("How do I knit?", "Why?")]).sum(), 1)


def test_checkpoints_can_be_left_out(tmp_path):
    assert not (folder_of(tmp_path, run(tmp_path, *ENCODER, "callbacks.checkpoints=false")) / "checkpoints").exists()


def test_report_prints_what_the_run_printed(finished):
    folder, out = finished
    console = Console(file=io.StringIO(), width=130, highlight=False)
    print_finished(console, folder)
    printed = [line.rstrip() for line in out.splitlines() if not line.startswith("results: ")]
    again = [line.rstrip() for line in console.file.getvalue().splitlines() if not line.startswith("results: ")]
    assert again == printed
    assert any("not significant" in line for line in again)


def test_a_damaged_run_is_named(finished, tmp_path):
    folder, _ = finished
    for name, content in (("manifest.json", "{"), ("manifest.json", "[]"), ("manifest.json", '{"figures": {}}')):
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=r"manifest\.json"):
            print_finished(Console(file=io.StringIO()), tmp_path)
    (tmp_path / "manifest.json").write_text((folder / "manifest.json").read_text())
    with pytest.raises(DataError, match="2 of 2 mapping draws can't be read"):
        print_finished(Console(file=io.StringIO()), tmp_path)


def test_cut_histories_are_counted_and_told(finished):
    folder, out = finished
    cut = [
        row["value"] for row in table(folder, "results") if row["metric"] == "truncated" and row["method"] == "routing"
    ]
    assert len(cut) == 2
    assert min(cut) > 0
    told = "histories, answers or examples cut (to max_tokens or method.context_tokens), over all draws"
    assert f"routing: {sum(cut):.0f} {told}" in out


def test_log_win_loss_and_missing_counts_stand_beside_the_rest(finished):
    folder, _ = finished
    rows = table(folder, "results")
    for draw in (0, 1, None):
        mine = {row["metric"]: row for row in rows if row["draw"] == draw and row["method"] == "routing"}
        assert mine["log_wl"]["low"] <= mine["log_wl"]["value"] <= mine["log_wl"]["high"]
        if draw is not None:
            assert mine["log_wl"]["value"] == pytest.approx(np.log(mine["wl"]["value"]))
            assert sum(mine[name]["value"] for name in ("wins", "losses", "ties")) == mine["delta"]["n"] == 40
            assert mine["wins"]["n_missing"] == 0
    assert not [row for row in rows if row["method"] == "nonpersonalized" and row["metric"] == "accuracy"]


def test_comparisons_are_written(finished):
    folder, out = finished
    rows = {row["other"]: row for row in table(folder, "comparisons")}
    assert {"routing[ngrams]", "constant_style", "routing_oracle"} <= set(rows)
    constant = rows["constant_style"]
    assert constant["low"] < constant["delta"] < constant["high"]
    assert (constant["p"], constant["blocks"], constant["users"]) == (None, 2, 40)
    assert constant["note"] == "sign flips: too few draws"
    assert f"routing - constant_style: Delta {constant['delta']:+.2f}" in out


def test_the_manifest_names_stages_calls_and_store_keys(finished):
    folder, _ = finished
    content = json.loads((folder / "manifest.json").read_text())
    for role in ("rewriter", "generator", "model", "judge"):
        made = sum(stage.get(role, 0) for stage in content["stages"].values())
        assert content["calls"][role]["made"] == made
        assert content["store"]["key_headers"][role][0] == ("score" if role == "judge" else "generate")
    assert content["stages"]["judge health"]["judge"] == content["judge_health"]["n"] == 3 * 24 * 2
    assert content["data"]["licences"] == {"Apache-2.0": 640}
    assert content["resumed"] is False


MUTE = """
from apm_lab.language.simulated.judge import SimulatedJudge
class Deaf(SimulatedJudge):
    @property
    def identity(self):
        return "deaf"
    def score(self, text, questions, keys):
        return [5.0 + (key[0] % 2) for key in keys]
"""


def test_an_unhealthy_judge_is_flagged_wherever_a_figure_stands(tmp_path):
    (tmp_path / "judges.py").write_text(MUTE)
    arguments = ["plugins=[judges]", "judge.model._target_=judges.Deaf", "method=routing_oracle"]
    process = launch(tmp_path, ["+scale=smoke", "logger=csv", "~judge.model.score", *arguments])
    _, err = process.communicate()
    assert process.returncode == 2
    assert "the judge failed its health check" in err
    arguments = [*arguments, "~judge.model.score", "judge.allow_unhealthy=true"]
    out = run(tmp_path, *arguments)
    folder = folder_of(tmp_path, out)
    assert "JUDGE UNHEALTHY" in out
    assert {row["unhealthy"] for row in table(folder, "results")} == {True}
    assert json.loads((folder / "manifest.json").read_text())["figures"]["test/judge_unhealthy"] == 1.0
    assert json.loads((folder / "summary.json").read_text())["test/judge_unhealthy"] == 1.0
    assert "JUDGE UNHEALTHY" in run(tmp_path, *arguments)  # skipped, and says so
    assert "done, JUDGE UNHEALTHY" in run(tmp_path, *arguments, "seed=1,2", "-m").replace("\n", " ")


SOURCE = """
from apm_lab.records import Prompt
class Questions:
    def __init__(self, count: int, kind: str = "prompt") -> None:
        self.count, self.kind = count, kind
    def read(self):
        made = [Prompt(f"What is number {n}?") for n in range(self.count)]
        return {"prompt": made, "text": [p.text for p in made], "empty": [Prompt(" ")]}[self.kind]
"""


def test_a_data_set_is_one_python_file_and_one_option(tmp_path):
    (tmp_path / "sources.py").write_text(SOURCE)
    option = tmp_path / "options" / "dataset" / "questions.yaml"
    option.parent.mkdir(parents=True)
    option.write_text("_target_: sources.Questions\ncount: 40\n")
    arguments = ["--config-dir", "options", "plugins=[sources]", "dataset=questions", "method=nonpersonalized"]
    first = folder_of(tmp_path, run(tmp_path, *arguments))
    assert json.loads((first / "manifest.json").read_text())["data"]["prompts"] == 40
    assert folder_of(tmp_path, run(tmp_path, *arguments, "dataset.count=50")) != first
    for kind, message in (("text", "must return a sequence of apm_lab.records.Prompt"), ("empty", "prompt 0 is ' '")):
        process = launch(tmp_path, ["logger=csv", *arguments, f"dataset.kind={kind}"])
        _, err = process.communicate()
        assert (process.returncode, "Traceback" in err) == (2, False)
        assert message in err


def test_the_baseline_router_may_be_an_option_of_ones_own(tmp_path):
    option = tmp_path / "options" / "router" / "words.yaml"
    option.parent.mkdir(parents=True)
    option.write_text("_target_: apm_lab.methods.ngrams.NgramRouter\nlongest: 1\n")
    out = run(tmp_path, "--config-dir", "options", "study.baseline_router=words")
    assert "routing[words]" in out


LEAKY = """
import gc
from apm_lab.records import Response, Style
from apm_lab.studies.evaluation import Evaluation
class Spy:
    def fit(self, view):
        self.found = [thing for thing in gc.get_objects() if isinstance(thing, Evaluation)]
    def respond(self, view):
        weights = self.found[0].weights[0] if self.found else None
        tops = [0] * len(view.histories) if weights is None else abs(weights).argmax(axis=1).tolist()
        return [Response(style=Style(top, 1)) for top in tops]
"""


def test_the_leaks_verb_proves_methods_of_ones_own(tmp_path):
    (tmp_path / "spies.py").write_text(LEAKY)
    option = tmp_path / "options" / "method" / "spy.yaml"
    option.parent.mkdir(parents=True)
    option.write_text("_target_: spies.Spy\n")
    common = ["leaks", "+scale=smoke", "router=ngrams"]
    process = launch(tmp_path, [*common, "--config-dir", "options", "plugins=[spies]", "method=spy"])
    _, err = process.communicate()
    assert process.returncode == 2, err
    assert "responses change when hidden arrays are overwritten" in err
    assert "reachable: method spy.found[0]: the evaluation" in err
    process = launch(tmp_path, common)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "method=routing: no leak; 40 responses unchanged" in out


@pytest.mark.parametrize(("key", "name"), [("attributes", "verbos"), ("principles", "persuasve")])
def test_what_a_simulated_model_does_not_know_is_refused_before_anything_is_made(tmp_path, key, name):
    others = {"attributes": "principles=[casual]", "principles": "attributes=[verbose]"}[key]
    process = launch(tmp_path, ["+scale=smoke", "logger=csv", f"pool.{key}=[{name}]", f"pool.{others}"])
    _, err = process.communicate()
    assert (process.returncode, "Traceback" in err) == (2, False)
    assert f"pool.{key}: " in err
    assert "did you mean" in err
    assert Store(tmp_path / "outputs" / "store").texts.count() == 0


KEYED = """
from apm_lab.language.simulated.responder import SimulatedResponder
class Keyed(SimulatedResponder):
    def __init__(self, name: str, compliance: float, noise: float, api_key: str) -> None:
        super().__init__(name, compliance, noise)
"""


def test_a_secret_in_the_configuration_is_in_no_file_and_no_part_of_the_run(tmp_path):
    (tmp_path / "models.py").write_text(KEYED)
    arguments = [
        "plugins=[models]",
        "model._target_=models.Keyed",
        "method=routing_oracle",
        "+model.api_key=sk-tell-none",
    ]
    out = run(tmp_path, *arguments, "seed=1,2", "-m")
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "models.py"]
    assert len(files) > 20
    assert [str(file) for file in files if b"sk-tell-none" in file.read_bytes()] == []
    assert "sk-tell-none" not in out
    assert "skipped" in run(tmp_path, *arguments[:-1], "+model.api_key=sk-another", "seed=1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("longest: 1", r"study.baseline_router=words._target_: expected a dotted name"),
        ("_target_: [", "words.yaml, line 1"),
        ("", "words.yaml is empty"),
        ("_target_: apm_lab.methods.ngrams.NgramRouter\nlongst: 1", "longst: no such key; did you mean longest"),
    ],
)
def test_a_broken_baseline_router_is_named(tmp_path, content, message):
    option = tmp_path / "options" / "router" / "words.yaml"
    option.parent.mkdir(parents=True)
    option.write_text(content)
    process = launch(tmp_path, ["+scale=smoke", "--config-dir", "options", "study.baseline_router=words"])
    _, err = process.communicate()
    assert (process.returncode, "Traceback" in err) == (2, False), err
    assert message in err


def test_no_training_users_are_missed_before_the_judge_is_asked(tmp_path):
    process = launch(tmp_path, ["+scale=smoke", "router=ngrams", "logger=csv", "users.train=0"])
    _, err = process.communicate()
    assert process.returncode == 2
    assert "users.train=0: routing learns" in err
    assert Store(tmp_path / "outputs" / "store").scores.count() == 0


JUDGES = """
from apm_lab.language.simulated.judge import SimulatedJudge
class Chooses(SimulatedJudge):
    def __init__(self, score: str) -> None:
        super().__init__(score)
class Fixed(SimulatedJudge):
    def __init__(self) -> None:
        super().__init__("sampled")
"""


def test_how_a_judge_scores_reaches_ones_own_judge_or_is_refused(tmp_path):
    (tmp_path / "own.py").write_text(JUDGES)
    option = tmp_path / "options" / "judge" / "mine.yaml"
    option.parent.mkdir(parents=True)
    for name in ("Chooses", "Fixed"):
        option.write_text(f"_target_: apm_lab.experiment.settings.JudgeSettings\nmodel: {{_target_: own.{name}}}\n")
        arguments = ["--config-dir", "options", "plugins=[own]", "judge=mine", "judge.score=expected"]
        process = launch(tmp_path, ["+scale=smoke", "logger=csv", "method=routing_oracle", *arguments])
        out, err = process.communicate()
        if name == "Fixed":
            assert (process.returncode, "judge.score=expected: own.Fixed takes no score" in err) == (2, True)
        else:
            content = json.loads((folder_of(tmp_path, out) / "manifest.json").read_text())
            assert '{"score": "expected"}' in content["store"]["key_headers"]["judge"]


def test_a_data_set_that_can_not_be_read_is_named(tmp_path):
    (tmp_path / "sources.py").write_text("class Silent:\n    pass\n")
    option = tmp_path / "options" / "dataset" / "silent.yaml"
    option.parent.mkdir(parents=True)
    option.write_text("_target_: sources.Silent\n")
    process = launch(tmp_path, ["+scale=smoke", "--config-dir", "options", "plugins=[sources]", "dataset=silent"])
    _, err = process.communicate()
    assert (process.returncode, "Traceback" in err) == (2, False)
    assert "dataset: sources.Silent is no PromptSource: it has no read" in err


def test_the_leaks_verb_takes_one_method_at_a_time(tmp_path):
    process = launch(tmp_path, ["leaks", "+scale=smoke", "seed=1,2", "-m"])
    _, err = process.communicate()
    assert (process.returncode, err) == (2, "error: leaks proves one method at a time; leave out -m\n")
