"""A multirun's records and its table."""

import csv
import json
import math
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from apm_lab.errors import ConfigError, DataError
from apm_lab.experiment import sweep
from apm_lab.experiment.run import Outcome
from apm_lab.report.table import terminal

VALUES = {"delta": 1.5, "delta_low": 1.0, "delta_high": 2.0, "wl": 3.0, "log_wl": 1.1, "win_rate": 0.7, "accuracy": 0.5}
FIGURES = {f"test/{name}": VALUES.get(name, 0.0) for name in sweep._FIGURES}


@pytest.fixture(autouse=True)
def no_failure_before():
    sweep.begin()
    yield
    sweep.begin()


def job(folder, number, overrides, run):
    runtime = SimpleNamespace(output_dir=str(folder / str(number)))
    context = SimpleNamespace(runtime=runtime, job=SimpleNamespace(num=number))
    return sweep.run_one(context, overrides, run, terminal())


def failing(fault):
    def run():
        raise fault

    return run


def begun(folder, overrides=(), sweeper="hydra._internal.core_plugins.basic_sweeper.BasicSweeper", params=None):
    hydra = {
        "sweep": {"dir": str(folder)},
        "sweeper": {"_target_": sweeper, "params": params},
        "overrides": {"task": list(overrides)},
    }
    sweep.SweepSummary().on_multirun_start(OmegaConf.create({"hydra": hydra}))


def end(folder, overrides=("seed=1,2",), **sweeper):
    begun(folder, overrides, **sweeper)
    sweep.conclude()
    with (folder / "summary.csv").open(newline="") as handle:
        return list(csv.DictReader(handle))


def test_figures_and_failures_stand_side_by_side(tmp_path, capsys):
    done = Outcome("done", tmp_path / "a, b", FIGURES)
    same = "plugins=[mine]"
    assert job(tmp_path, 0, [same, "++note=[x,y]"], lambda: done) == 1.5
    assert job(tmp_path, 1, [same, "seed=2"], failing(ConfigError('allow "it" with\nplugins=[os]'))) is None
    assert sweep.exit_code() == 0
    first, second = end(tmp_path)
    assert (first["state"], float(first["delta"]), first["folder"]) == ("done", 1.5, str(tmp_path / "a, b"))
    assert first["overrides"] == "plugins=[mine] ++note=[x,y]"
    assert (second["state"], second["message"]) == ("failed", 'allow "it" with\nplugins=[os]')
    assert math.isnan(float(second["delta"]))
    assert sweep.exit_code() == 2
    shown = capsys.readouterr().out
    assert "job 0: plugins=[mine] ++note=[x,y]" in shown
    table = shown[shown.index("2 jobs") :]
    assert "note=[x,y]" in table  # brackets are no markup
    assert "plugins=[os]" in table
    assert "plugins=[mine]" not in table  # what all jobs share


def test_a_fault_of_ours_is_worse_told_apart_and_keeps_its_traceback(tmp_path):
    job(tmp_path, 0, ["seed=1"], failing(KeyError("lost")))
    end(tmp_path, ["seed=1"])
    assert sweep.exit_code() == 1
    assert "KeyError: 'lost'" in (tmp_path / "0" / "traceback.txt").read_text()
    assert json.loads((tmp_path / "0" / "job.json").read_text())["message"] == "KeyError: 'lost'"


def test_the_next_multirun_of_a_process_begins_without_failures(tmp_path):
    job(tmp_path, 0, ["seed=1"], failing(ConfigError("no")))
    end(tmp_path, ["seed=1"])
    sweep.begin()
    assert sweep.exit_code() == 0


def test_no_job_no_table(tmp_path):
    begun(tmp_path, ["seed=1,2"])
    sweep.conclude()
    assert list(tmp_path.iterdir()) == []
    assert sweep.exit_code() == 1


def test_without_a_multirun_nothing_is_concluded():
    sweep.conclude()
    assert sweep.exit_code() == 0


def test_a_void_job_is_called_void(tmp_path, capsys):
    figures = {**FIGURES, "test/void": 1.0}
    job(tmp_path, 0, ["seed=1"], lambda: Outcome("done", tmp_path, figures))
    (row,) = end(tmp_path, ["seed=1"])
    assert float(row["void"]) == 1.0
    assert "done, VOID" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("overrides", "params"),
    [
        (["seed=1,2", "users.active=1,2"], None),
        (["++seed=range(4)"], None),
        (["++seed=1"], {"seed": "1,2,3", "users.active": "1,2,3,4"}),
        (["method=choice(routing,routing_oracle,nonpersonalized,toy)"], {}),
    ],
)
def test_a_job_that_left_no_record_is_named(overrides, params, tmp_path, capsys):
    job(tmp_path, 0, ["seed=1"], lambda: Outcome("done", tmp_path, FIGURES))
    job(tmp_path, 2, ["seed=2"], lambda: Outcome("done", tmp_path, FIGURES))
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "job.json").write_text('{"number": 1, "stat')
    rows = end(tmp_path, overrides, params=params)
    assert [row["state"] for row in rows] == ["done", "lost", "done", "lost"]
    assert [row["message"] for row in rows if row["state"] == "lost"] == ["killed or never started"] * 2
    assert sweep.exit_code() == 1
    shown = capsys.readouterr().out
    assert "4 jobs" in shown
    assert shown.count("lost: killed or never started") == 2
    assert "job 3 " in shown


def test_another_sweepers_jobs_are_those_that_left_a_record(tmp_path):
    for number in (0, 2):
        job(tmp_path, number, ["seed=1"], lambda: Outcome("done", tmp_path, FIGURES))
    rows = end(tmp_path, ["seed=interval(1,3)"], sweeper="hydra_plugins.other.Sweeper")
    assert [row["state"] for row in rows] == ["done", "lost", "done"]


def test_the_record_of_an_earlier_multirun_in_the_same_folder_counts_for_nothing(tmp_path):
    for number in range(3):
        job(tmp_path, number, ["seed=1"], lambda: Outcome("done", tmp_path, FIGURES))

    def killed():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job(tmp_path, 1, ["seed=2"], killed)
    assert [row["state"] for row in end(tmp_path, ["seed=1,2"])] == ["done", "lost"]


def test_a_record_that_cannot_be_written_ends_no_multirun(tmp_path, capsys, monkeypatch):
    def full(*_):
        raise DataError("job.json can't be written: No space left on device")

    monkeypatch.setattr("apm_lab.experiment.run_folder.RunFolder.write_json", full)
    assert job(tmp_path, 0, ["seed=1"], lambda: Outcome("done", tmp_path, FIGURES)) == 1.5
    assert "job.json can't be written" in capsys.readouterr().out
