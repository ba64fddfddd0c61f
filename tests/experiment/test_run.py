"""Runs through the command line: skipped, continued, shared between jobs, and their failures kept apart."""

import json
import os
import re
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

SMALL = ["+scale=smoke", "router=ngrams", "logger=csv"]


def launch(folder, arguments):
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    command = [sys.executable, "-m", "apm_lab", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(folder, *arguments, code=0):
    process = launch(folder, [*SMALL, *arguments])
    out, err = process.communicate()
    assert process.returncode == code, err[-2000:]
    return out


def folder_of(folder, out):
    return folder / re.search(r"^results: (\S+)", out, re.MULTILINE)[1]


def manifest(folder, out):
    return json.loads((folder_of(folder, out) / "manifest.json").read_text())


def rows(run_folder):
    return pq.read_table(run_folder / "results.parquet").to_pylist()


def test_an_interrupted_run_continues_to_the_same_results(tmp_path):
    done = folder_of(tmp_path, run(tmp_path))
    expected = pq.read_table(done / "results.parquet")
    (claim,) = [file for file in (tmp_path / "outputs" / ".claims").iterdir() if file.suffix != ".lock"]
    content = json.loads(claim.read_text())
    claim.write_text(json.dumps({**content, "state": "running", "pid": 2**22 + 1}))  # its owner is dead
    for name in ("manifest.json", "results.parquet", "users.parquet", "parts/draw-0001.npz"):
        (done / name).unlink()
    (done / "parts" / "draw-0000.npz").write_bytes(b"PK half a file")
    out = run(tmp_path)
    assert "continuing the run that was interrupted" in out
    assert folder_of(tmp_path, out) == done
    assert pq.read_table(done / "results.parquet").equals(expected)


def test_further_labels_and_mappings_pay_only_for_what_is_new(tmp_path):
    first = manifest(tmp_path, run(tmp_path))
    assert all(count["made"] > 0 for count in first["calls"].values())
    for label in ("two_sided", "one_sided", "regression"):
        again = manifest(tmp_path, run(tmp_path, f"method.label={label}"))
        assert {role: count["made"] for role, count in again["calls"].items()} == dict.fromkeys(again["calls"], 0)
    gaussian = manifest(tmp_path, run(tmp_path, "mapping=gaussian"))
    assert all(gaussian["calls"][role]["made"] == 0 for role in ("rewriter", "generator", "model"))
    # Under a Gaussian mapping every user weighs all three principles; what the permutations weighed is there already.
    texts = {"train candidates": 60 * 2 * 6, "validation candidates": 12 * 2 * 6, "test responses": 40 * 8}
    for stage, count in texts.items():
        made = [found["stages"][f"{stage} judged"]["judge"] for found in (first, gaussian)]
        assert sum(made) == 3 * count
        assert 0 < made[1] < count * 3


def test_a_multirun_ends_with_one_table_and_shares_the_store(tmp_path):
    out = run(tmp_path, "method=routing,routing_oracle", "mapping=signed_permutation,gaussian", "-m")
    assert "4 jobs" in out
    (summary,) = (tmp_path / "outputs" / "multirun").rglob("summary.csv")
    assert len(summary.read_text().splitlines()) == 5
    assert out.count("done") >= 4


def test_a_failed_job_takes_no_other_with_it(tmp_path):
    out = run(tmp_path, "users.active=1,9,2", "-m", code=2)
    assert "3 jobs" in out
    jobs = [json.loads(file.read_text()) for file in (tmp_path / "outputs" / "multirun").rglob("job.json")]
    assert sorted(job["state"] for job in jobs) == ["done", "done", "failed"]
    (failed,) = [job for job in jobs if job["state"] == "failed"]
    assert "users.active=9" in failed["message"]
    assert failed["message"].splitlines()[0] in out


def test_six_launches_at_once_are_one_run(tmp_path):
    processes = [launch(tmp_path, SMALL) for _ in range(6)]
    outs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * 6, outs
    assert sum("results: " in out for out, _ in outs) == 1
    assert sum("skipped: " in out for out, _ in outs) == 5


def test_two_jobs_on_one_store_at_once(tmp_path):
    processes = [launch(tmp_path, [*SMALL, f"method.label={label}"]) for label in ("margin", "regression")]
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err
    alone = tmp_path / "alone"
    alone.mkdir()
    expected = rows(folder_of(alone, run(alone)))
    found = next(
        file.parent
        for file in (tmp_path / "outputs" / "personalization").rglob("manifest.json")
        if "method.label=margin" in json.loads(file.read_text())["overrides"]
    )
    assert rows(found) == expected


@pytest.mark.parametrize(
    "most_bytes", [pytest.param(2_000, marks=pytest.mark.slow), 40_000, pytest.param(300_000, marks=pytest.mark.slow)]
)
def test_a_full_disk_is_one_message_and_the_run_continues(tmp_path, most_bytes):
    """No file may grow beyond `most_bytes`, which the system reports like a full disk."""
    arguments = " ".join(SMALL)
    script = f"ulimit -f {most_bytes // 1000}; exec {sys.executable} -m apm_lab {arguments}"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") == 1
    assert "free space" in done.stderr
    assert not list(tmp_path.rglob("manifest.json"))
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert rows(folder_of(tmp_path, run(tmp_path))) == rows(folder_of(fresh, run(fresh)))


METHOD = """
from apm_lab.records import Response
class Toy:
    def __init__(self, text: str = "Let us work on it together.") -> None:
        self.text = text
    def fit(self, view):
        self.users = len(view.histories)
    def respond(self, view):
        return [Response(text=self.text)] * len(view.histories)
"""
MAPPING = """
import numpy as np
class Half:
    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift
    def sample(self, rng, M, N):
        return rng.uniform(-1, 1, (M, N)) + self.shift
"""


def plug_in(folder):
    (folder / "toys.py").write_text(METHOD + MAPPING)
    (folder / "prompts.jsonl").write_text("".join(f'{{"text": "What is number {n}?"}}\n' for n in range(40)))
    files = {
        "method/toy.yaml": "_target_: toys.Toy\ntext: We can try it together, as a team.\n",
        "mapping/half.yaml": "_target_: apm_lab.experiment.settings.MappingSettings\n"
        "kind: {_target_: toys.Half, shift: 0.0}\ndraws: 2\ndesign: independent\nnormalise: l2\n",
        "dataset/mine.yaml": "_target_: apm_lab.data.prompts.PromptFile\npath: prompts.jsonl\nnoncommercial: false\n",
    }
    for name, text in files.items():
        path = folder / "options" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return ["--config-dir", "options", "plugins=[toys]"]


def test_a_method_a_mapping_and_a_data_set_of_ones_own(tmp_path):
    out = run(tmp_path, *plug_in(tmp_path), "method=toy", "mapping=half", "dataset=mine")
    found = {row["method"] for row in rows(folder_of(tmp_path, out))}
    assert {"toy", "routing_oracle", "nonpersonalized"} <= found


def test_a_mapping_that_is_not_zero_mean_is_refused(tmp_path):
    process = launch(tmp_path, [*SMALL, *plug_in(tmp_path), "mapping=half", "mapping.kind.shift=0.3"])
    _, err = process.communicate()
    assert process.returncode == 2
    assert "E[C]" in err


def test_a_plug_in_key_is_checked_too(tmp_path):
    process = launch(tmp_path, [*SMALL, *plug_in(tmp_path), "method=toy", "method.txt=hello"])
    _, err = process.communicate()
    assert process.returncode == 2
    assert "method.txt: no such key; did you mean text" in err


@pytest.mark.parametrize(
    "signal_name",
    ["SIGTERM", pytest.param("SIGINT", marks=pytest.mark.slow), pytest.param("SIGKILL", marks=pytest.mark.slow)],
)
def test_a_run_that_was_stopped_continues(tmp_path, signal_name):
    import signal
    import time

    arguments = [*SMALL, "users.train=500", "mapping.draws=4"]
    process = launch(tmp_path, arguments)
    parts = tmp_path / "outputs" / "personalization"
    for _ in range(600):
        if list(parts.rglob("draw-0000.npz")) or process.poll() is not None:
            break
        time.sleep(0.05)
    process.send_signal(getattr(signal, signal_name))
    process.communicate()
    again = launch(tmp_path, arguments)
    out, err = again.communicate()
    assert again.returncode == 0, err
    assert ("continuing" in out) or ("skipped" in out)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    whole = launch(fresh, arguments)
    expected, _ = whole.communicate()
    interrupted = next(parts.rglob("results.parquet"))
    assert pq.read_table(interrupted).equals(pq.read_table(folder_of(fresh, expected) / "results.parquet"))


CHEATS = """
from apm_lab.methods.routing_oracle import RoutingOracle
from apm_lab.records import Response, Style
class Knowing:
    def fit(self, view):
        pass
    def respond(self, view):
        return [Response(style=Style(0, 1))] * len(view.histories)
    def respond_knowing(self, view):
        raise SystemError("a plug-in was shown the truth")
class Heir(RoutingOracle):
    pass
class Short(Knowing):
    def respond(self, view):
        return []
class Nothing(Knowing):
    def respond(self, view):
        return None
"""


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("Knowing", "knowing", None),
        ("Heir", "heir", "is no method"),
        ("Knowing", "random_style", "method=random_style: an arm of the study has this name"),
        ("Knowing", "bayes", "method=bayes: an arm of the study has this name"),
        ("Short", "short", "method short: respond returned 0 responses for 40 test users"),
        ("Nothing", "nothing", "method nothing: respond must return a sequence of Response, found NoneType"),
    ],
)
def test_plug_ins_can_neither_see_the_truth_nor_take_an_arms_name(tmp_path, option, name, message):
    (tmp_path / "cheats.py").write_text(CHEATS)
    folder = tmp_path / "options" / "method"
    folder.mkdir(parents=True)
    (folder / f"{name}.yaml").write_text(f"_target_: cheats.{option}\n")
    process = launch(tmp_path, [*SMALL, "--config-dir", "options", "plugins=[cheats]", f"method={name}"])
    _, err = process.communicate()
    if message is None:
        assert process.returncode == 0, err
    else:
        assert process.returncode == 2
        assert message in err
        assert "Traceback" not in err


def test_an_option_may_leave_out_what_has_a_default(tmp_path):
    (tmp_path / "prompts.jsonl").write_text("".join(f'{{"text": "What is number {n}?"}}\n' for n in range(40)))
    files = {
        "dataset/short.yaml": "_target_: apm_lab.data.prompts.PromptFile\npath: prompts.jsonl\n",
        "mapping/short.yaml": "_target_: apm_lab.experiment.settings.MappingSettings\n"
        "kind: {_target_: apm_lab.maths.mapping.Gaussian}\n",
        "users/short.yaml": "_target_: apm_lab.studies.personalization.UserSettings\nturns: 1\n",
    }
    for name, text in files.items():
        path = tmp_path / "options" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run(tmp_path, "--config-dir", "options", "dataset=short", "mapping=short", "users=short")


def test_a_router_of_another_shape_is_named(tmp_path):
    (tmp_path / "routers.py").write_text(
        "import numpy as np\nclass Narrow:\n    def fit(self, histories, targets, **_):\n        pass\n"
        "    def predict(self, histories):\n        return np.zeros((len(histories), 5))\n"
    )
    option = tmp_path / "options" / "router" / "narrow.yaml"
    option.parent.mkdir(parents=True)
    option.write_text("_target_: routers.Narrow\n")
    process = launch(tmp_path, ["+scale=smoke", "--config-dir", "options", "plugins=[routers]", "router=narrow"])
    _, err = process.communicate()
    assert (process.returncode, "Traceback" in err) == (2, False)
    assert "router Narrow: predict gave (40, 5), expected (U, S) (40, 6)" in err


def test_a_mapping_without_its_settings_is_told_where_its_class_goes(tmp_path):
    arguments = plug_in(tmp_path)
    (tmp_path / "options" / "mapping" / "half.yaml").write_text("_target_: toys.Half\nshift: 0.0\n")
    process = launch(tmp_path, ["router=ngrams", *arguments, "mapping=half"])
    _, err = process.communicate()
    assert (process.returncode, "Traceback" in err) == (2, False)
    assert "mapping._target_=toys.Half: has no kind, draws, " in err
    assert "expected a class with the keys of MappingSettings; a mapping of your own goes into mapping.kind" in err
