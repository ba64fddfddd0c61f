"""The options in conf/reward_model: their values fit the class they name."""

import importlib
from pathlib import Path

import pytest
import yaml

from apm_lab.errors import ConfigError
from apm_lab.language.offline_models import OFFLINE_MODELS
from apm_lab.language.reward_model import RewardModel

OPTIONS = Path(__file__).parents[2] / "conf" / "reward_model"
FILES = sorted(OPTIONS.rglob("*.yaml"))
TO_BE_NAMED = ("classifier", "dpo_implicit", "lm_loglik")


def made(file):
    option = yaml.safe_load(file.read_text())
    assert set(option) == {"_target_", "model", "template", "temperature", "standardize"}
    assert (option["temperature"], option["standardize"]) == (1.0, False)
    keys = dict(option["model"])
    module, _, name = keys.pop("_target_").rpartition(".")
    return getattr(importlib.import_module(module), name)(**keys, template=option["template"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(OPTIONS)))
def test_an_option_makes_a_reward_model(file):
    if file.stem in TO_BE_NAMED:
        with pytest.raises(ConfigError, match=r"reward_model\.model\.\w+"):
            made(file)
        return
    model = made(file)
    assert model.name == file.stem
    if "loglik" not in file.stem:
        assert isinstance(model, RewardModel)
        assert "@" in model.identity
        assert "/" in model.identity
    assert file.read_text().startswith("# ")
    assert len(file.read_text().splitlines()) <= 15


def test_the_papers_seven_and_five_of_todays_best_are_there():
    names = {str(file.relative_to(OPTIONS).with_suffix("")) for file in FILES}
    seven = {"beaver_7b", "pairrm", "starling_7b", "ultrarm_13b", "deberta_v3_large", "pythia_1b", "pythia_7b"}
    assert seven <= names
    assert {"smollm2_loglik", "gemma3_loglik", *TO_BE_NAMED} <= names
    assert sum(name.startswith("rewardbench2/") for name in names) == 5
    assert {"smollm2_135m", "gemma3_270m"} <= set(OFFLINE_MODELS)
