"""W&B sweep files: every trial composes, and some run for real through W&B's own agent code with no server."""

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

from apm_lab.errors import ConfigError
from apm_lab.experiment.arguments import forced
from apm_lab.experiment.config_folder import config_folder
from apm_lab.experiment.identity import run_identity
from apm_lab.experiment.preflight import require_sound

FILES = sorted((Path(__file__).parents[1] / "sweeps").glob("*.yaml"))


def trials(sweep):
    names = list(sweep["parameters"])
    for values in itertools.product(*(sweep["parameters"][name]["values"] for name in names)):
        yield dict(zip(names, values, strict=True))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_trial_is_a_sound_run_of_its_own(file):
    sweep = yaml.safe_load(file.read_text())
    assert sweep["command"][2:] == ["-m", "apm_lab", "${args_no_hyphens}"]
    found = list(trials(sweep))
    assert len(found) == 60
    identities = set()
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        for trial in found:
            composed = compose("config", forced([f"{name}={value}" for name, value in trial.items()]))
            config = OmegaConf.to_container(composed, resolve=True)
            require_sound(config)
            assert {name: OmegaConf.select(composed, name) for name in trial} == trial
            identities.add(run_identity(config, "data"))
    assert len(identities) == 60


def test_a_trial_that_can_not_run_is_found():
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = OmegaConf.to_container(compose("config", forced(["pool.size=11"])), resolve=True)
    with pytest.raises(ConfigError, match=r"pool\.size=11"):
        require_sound(config)


# What W&B's server would hand to the agent; the exit code of each trial's process is printed last.
AGENT = """
import json, queue, sys
from wandb.wandb_agent import Agent
command, trials = map(json.loads, sys.argv[1:])
agent = Agent(api=None, queue=queue.Queue(), sweep_id="abc123", in_jupyter=False)
agent._sweep_command = command
codes = {}
for run, values in trials.items():
    arguments = {name: {"value": value} for name, value in values.items()}
    agent._process_command({"type": "run", "id": run, "run_id": run, "program": "apm_lab", "args": arguments})
    codes[run] = agent._run_processes[run].wait()
print(json.dumps(codes))
"""
SMALL = {"users.train": 40}  # the grid's own sizes are for an afternoon
TRIALS = {
    "trial1": {"pool.size": 2, "users.turns": 1, **SMALL},
    "trial2": {"pool.size": 4, "users.turns": 2, **SMALL},
    "trial3": {"pool.size": 11, "users.turns": 1, **SMALL},
}


@pytest.fixture(scope="module", params=FILES, ids=lambda file: file.stem)
def swept(request, tmp_path_factory):
    """Return the sweep, the trials' exit codes and their manifests by W&B run, and what they said."""
    sweep = yaml.safe_load(request.param.read_text())
    folder = tmp_path_factory.mktemp("sweep")
    # W&B would start `python`; here the interpreter that runs the tests stands in for it, and the runs are small ones.
    command = [sys.executable if part == "${interpreter}" else part for part in sweep["command"]]
    command += ["+scale=smoke", "router=ngrams", "study.baseline_router=null"]
    # In a process of its own: the agent leaves traces in the environment.
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SWEEP_ID": "abc123", "OMP_NUM_THREADS": "1"}
    agent = [sys.executable, "-c", AGENT, json.dumps(command), json.dumps(TRIALS)]
    done = subprocess.run(agent, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    manifests = {}
    for file in (folder / "outputs" / "personalization").rglob("manifest.json"):
        (mirrored,) = file.parent.rglob("*.wandb")
        (run,) = (run for run in TRIALS if run in mirrored.name)
        manifests[run] = file.parent, json.loads(file.read_text())
    return sweep, json.loads(done.stdout.splitlines()[-1]), manifests, done.stderr


def test_trials_run_through_the_agents_own_code(swept):
    sweep, codes, manifests, said = swept
    assert (codes["trial1"], codes["trial2"]) == (0, 0), said[-2000:]
    for folder, manifest in (manifests["trial1"], manifests["trial2"]):
        assert pq.read_table(folder / "results.parquet").num_rows > 0
        assert sweep["metric"]["name"] in manifest["figures"]  # what the sweep compares


def test_each_trials_values_stand_in_its_manifest_and_count(swept):
    _, _, manifests, _ = swept
    for run in ("trial1", "trial2"):
        folder, manifest = manifests[run]
        values = TRIALS[run]
        assert {f"{name}={value}" for name, value in values.items()} <= set(manifest["overrides"])
        config = yaml.safe_load((folder / ".hydra" / "config.yaml").read_text())
        assert {f"{group}.{key}": config[group][key] for group, key in (name.split(".") for name in values)} == values
    assert manifests["trial1"][1]["identity"] != manifests["trial2"][1]["identity"]


def test_a_trial_with_a_mistake_ends_with_exit_code_2_and_takes_no_other_with_it(swept):
    _, codes, manifests, said = swept
    assert codes["trial3"] == 2
    assert "pool.size=11" in said
    assert "Traceback" not in said
    assert set(manifests) == {"trial1", "trial2"}
