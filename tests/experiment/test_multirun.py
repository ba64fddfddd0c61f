"""Multiruns through the command line: killed in the middle, and given again."""

import csv
import os
import signal
import subprocess
import sys
import time

import pytest

SMALL = ["+scale=smoke", "router=ngrams", "logger=csv", "pool.size=2", "-m"]
GRID = [*SMALL, "seed=1,2,3", "mapping.draws=2"]


def launch(folder, arguments):
    command = [sys.executable, "-m", "apm_lab", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def summaries(folder):
    files = sorted(folder.glob("outputs/multirun/*/*/summary.csv"))
    return [list(csv.DictReader(file.read_text().splitlines())) for file in files]


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_multirun_that_was_stopped_in_its_second_job_continues(tmp_path, number):
    process = launch(tmp_path, GRID)
    for _ in range(1200):
        if len(list(tmp_path.glob("outputs/personalization/*/*/parts/*.npz"))) > 2 or process.poll() is not None:
            break
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate()
    if number == signal.SIGTERM and process.returncode == 130:
        assert "interrupted; the same command continues" in err
        assert "Traceback" not in err
        states = [row["state"] for row in summaries(tmp_path)[0]]
        assert states[0] == "done"
        assert states[-1] == "lost"
        assert "lost: killed or never started" in out
    again = launch(tmp_path, GRID)
    out, err = again.communicate()
    assert again.returncode == 0, err
    rows = summaries(tmp_path)[-1]
    assert {row["state"] for row in rows} <= {"done", "skipped"}
    assert [row["job"] for row in rows] == ["0", "1", "2"]
    assert "skipped: this run is done already" in out


def test_multiruns_begun_at_once_have_a_folder_each(tmp_path):
    arguments = [*SMALL, "users.test=0,-1"]  # faults, which are quick
    processes = [launch(tmp_path, arguments) for _ in range(3)]
    for process in processes:
        process.communicate()
        assert process.returncode == 2
    assert [len(rows) for rows in summaries(tmp_path)] == [2, 2, 2]
