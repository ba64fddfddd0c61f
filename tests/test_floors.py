"""The house stands: a file imports only from its own floor or from below, and stays small."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "apm_lab"
FLOORS = (
    *("errors", "records", "maths", "data", "language", "judging"),
    *("training", "methods", "studies", "report", "experiment"),
)
OWNERS = {
    "hydra": ("experiment",),
    "omegaconf": ("experiment",),
    "lightning": ("training",),
    "torchmetrics": ("training",),
    "wandb": ("training/trackers.py", "training/credentials.py"),
}
FILES = sorted(SOURCE.rglob("*.py"))


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def floor_of(relative):
    return relative.parts[0].removesuffix(".py")


def breaches(relative, tree):
    """Return the imports that a file at this place under the package may not have."""
    own, found = floor_of(relative), []
    for name in imported(tree):
        parts = name.split(".")
        if parts[0] == "apm_lab" and len(parts) > 1 and own in FLOORS and FLOORS.index(parts[1]) > FLOORS.index(own):
            found.append(name)
        owners = OWNERS.get(parts[0])
        if owners and not any(str(relative).startswith(owner) for owner in owners):
            found.append(name)
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_come_from_the_same_floor_or_below(file):
    assert breaches(file.relative_to(SOURCE), ast.parse(file.read_text())) == []


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("maths/labels.py", "from apm_lab.studies.world import TestSide"),
        ("data/users.py", "import apm_lab.language.recall"),
        ("methods/routing.py", "import lightning"),
        ("studies/world.py", "def f():\n    import omegaconf"),
        ("report/table.py", "import wandb"),
    ],
)
def test_a_planted_breach_is_found(place, line):
    assert breaches(Path(place), ast.parse(line))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_files_and_functions_stay_small(file):
    text = file.read_text()
    assert text.count("\n") <= 300
    assert file.stem not in {"utils", "util", "helpers", "common", "misc"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 60, node.name


def test_no_path_of_any_machine_is_committed():
    stray = re.compile(r"(?<![\w.])/(?:work|tmp|root|home)/[\w.-]+")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        file = ROOT / name
        if file.is_file() and file.suffix in (".py", ".md", ".yaml", ".toml", ".txt", ".cff", ".ipynb", ""):
            found = [line for line in file.read_text().splitlines() if stray.search(line) and not line.startswith("#!")]
            assert found == [], name
