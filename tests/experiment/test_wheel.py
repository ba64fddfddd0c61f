"""The wheel carries its configuration and works in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    built, target = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(built), str(ROOT))
    (wheel,) = built.glob("*.whl")
    pip("install", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    return target


def run(site, folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_runs_in_an_empty_folder(site, tmp_path):
    where = run(site, tmp_path, "-c", "import apm_lab; print(apm_lab.__file__)")
    assert Path(where.strip()).is_relative_to(site)
    assert "modernbert_small" in run(site, tmp_path, "-m", "apm_lab", "list", "router")
    assert "SimulatedResponder" in run(site, tmp_path, "-m", "apm_lab", "--cfg", "job")
    assert list(tmp_path.iterdir()) == []
    small = ("+scale=smoke", "router=ngrams", "logger=csv", "pool.size=2", "mapping.draws=1")
    assert "results: outputs" in run(site, tmp_path, "-m", "apm_lab", *small)
