"""Figures of audits as files: after a run, again by `report`, of several models together; none stops a run."""

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
from toy_audit import TOY_AUDIT, write_toys

from apm_lab.experiment.cli import main
from apm_lab.experiment.figures_written import write_figures
from apm_lab.experiment.finished_audits import print_audits
from apm_lab.report.perspectives import figures
from apm_lab.report.perspectives.across import ModelAudit

OPINIONS = {"ranks", "alignment", "temperature"}
STEERED = {"steering_spread", "steering_ranks", "steering_gain"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    write_toys(tmp_path)
    (tmp_path / "options/reward_model/other.yaml").write_text(
        (tmp_path / "options/reward_model/toy.yaml").read_text().replace("ToyRewards}", "ToyRewards, slope: 0.3}")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def audit(*words):
    assert main([*TOY_AUDIT, *words]) == 0
    return max(Path("outputs/perspectives").glob("*/*"), key=lambda each: each.stat().st_mtime_ns)


def drawn(folder):
    files = list(folder.iterdir()) if folder.is_dir() else []
    assert all(file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for file in files)
    return {file.stem for file in files}


def test_a_run_leaves_its_figures_and_report_draws_them_again(capfd):
    run = audit("steering=all", "steering.traits=[SEX,AGE]", "study.format_questions=1")
    assert drawn(run / "figures") == OPINIONS | STEERED | {"formats"}
    assert "figures: outputs/perspectives/" in capfd.readouterr().out.replace("\n", "")
    before = {file.name: file.read_bytes() for file in (run / "figures").iterdir()}
    for file in (run / "figures").iterdir():
        file.unlink()
    assert main(["report", str(run)]) == 0
    assert {file.name: file.read_bytes() for file in (run / "figures").iterdir()} == before


@pytest.mark.parametrize(
    ("dataset", "names"),
    [
        ("toy_bbq", {"bbq_confusion", "bbq_correct", "bbq_bias"}),
        ("toy_stereoset", {"stereoset_shares", "stereoset_terms"}),
    ],
)
def test_data_about_stereotypes(dataset, names):
    assert drawn(audit(f"dataset={dataset}") / "figures") == names


@pytest.mark.slow
def test_several_models_are_drawn_together(folder):
    runs = [audit(), audit("reward_model=other")]
    console = Console(file=StringIO(), width=200)
    print_audits(console, runs, folder / "out")
    together = {"ranks_by_model", "models_alignment", "models_spearman"}
    assert drawn(folder / "out/across/figures") == OPINIONS | together
    assert f"figures: {folder / 'out/across/figures'} (6)" in console.file.getvalue()
    print_audits(console, runs)
    assert not (folder / "across").exists()


def test_a_fault_in_drawing_is_one_line_and_the_run_stands(monkeypatch, capfd):
    kept = figures.opinion_drawings

    def with_a_fault(subject):
        for name, drawing in kept(subject):
            yield name, (lambda: 1 / 0) if name == "ranks" else drawing

    monkeypatch.setattr(figures, "opinion_drawings", with_a_fault)
    run = audit()
    assert drawn(run / "figures") == OPINIONS - {"ranks"}
    said = capfd.readouterr()
    assert "not drawn: ranks: ZeroDivisionError: division by zero" in said.out
    assert "Traceback" not in said.out + said.err
    assert main(TOY_AUDIT) == 0 and "skipped: this run is done already" in capfd.readouterr().out


def test_a_folder_that_cannot_be_written_is_one_line(folder):
    (folder / "figures").write_text("no folder")
    console = Console(file=StringIO(), width=300)
    rows = [{"temperature": 1.0, "everybody": 0.5, "mean": 0.5, "spearman": 1.0}]
    assert write_figures(console, folder / "figures", [ModelAudit("toy", None, {"temperature": rows})], "toys") == []
    said = console.file.getvalue()
    assert said.count("\n") == 1 and said.startswith("not drawn: temperature: ")


def test_tables_of_another_version_are_one_line(folder):
    console = Console(file=StringIO(), width=300)
    audits = [ModelAudit("toy", None, {"temperature": [{"of": "another version"}], "formats": [{"question": "Q"}]})]
    assert write_figures(console, folder / "figures", audits, "toys") == []
    assert console.file.getvalue().startswith("not drawn: ")
