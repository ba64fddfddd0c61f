"""Where a model lies and how it is computed, as a backend's keys say it."""

from __future__ import annotations

from dataclasses import dataclass

from apm_lab.errors import ConfigError
from apm_lab.language.hf_weights import auto_device, auto_dtype, identity_of, locate, require_model

__all__ = ["Place", "place_of"]


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, an offline model or a hub id with its revision; the type and device as asked, `auto` among them."""

    path_or_id: str
    revision: str | None
    asked_dtype: str
    asked_device: str

    def ready(self) -> None:
        """Return nothing where all files are there; ConfigError names what is missing and the command that gets it."""
        require_model(self.path_or_id, self.revision)

    @property
    def identity(self) -> str:
        """Model id and revision; of a folder its name and the digest of its files."""
        return identity_of(self.path_or_id, self.revision)

    @property
    def folder_or_id(self) -> str:
        """The folder of a local model, or the hub id."""
        return locate(self.path_or_id)

    @property
    def device(self) -> str:
        """The device that is computed on."""
        return auto_device(self.asked_device)

    @property
    def dtype(self) -> str:
        """The type that is computed in."""
        return auto_dtype(self.asked_dtype, self.device)


def place_of(path_or_id: str | None, revision: str | None, dtype: str, device: str, batch_size: int) -> Place:
    """Return the place; ConfigError where no model is named or a value is out of range."""
    if not path_or_id:
        raise ConfigError(
            "reward_model.model.path_or_id names no model: give a folder, a hub id like org/name, or an offline model"
        )
    if dtype not in ("auto", "float32", "bfloat16"):
        raise ConfigError(f"{path_or_id}: dtype={dtype}, expected auto, float32 or bfloat16")
    if batch_size < 1:
        raise ConfigError(f"{path_or_id}: batch_size={batch_size} must be at least 1")
    return Place(path_or_id, revision, dtype, device)
