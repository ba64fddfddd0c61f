"""W&B sweep files: every trial composes, and one runs for real through W&B's own agent code with no server."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from apm_lab.experiment.arguments import forced
from apm_lab.experiment.config_folder import config_folder
from apm_lab.experiment.preflight import require_sound

FILES = sorted((Path(__file__).parents[1] / "sweeps").glob("*.yaml"))


def trials(sweep):
    names = list(sweep["parameters"])
    for values in itertools.product(*(sweep["parameters"][name]["values"] for name in names)):
        yield dict(zip(names, values, strict=True))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_trial_passes_the_preflight(file):
    sweep = yaml.safe_load(file.read_text())
    assert sweep["command"][2:] == ["-m", "apm_lab", "${args_no_hyphens}"]
    found = list(trials(sweep))
    assert len(found) == 60
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        for trial in found[:: len(found) // 12]:
            overrides = forced([f"{name}={value}" for name, value in trial.items()])
            require_sound(OmegaConf.to_container(compose("config", overrides), resolve=True))


AGENT = """
import json, queue, sys
from wandb.wandb_agent import Agent
agent = Agent(api=None, queue=queue.Queue(), sweep_id="abc123", in_jupyter=False)
agent._sweep_command = json.loads(sys.argv[1])
arguments = {"pool.size": {"value": 2}, "users.turns": {"value": 1}, "users.train": {"value": 50}}
agent._process_command({"type": "run", "id": "1", "run_id": "trial1", "program": "apm_lab", "args": arguments})
agent._run_processes["trial1"].wait()
"""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_trial_runs_through_the_agents_own_code(file, tmp_path):
    # W&B would start `python`; here the interpreter that runs the tests stands in for it, and the run is a small one.
    parts = yaml.safe_load(file.read_text())["command"]
    command = [sys.executable if part == "${interpreter}" else part for part in parts]
    command += ["+scale=smoke", "router=ngrams"]
    # In a process of its own: the agent leaves traces in the environment.
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SWEEP_ID": "abc123", "OMP_NUM_THREADS": "1"}
    agent = [sys.executable, "-c", AGENT, json.dumps(command)]
    done = subprocess.run(agent, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (results,) = (tmp_path / "outputs" / "personalization").rglob("results.parquet")
    assert pq.read_table(results).num_rows > 0
    (mirrored,) = results.parent.rglob("*.wandb")
    assert "trial1" in mirrored.name
