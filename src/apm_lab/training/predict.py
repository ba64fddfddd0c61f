"""Scores of a trained router for any number of histories, in their own order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from apm_lab.training.history_datamodule import LengthBucketSampler, pad
from apm_lab.training.router_module import RouterModule

__all__ = ["inference_device", "predict_scores"]


def inference_device(accelerator: str) -> torch.device:
    """Return the device that Lightning's `accelerator` name means on this machine, the CPU where there is no other."""
    if accelerator in {"auto", "gpu", "cuda"} and torch.cuda.is_available():
        return torch.device("cuda")
    if accelerator in {"auto", "gpu", "mps"} and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@torch.inference_mode()
def predict_scores(
    module: RouterModule, tokens: Sequence[Sequence[int]], *, pad_id: int, batch_size: int, device: torch.device
) -> NDArray[np.float64]:
    """Return the scores (U, S) of U token lists; batches of similar length, padding has no say in them."""
    scores = np.zeros((len(tokens), module.styles), dtype=np.float64)
    was_training, home = module.training, next(module.parameters()).device
    module.eval().to(device)
    for rows in LengthBucketSampler([len(row) for row in tokens], batch_size, seed=0, shuffle=False):
        batch = pad([(row, tokens[row], None) for row in rows], pad_id)
        moved = {name: tensor.to(device) for name, tensor in batch.items()}
        scores[rows] = module.scores(moved).double().cpu().numpy()
    module.train(was_training).to(home)
    return scores
