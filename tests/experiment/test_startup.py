"""The command line answers without loading what only a run needs."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "lightning", "transformers", "torchmetrics", "sklearn", "scipy", "wandb", "pyarrow"}
PROBE = """
import sys
from apm_lab.experiment.cli import main
code = main({arguments!r})
print("LOADED", *sorted({{name.partition(".")[0] for name in sys.modules}}))
raise SystemExit(code)
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["list"], ["list", "router"], ["list", "mappings"], ["--cfg", "job"], ["--version"]]
)
def test_nothing_heavy_is_loaded(arguments, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(arguments=arguments)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.rpartition("LOADED")[2].split())
    assert not loaded & HEAVY
    if arguments != ["--cfg", "job"] and arguments != ["--version"]:
        assert "hydra" not in loaded


def test_the_package_alone_loads_nothing(tmp_path):
    code = "import sys, apm_lab; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & (HEAVY | {"numpy", "hydra", "yaml"})
