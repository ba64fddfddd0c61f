"""Every preset of a figure or table runs at smoke size and leaves the file that its comment names.

Router, reward models and data are small ones: what is tested is that the whole command works.
"""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from audit_files import write_bbq, write_opinionqa, write_prism, write_stereoset

from apm_lab.data.sources.bbq import CATEGORIES
from apm_lab.experiment.cli import main
from apm_lab.experiment.config_folder import config_folder

pytestmark = pytest.mark.slow
FOLDER = config_folder() / "experiment"
PRESETS = sorted(
    file.relative_to(FOLDER).with_suffix("").as_posix()
    for paper in ("apm", "rmp")
    for file in (FOLDER / paper).glob("*.yaml")
    if file.stem != "soft_prompt"  # needs weights that can be trained: tests/experiment/test_soft_prompt_run.py
)
OTHER_SIZE = {
    "apm/table2a": ["users.train=40,60"],  # what the grid varies is the size
    "rmp/fig19": ["study.most_questions=200"],  # groups of few items have no rank
    "rmp/fig20": ["study.most_questions=200"],
}
CONTENTIOUS = "Pew_American_Trends_Panel_disagreement_500"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Return one folder for all presets, so that figures of the same runs find them done."""
    return tmp_path_factory.mktemp("presets")


@pytest.fixture(scope="module")
def data(here):
    folders = {
        "opinionqa": write_opinionqa(here / CONTENTIOUS, 30, ("AUTOLKLY_W41",)),
        "prism": write_prism(here / "prism"),
        "bbq": write_bbq(here / "bbq", CATEGORIES, 30),
        "stereoset": write_stereoset(here / "stereoset", 150),
    }
    return {name: f"dataset.path={folder}" for name, folder in folders.items()}


def told(preset):
    """Return a preset's text with those that it is made of."""
    text = (FOLDER / f"{preset}.yaml").read_text()
    return text + "".join(told(base) for base in re.findall(r"^  - (rmp/\w+)$", text, re.MULTILINE))


def replaced(text, data, tiny, windowed):
    """Return the overrides that give an audit preset small data and small models, one or two of them."""
    (source,) = set(re.findall(r"override /dataset: (\w+)", text))
    models = f"{tiny},{windowed}" if "params:" in text else tiny
    return [data[source], "reward_model=lm_loglik", f"reward_model.model.path_or_id={models}"]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_leaves_its_figure_or_table(preset, here, data, tiny, windowed, capfd, monkeypatch):
    monkeypatch.chdir(here)
    text = told(preset)
    small = ["router=ngrams"] if preset.startswith("apm/") else replaced(text, data, tiny, windowed)
    assert main([f"experiment={preset}", "+scale=smoke", "logger=csv", *small, *OTHER_SIZE.get(preset, [])]) == 0
    out = capfd.readouterr().out
    done = re.findall(r"^(?:results:|skipped: this run is done already, its results are in) (\S+)", out, re.MULTILINE)
    whole = re.findall(r"^summary: (\S+)/summary\.csv", out, re.MULTILINE)
    named = re.findall(r"summary\.csv|across/\S+\.(?:png|parquet)|tables/\w+\.csv", text.splitlines()[1])
    for name in named:
        places = done if name.startswith("tables/") else whole
        assert places and all((here / place / name).stat().st_size > 0 for place in places), name
