"""A room in which a training run can't change what its caller sees: generators, threads, flags, log levels."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch

__all__ = ["isolated", "settle"]

_CHATTY = ("lightning.pytorch", "lightning.fabric", "lightning", "transformers")

_EXPECTED_WARNINGS = (
    # Histories are token ids in memory: a worker process would cost more than it saves.
    r".*does not have many workers.*",
    # What trains where is the trainer's config, and printed with it.
    r".*GPU available but not used.*",
    # Lightning's use of a torch class that is on its way out.
    r".*LeafSpec.* is deprecated.*",
    # Continuing an interrupted fit writes where it wrote before.
    r".*Checkpoint directory .* exists and is not empty.*",
)


@contextmanager
def isolated(*, seed: int, threads: int, cuda: bool = False) -> Iterator[None]:
    """Seed torch and set its threads inside; on leaving, restore all that a fit or a library under it may change.

    Restored: the generators of torch (CUDA's too with `cuda`), NumPy and `random`, the number of torch threads,
    deterministic and cuDNN flags, the filling of new tensors, CUBLAS_WORKSPACE_CONFIG, the levels of chatty loggers,
    and what Ctrl-C does.
    """
    with ExitStack() as stack:
        stack.enter_context(_generators(seed, cuda))
        stack.enter_context(_torch_flags())
        stack.enter_context(_restored_levels())
        stack.enter_context(_interrupts())
        settle(threads)
        yield


def settle(threads: int) -> None:
    """Set torch's threads, leave new tensors unfilled, quiet chatty loggers and ignore expected warnings, for good: in
    `isolated`, or in a process that a trainer has started.
    """
    torch.set_num_threads(threads)
    # Deterministic mode would write over every new tensor first; nothing here reads what it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
    for message in _EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message=message)


@contextmanager
def _generators(seed: int, cuda: bool) -> Iterator[None]:
    state, legacy = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if cuda else []
    try:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(state)
        np.random.set_state(legacy)


@contextmanager
def _torch_flags() -> Iterator[None]:
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    fill = torch.utils.deterministic.fill_uninitialized_memory
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = cudnn
        torch.utils.deterministic.fill_uninitialized_memory = fill
        if workspace is None:
            os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
        else:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = workspace


@contextmanager
def _interrupts() -> Iterator[None]:
    """Let Ctrl-C be a KeyboardInterrupt: Lightning makes an exit of it and ignores every later one."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as exit_:
        if isinstance(exit_.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from exit_
        raise
    finally:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _restored_levels() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _CHATTY]
    levels = [logger.level for logger in loggers]
    try:
        with warnings.catch_warnings():
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
