import numpy as np
import pytest
import yaml

from apm_lab.experiment.config_folder import config_folder
from apm_lab.training.encoder_router import EncoderRouter
from apm_lab.training.trainer_settings import TrainerSettings

TINY = {"layers": 1, "hidden_size": 8, "heads": 1, "intermediate_size": 8, "min_frequency": 1, "split_prompts": False}


@pytest.mark.parametrize(("users", "steps"), [(80, 15), (72, 15), (16, 3), (4, 3)])
def test_optimiser_steps_of_the_papers_router(users, steps):
    # Table 5's batch of 4 accumulated 4 times, 3 epochs: 4000 / 16 x 3 = 750 steps for 4000 users, and so 15 for 80;
    # the last step of an epoch takes what is left
    preset = yaml.safe_load((config_folder() / "router" / "modernbert_base.yaml").read_text())
    size = {name: preset[name] for name in ("batch_size", "accumulate", "epochs")}
    assert 4000 * size["epochs"] / (size["batch_size"] * size["accumulate"]) == 750
    taken = []
    EncoderRouter(**TINY, **size, trainer=TrainerSettings(threads=1)).fit(
        [("what is it", "tell me more")] * users,
        np.arange(users) % 2,
        objective="classification",
        styles=2,
        seed=0,
        log=lambda figures: taken.append(figures["step"] + 1),
    )
    assert taken[-1] == steps
