import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from apm_lab.errors import ConfigError
from apm_lab.training.callbacks.judging import JudgingCallback
from apm_lab.training.callbacks.scoring import ScoringCallback
from apm_lab.training.validation_set import ValidationSet

RATINGS = np.array([[9.0, 4.0, 5.0], [2.0, 7.0, 100.0], [5.0, 5.0, 5.0], [1.0, 1.0, 7.0]])
KNOWN = np.array([[True, True, True], [True, True, False], [True, True, True], [True, True, True]])
HISTORIES = [("a",)] * 4


def epoch(callback, batches, number=0):
    """Feed one validation epoch of (index, chosen, targets) batches and return what the callback logs."""
    logged = {}
    callback.log = lambda name, value, **_: logged.update({name: float(value)})
    trainer = SimpleNamespace(
        strategy=SimpleNamespace(root_device=torch.device("cpu")), current_epoch=number, world_size=1
    )
    callback.setup(trainer, None, "fit")
    callback.on_validation_epoch_start(trainer, None)
    for index, chosen, targets in batches:
        outputs = {"index": torch.tensor(index), "chosen": torch.tensor(chosen), "targets": torch.tensor(targets)}
        callback.on_validation_batch_end(trainer, None, outputs, {}, 0)
    callback.on_validation_epoch_end(trainer, None)
    return logged


def test_scoring_by_hand():
    callback = ScoringCallback(ValidationSet(HISTORIES, np.array([0, 1, 2, 2]), RATINGS, known=KNOWN))
    # Users 3 and 0, then 2 and 1: +4, +3, a tie, and a choice whose rating is missing.
    logged = epoch(callback, [([3, 0], [2, 0], [2, 0]), ([2, 1], [0, 2], [2, 1])])
    assert logged == pytest.approx(
        {"val/accuracy": 0.5, "val/delta": 7 / 3, "val/win_rate": 2.5 / 3, "val/wl": math.inf}
    )
    # The next epoch starts from nothing: user 0 gets 4 where the mean is 6, the others as before.
    logged = epoch(callback, [([0], [1], [0]), ([3], [2], [2])])
    assert logged == pytest.approx({"val/accuracy": 0.5, "val/delta": 1.0, "val/win_rate": 0.5, "val/wl": 1.0})


def test_regression_has_no_accuracy():
    callback = ScoringCallback(ValidationSet(HISTORIES, RATINGS, RATINGS, known=KNOWN))
    logged = epoch(callback, [([0, 1, 2, 3], [0, 1, 2, 0], RATINGS.tolist())])
    # +3, +2.5, a tie and -2
    assert logged == pytest.approx({"val/delta": 3.5 / 4, "val/win_rate": 2.5 / 4, "val/wl": 2.0})


def test_judging_asks_once_an_epoch_in_user_order():
    asked = []

    def respond(indices, styles):
        asked.append((indices.tolist(), styles.tolist()))
        return np.array([2.0, -1.0, np.nan, 0.0]), np.array([True, True, False, True])

    callback = JudgingCallback(respond, every_n_epochs=2)
    batches = [([3, 0], [2, 0], [2, 0]), ([2, 1], [1, 2], [2, 1])]
    assert epoch(callback, batches, number=0) == {}
    assert asked == []
    logged = epoch(callback, batches, number=1)
    assert asked == [([0, 1, 2, 3], [0, 2, 1, 2])]
    assert logged == pytest.approx({"val/judged_delta": 1 / 3, "val/judged_wl": 1.0})
    with pytest.raises(ConfigError, match="every_n_epochs is 0"):
        JudgingCallback(respond, every_n_epochs=0)
