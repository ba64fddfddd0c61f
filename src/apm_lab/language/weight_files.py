"""Files of trained weights: written whole or not at all, known by their digest, and fitting or refused by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from apm_lab.errors import ConfigError, DataError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["digest_of", "require_fitting", "write_whole"]


def digest_of(content: bytes) -> str:
    """Return the digest by which a description vouches for a file."""
    return blake2b(content, digest_size=16).hexdigest()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all; DataError where it can't be written."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as fault:
        draft.unlink(missing_ok=True)
        reason = fault.strerror or fault
        raise DataError(f"{path} can't be written: {reason}; free space and give the same command again") from fault


def require_fitting(source: Path, tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Return nothing where `tensors` are the `own` ones by name and shape.

    DataError names missing and extra keys, ConfigError one of another shape.
    """
    missing, extra = sorted(set(own) - set(tensors)), sorted(set(tensors) - set(own))
    if missing or extra:
        raise DataError(f"{source}: missing weights {missing}, extra weights {extra}")
    for name, tensor in own.items():
        if tensor.shape != tensors[name].shape:
            raise ConfigError(
                f"{source}: {name} has shape {tuple(tensors[name].shape)}, expected {tuple(tensor.shape)}"
            )
