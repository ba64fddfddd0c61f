"""Methods side by side: the runs of a multirun that differ in the method only, and runs given by folder."""

import contextlib
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from apm_lab.experiment.cli import main
from apm_lab.experiment.finished_users import read_user_rows
from apm_lab.experiment.run_folder import DrawParts, RunFolder

SMALL = ["+scale=smoke", "router=ngrams", "logger=csv", "pool.size=2", "users.train=24", "users.test=20"]
SWEEP = [*SMALL, "users.active=1,2", "method=routing_oracle,nonpersonalized,routing", "-m"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six runs of a sweep over methods and k, and what it printed."""
    path = tmp_path_factory.mktemp("comparable")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main(SWEEP) == 0
    (path / "out").write_text(out.getvalue())
    return path


@pytest.fixture
def runs(folder, monkeypatch):
    """The runs' folders by method and k."""
    monkeypatch.chdir(folder)
    found = {}
    for file in sorted(Path("outputs/personalization").rglob("manifest.json")):
        content = json.loads(file.read_text())
        k = int(next(word for word in content["overrides"] if "active" in word)[-1])
        found[content["method"], k] = file.parent
    return found


def test_a_sweep_ends_with_its_methods_side_by_side(folder):
    text = (folder / "out").read_text()
    text = text[text.index("summary: ") :]
    first, second = text.split("methods on simulated_qwen27b, users.active=")[1:]
    for part in (first, second):
        lines = [line.split()[0] for line in part.splitlines() if line.startswith(" ") and line.split()]
        assert lines[-3:] == ["nonpersonalized", "routing", "routing_oracle"]
        assert "routing_oracle - routing: Delta " in part
        assert "not adjusted for the number of comparisons" in part
    (file,) = folder.glob("outputs/multirun/*/*/comparison.parquet")
    rows = pq.read_table(file).to_pylist()
    assert {row["group"] for row in rows} == {0, 1}
    assert sum(row["other"] is not None for row in rows) == 6


def test_the_figures_are_those_of_the_single_runs(folder, runs):
    (file,) = folder.glob("outputs/multirun/*/*/comparison.parquet")
    rows = [row for row in pq.read_table(file).to_pylist() if row["other"] is None and row["title"].endswith("=1")]
    assert len(rows) == 4 + 5 + 5
    for row in rows:
        alone = pq.read_table(runs[row["method"], 1] / "results.parquet").to_pylist()
        (same,) = [
            each
            for each in alone
            if (each["method"], each["metric"], each["draw"]) == (row["method"], row["metric"], None)
        ]
        for name in ("value", "low", "high", "sd", "n", "n_missing"):
            assert row[name] == pytest.approx(same[name], nan_ok=True), (row["method"], row["metric"], name)


def test_rows_read_back_are_what_was_judged(runs):
    path = runs["routing", 1]
    rows = read_user_rows(path / "users.parquet", "routing", 2)
    for draw, arm in enumerate(rows.draws):
        kept = DrawParts(RunFolder(path)).load(draw)["routing"]
        for name in ("difference", "known", "styled", "hit", "reward", "neutral"):
            assert np.allclose(getattr(arm, name), getattr(kept, name), atol=1e-12), name
        assert ((arm.difference == 0) == (kept.difference == 0)).all()


def test_the_same_sweep_again_compares_the_runs_that_it_skipped(folder, runs, capsys):
    assert main(SWEEP) == 0
    out = capsys.readouterr().out
    assert out.count("skipped: this run is done already") == 6
    assert out.count("routing - nonpersonalized: Delta ") == 2


def test_report_of_several_folders(runs, capsys):
    assert main(["report", *(str(runs[name, 1]) for name in ("routing", "nonpersonalized"))]) == 0
    out = capsys.readouterr().out
    assert "methods on simulated_qwen27b" in out
    assert "routing - nonpersonalized: Delta " in out
    assert "routing_oracle" not in out


def refused(capsys, *folders):
    assert main(["report", *map(str, folders)]) == 2
    return capsys.readouterr().err


def test_runs_that_were_not_asked_the_same_are_refused_by_name(runs, capsys):
    said = refused(capsys, runs["routing", 1], runs["nonpersonalized", 2])
    assert "users.active is 1 and 2" in said
    assert said.count("\n") == 1
    assert "both of method=routing" in refused(capsys, runs["routing", 1], runs["routing", 1])
    assert "nowhere holds no finished run" in refused(capsys, runs["routing", 1], "nowhere")


def test_another_model_is_named(runs, capsys, folder):
    assert main([*SMALL, "model=simulated_llama8b", "method=routing_oracle", "users.active=1"]) == 0
    other = Path(capsys.readouterr().out.partition("results: ")[2].split(" (")[0])
    said = refused(capsys, runs["routing", 1], other)
    assert "model.name is 'simulated_qwen27b' and 'simulated_llama8b'" in said


def changed(run, folder, **columns):
    """Copy a run and overwrite columns of its users' table."""
    shutil.copytree(run, folder)
    table = pq.read_table(folder / "users.parquet")
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values(table[name].to_pylist())))
    pq.write_table(table, folder / "users.parquet")
    return folder


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": lambda ids: [f"{each}x" for each in ids]}, "the test users"),
        ({"neutral": lambda rewards: [each + 1 for each in rewards]}, "the neutral responses' rewards"),
        ({"draw": lambda draws: [0] * len(draws)}, "not one row of nonpersonalized for every user"),
    ],
)
def test_other_users_and_other_texts_are_told_apart(columns, message, runs, capsys, tmp_path):
    other = changed(runs["nonpersonalized", 1], tmp_path / "other", **columns)
    assert message in refused(capsys, runs["routing", 1], other)


def test_a_missing_reward_is_unknown_and_no_difference(runs, capsys, tmp_path):
    other = changed(
        runs["nonpersonalized", 1],
        tmp_path / "other",
        neutral=lambda rewards: [None, *rewards[1:]],
        reward=lambda rewards: [None, *rewards[1:]],
        method=lambda names: names,
    )
    assert main(["report", str(runs["routing", 1]), str(other)]) == 0
    assert "39 (-1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("users.parquet", b"PAR1 half", "users.parquet can't be read"),
        (".hydra/config.yaml", b"a: [", "config.yaml can't be read"),
        (".hydra/config.yaml", b"- 1", "is no configuration of a run"),
        ("manifest.json", b'{"figures": {}}', "written by another apm_lab, or damaged"),
    ],
)
def test_a_damaged_run_is_named(name, content, message, runs, capsys, tmp_path):
    shutil.copytree(runs["nonpersonalized", 1], tmp_path / "other")
    (tmp_path / "other" / name).write_bytes(content)
    assert message in refused(capsys, runs["routing", 1], tmp_path / "other")


def test_a_table_of_an_older_version_is_named(runs, capsys, tmp_path):
    other = changed(runs["nonpersonalized", 1], tmp_path / "other")
    pq.write_table(pq.read_table(other / "users.parquet").drop_columns("styled"), other / "users.parquet")
    assert "styled" in refused(capsys, runs["routing", 1], other)


def test_a_damaged_run_is_told_and_takes_nothing_from_the_sweep(runs, capsys):
    file = runs["routing", 2] / "users.parquet"
    content = file.read_bytes()
    file.write_bytes(b"PAR1")
    try:
        assert main(SWEEP) == 0
    finally:
        file.write_bytes(content)
    out = capsys.readouterr().out
    assert "6 jobs" in out
    assert f"left out of the comparison: {file} can't be read" in out
    assert out.count("routing - nonpersonalized: Delta ") == 1
    assert out.count("routing_oracle - nonpersonalized: Delta ") == 2


def test_runs_of_one_sweep_that_saw_other_texts_are_not_compared(runs, capsys):
    file = runs["routing", 2] / "users.parquet"
    content = file.read_bytes()
    table = pq.read_table(file)
    other = pa.array([each + 1 for each in table["neutral"].to_pylist()])
    pq.write_table(table.set_column(table.column_names.index("neutral"), "neutral", other), file)
    try:
        assert main(SWEEP) == 0
    finally:
        file.write_bytes(content)
    out = capsys.readouterr().out
    assert "were not asked the same, so their methods can't be compared: the neutral responses' rewards" in out
    assert "users.active=1\n" in out[out.index("summary: ") :].replace(" ", "")
    assert "methods on simulated_qwen27b, users.active=2" not in out


def test_a_router_that_is_varied_too_makes_groups_of_its_own(runs, capsys):
    grid = [*SMALL, "users.active=1", "method=routing,nonpersonalized", "router.longest=1,2", "-m"]
    assert main(grid) == 0
    out = capsys.readouterr().out
    assert out.count("routing - nonpersonalized: Delta ") == 2
    assert "methods on simulated_qwen27b, router.longest=1" in out


def test_a_sweep_of_one_method_prints_no_comparison(runs, capsys):
    assert main([*SMALL, "method=routing", "method.label=margin,two_sided", "-m"]) == 0
    assert "methods on" not in capsys.readouterr().out


@pytest.mark.parametrize(("extra", "size"), [([], (4000, 1000, 0, 10, 10)), (["+scale=smoke"], (60, 40, 12, 3, 2))])
def test_the_preset_has_the_papers_size_and_takes_another(extra, size, capsys):
    assert main(["experiment=apm/table1", *extra, "--cfg", "job"]) == 0
    config = yaml.safe_load(capsys.readouterr().out)
    users = config["users"]
    found = (users["train"], users["test"], users["validation"], config["pool"]["size"], config["mapping"]["draws"])
    assert found == size
