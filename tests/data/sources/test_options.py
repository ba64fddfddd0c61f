"""The options of the group `dataset` that are public data sets: each is its class with the class's own defaults."""

import importlib
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from apm_lab.data.sources.bbq import CATEGORIES, INTERSECTIONAL
from apm_lab.errors import DataError

FOLDER = Path(__file__).parents[3] / "conf/dataset"
DOWNLOADS = {
    "bbq": "nyu-mll/BBQ",
    "bbq_all": "nyu-mll/BBQ",
    "stereoset": "moinnadeem/StereoSet",
    "opinionqa": "0x6fb693719477478aac73fc07db333f69",
    "prism": "HannahKirk/prism-alignment",
}


def option(name):
    values = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    module, _, kind = values.pop("_target_").rpartition(".")
    return getattr(importlib.import_module(module), kind), values


@pytest.mark.parametrize("name", DOWNLOADS)
def test_an_option_without_a_path_says_which_download_it_is(name):
    made, values = option(name)
    with pytest.raises(DataError, match=rf"dataset.path is not set; give dataset.path=FOLDER with .*{DOWNLOADS[name]}"):
        made(**values).read()


@pytest.mark.parametrize("name", DOWNLOADS)
def test_an_option_spells_out_every_default(name):
    made, values = option(name)
    defaults = {each.name: each.default for each in fields(made)}
    assert {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()} == {
        **defaults,
        **({"categories": tuple(sorted((*CATEGORIES, *INTERSECTIONAL)))} if name == "bbq_all" else {}),
    }
