"""Alignment while something is trained: a module of one's own that moves towards people, and one that rates nothing."""

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from apm_lab.errors import ConfigError
from apm_lab.language.reward_model import RewardCall
from apm_lab.training.callbacks.alignment import AlignmentCallback, OpinionProbe

PEOPLE = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
PROBE = OpinionProbe(
    tuple(RewardCall(name, ("x", "y", "z")) for name in "ab"), PEOPLE, np.ones((2, 3), bool), None, "wasserstein"
)  # fmt: skip


class Learner(LightningModule):
    """Learns people's shares by gradient; its rewards are its logits."""

    def __init__(self):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(2, 3))
        self.asked = 0

    def training_step(self, batch, _):
        return -(torch.from_numpy(PEOPLE) * self.logits.log_softmax(1)).sum()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.3)

    def rewards(self, calls):
        self.asked += 1
        assert not self.training or self.asked == 1
        return self.logits.detach()[["ab".index(call.prompt) for call in calls]].tolist()


class Silent(LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch, _):
        return self.weight.sum()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def trained(module, epochs=40):
    found = []

    class Kept(AlignmentCallback):
        def on_train_epoch_end(self, trainer, pl_module):
            super().on_train_epoch_end(trainer, pl_module)
            found.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    trainer = Trainer(
        accelerator="cpu", max_epochs=epochs, logger=False, enable_progress_bar=False, enable_checkpointing=False,
        enable_model_summary=False, callbacks=[Kept(PROBE)],
    )  # fmt: skip
    trainer.fit(module, DataLoader([0]))
    return found


@pytest.mark.filterwarnings("ignore")
def test_a_module_that_learns_peoples_opinions_comes_to_align_with_them():
    found = trained(Learner())
    assert found[0]["val/alignment_uniform"] == found[-1]["val/alignment_uniform"] == pytest.approx(0.675, abs=1e-6)
    assert found[0]["val/alignment"] > found[0]["val/alignment_uniform"]
    assert found[-1]["val/alignment"] > 0.98


@pytest.mark.filterwarnings("ignore")
def test_a_module_that_rates_nothing_is_named():
    with pytest.raises(ConfigError, match="Silent rates no answers"):
        trained(Silent(), epochs=1)
