import logging
import os
import random
import signal
import sys
import warnings

import numpy as np
import pytest
import torch

from apm_lab.training.isolation import isolated


def surroundings():
    return (
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_rng_state().tolist(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        logging.getLogger("lightning.pytorch").level,
        list(warnings.filters),
        signal.getsignal(signal.SIGINT),
    )


def disturb():
    random.random()
    np.random.rand()
    torch.rand(1)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
    torch.backends.cudnn.deterministic = True
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_everything_is_as_before_even_after_an_error():
    before = surroundings()
    with isolated(seed=1, threads=2):
        disturb()
    assert surroundings() == before
    try:
        with isolated(seed=1, threads=2):
            disturb()
            raise KeyError
    except KeyError:
        pass
    assert surroundings() == before


def test_inside_threads_and_seed_are_as_asked():
    seen = []
    for seed in (1, 1, 2):
        with isolated(seed=seed, threads=1):
            seen.append((torch.get_num_threads(), torch.rand(1).item()))
    assert seen[0] == seen[1]
    assert seen[0][0] == 1
    assert seen[2][1] != seen[0][1]


def test_an_interrupt_that_lightning_made_an_exit_is_one_again():
    with pytest.raises(KeyboardInterrupt), isolated(seed=1, threads=1):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            sys.exit(1)
    with pytest.raises(SystemExit), isolated(seed=1, threads=1):
        sys.exit(3)
