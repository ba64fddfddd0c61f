"""The plain settings of an encoder router: checked before a fit, compared before a load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import ConfigError, did_you_mean

__all__ = ["SHAPING", "check_settings", "differing", "fit_identity"]

SHAPING = (
    *("pretrained", "revision", "layers", "hidden_size", "heads", "intermediate_size", "local_attention"),
    *("global_every", "tokenizer", "vocab_size", "min_frequency", "max_tokens", "pooling"),
)
"""The settings that a checkpoint must share with the router that reads it; the others only steer training."""

_CHOICES = {"tokenizer": ("word", "bpe"), "pooling": ("mean",)}
_AT_LEAST_ONE = (
    *("layers", "hidden_size", "heads", "intermediate_size", "local_attention", "min_frequency"),
    *("batch_size", "accumulate", "epochs"),
)
_SHARES = ("dropout", "embedding_dropout", "warmup_fraction", "label_smoothing", "token_dropout")


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError naming the first setting that is out of range."""

    def fail(name: str, expected: str) -> None:
        raise ConfigError(f"router.{name} is {settings[name]!r}, expected {expected}")

    for name, valid in _CHOICES.items():
        if settings[name] not in valid:
            fail(name, f"one of {', '.join(valid)}{did_you_mean(str(settings[name]), valid)}")
    for name in _AT_LEAST_ONE:
        if settings[name] < 1:
            fail(name, "at least 1")
    for name in _SHARES:
        if not 0 <= settings[name] < 1:
            fail(name, "a share in [0, 1)")
    if settings["learning_rate"] <= 0:
        fail("learning_rate", "a positive number")
    for name in ("weight_decay", "initializer_range", "global_every"):
        if settings[name] < 0:
            fail(name, "at least 0")
    if settings["head_init"] is not None and settings["head_init"] < 0:
        fail("head_init", "at least 0 or null")
    if settings["vocab_size"] < 5:
        fail("vocab_size", "at least 5 (four entries are special)")
    if settings["max_tokens"] < 8:
        fail("max_tokens", "at least 8")
    if settings["hidden_size"] % (2 * settings["heads"]):
        fail("hidden_size", f"a multiple of 2 x heads = {2 * settings['heads']} (rotary positions turn pairs)")


def differing(saved: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Return `name=saved (here own)` for every shaping setting that differs or is missing in `saved`."""
    return [
        f"{name}={saved.get(name)!r} (here {own[name]!r})"
        for name in SHAPING
        if name not in saved or saved[name] != own[name]
    ]


def fit_identity(
    settings: Mapping[str, Any],
    trainer: object,
    histories: Sequence[tuple[str, ...]],
    targets: NDArray[np.generic],
    *rest: object,
) -> str:
    """Return a digest of all that decides a fit's outcome: what an interrupted one must share to be continued."""
    digest = blake2b(digest_size=16)
    for part in (sorted(settings.items()), trainer, list(histories), rest):
        digest.update(repr(part).encode())
    digest.update(np.ascontiguousarray(targets).tobytes())
    return digest.hexdigest()
