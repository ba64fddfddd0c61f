"""The main job for real at smoke size, with ModernBERT, W&B offline and judged validation."""

import csv
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("smoke")
    environment = {**os.environ, "WANDB_MODE": "offline"}
    command = [sys.executable, "-m", "apm_lab", "+scale=smoke", "callbacks=judging"]
    done = subprocess.run(command, cwd=path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "W&B: " in done.stdout
    (path / "stdout").write_text(done.stdout)
    return path


@pytest.fixture(scope="module")
def run(folder):
    (manifest,) = (folder / "outputs" / "personalization").rglob("manifest.json")
    return manifest.parent


def test_every_arm_has_every_figure(run):
    rows = pq.read_table(run / "results.parquet").to_pylist()
    arms = {row["method"] for row in rows}
    assert arms >= {"routing", "routing[ngrams]", "routing_oracle", "bayes", "nonpersonalized", "shuffled"}
    for arm in arms:
        over_draws = {row["metric"]: row for row in rows if row["method"] == arm and row["draw"] is None}
        styled = set() if arm == "nonpersonalized" else {"accuracy"}
        assert set(over_draws) == {"delta", "wl", "log_wl", "win_rate"} | styled
        assert over_draws["delta"]["low"] <= over_draws["delta"]["value"] <= over_draws["delta"]["high"]
    oracle = next(row for row in rows if row["method"] == "routing_oracle" and row["metric"] == "accuracy")
    assert oracle["value"] == 1.0


def test_rewards_in_the_users_table_give_the_printed_delta(run):
    users = pq.read_table(run / "users.parquet").to_pylist()
    results = pq.read_table(run / "results.parquet").to_pylist()
    for draw in (0, 1):
        gains = [row["reward"] - row["neutral"] for row in users if (row["method"], row["draw"]) == ("routing", draw)]
        wanted = ("routing", "delta", draw)
        printed = next(row for row in results if (row["method"], row["metric"], row["draw"]) == wanted)
        assert printed["value"] == pytest.approx(sum(gains) / len(gains))
        assert printed["n"] == len(gains) == 40


def test_training_figures_are_logged_per_draw(run):
    with (run / "metrics.csv").open() as handle:
        names = {row["name"] for row in csv.DictReader(handle)}
    for draw in (0, 1):
        assert {
            f"routing/draw{draw}/{name}" for name in ("train/loss", "val/delta", "val/wl", "val/judged_delta")
        } <= names


def test_the_same_command_skips(folder):
    command = [sys.executable, "-m", "apm_lab", "+scale=smoke", "callbacks=judging", "logger=csv"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("skipped: this run is done already")
