"""A multirun's records and its table."""

import csv
import json
import math
from types import SimpleNamespace

import pytest

from apm_lab.errors import ConfigError
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


def end(folder):
    config = SimpleNamespace(hydra=SimpleNamespace(sweep=SimpleNamespace(dir=str(folder))))
    sweep.SweepSummary().on_multirun_end(config)
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
    end(tmp_path)
    assert sweep.exit_code() == 1
    assert "KeyError: 'lost'" in (tmp_path / "0" / "traceback.txt").read_text()
    assert json.loads((tmp_path / "0" / "job.json").read_text())["message"] == "KeyError: 'lost'"


def test_the_next_multirun_of_a_process_begins_without_failures(tmp_path):
    job(tmp_path, 0, ["seed=1"], failing(ConfigError("no")))
    end(tmp_path)
    sweep.begin()
    assert sweep.exit_code() == 0


def test_no_job_no_table(tmp_path):
    config = SimpleNamespace(hydra=SimpleNamespace(sweep=SimpleNamespace(dir=str(tmp_path))))
    sweep.SweepSummary().on_multirun_end(config)
    assert list(tmp_path.iterdir()) == []


def test_a_void_job_is_called_void(tmp_path, capsys):
    figures = {**FIGURES, "test/void": 1.0}
    job(tmp_path, 0, ["seed=1"], lambda: Outcome("done", tmp_path, figures))
    (row,) = end(tmp_path)
    assert float(row["void"]) == 1.0
    assert "done, VOID" in capsys.readouterr().out
