"""A trained soft prompt and adapter on disk: safetensors and a description, verified on reading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from apm_lab.errors import ConfigError, DataError
from apm_lab.language.weight_files import digest_of, require_fitting, write_whole

__all__ = ["PolicyDescription", "fitting", "read_policy", "require_alike", "write_policy"]

_WEIGHTS, _DESCRIPTION = "soft_prompt.safetensors", "soft_prompt.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDescription:
    """What stands in `soft_prompt.json`.

    `base` is the base model's identity (name and digest, or hub id and revision), `encoder` and `pooling` what makes
    the embeddings, `settings` the shape of what was trained, `beta` the scale of its implicit reward, `digest` that of
    the weights beside it.
    """

    base: str
    encoder: str
    pooling: str
    settings: dict[str, Any]
    beta: float
    digest: str = ""


def write_policy(folder: Path, tensors: Mapping[str, Tensor], description: PolicyDescription) -> None:
    """Write both files into `folder`, the description last; each appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    # A description left from before must not vouch for new weights while they are being written.
    (folder / _DESCRIPTION).unlink(missing_ok=True)
    content = save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    write_whole(folder / _WEIGHTS, content)
    told = {**asdict(description), "digest": digest_of(content)}
    write_whole(folder / _DESCRIPTION, json.dumps(told, indent=1, sort_keys=True).encode())


def read_policy(folder: Path) -> tuple[dict[str, Tensor], PolicyDescription]:
    """Return the tensors by name and the description; DataError names a file that is missing, damaged or replaced."""
    path = folder / _DESCRIPTION
    try:
        found = json.loads(path.read_bytes())
        content = (folder / _WEIGHTS).read_bytes()
    except OSError as fault:
        raise DataError(
            f"{fault.filename} can't be read: {fault.strerror}; expected a folder with {_WEIGHTS}"
        ) from fault
    except ValueError as fault:
        raise DataError(f"{path} is not json: {fault}") from fault
    expected = {field.name for field in fields(PolicyDescription)}
    if not isinstance(found, dict) or set(found) != expected:
        names = set(found) if isinstance(found, dict) else set()
        raise DataError(f"{path}: missing {sorted(expected - names)}, extra {sorted(names - expected)}")
    if not isinstance(found["settings"], dict):
        raise DataError(f"{path}: settings is {found['settings']!r:.40}, expected an object")
    if digest_of(content) != found["digest"]:
        raise DataError(f"{folder / _WEIGHTS} is not the file that {_DESCRIPTION} describes: damaged or replaced")
    try:
        return load_tensors(content), PolicyDescription(**found)
    except SafetensorError as fault:
        raise DataError(f"{folder / _WEIGHTS} is not a safetensors file: {fault}") from fault


def require_alike(folder: Path, told: PolicyDescription, own: PolicyDescription) -> None:
    """Raise ConfigError where the checkpoint in `folder`, told of so, is none for a policy that is described by `own`.

    It must have the same base model, encoder and pooling, parts of the same kind and size, and the same `lora_alpha`:
    its adapter would be another one under another scale.
    """
    pairs: list[tuple[str, str, object, object]] = [
        ("base model", "model", told.base, own.base),
        ("encoder", "encoder", told.encoder, own.encoder),
        ("pooling", "method.pooling", told.pooling, own.pooling),
    ]
    for name in ("soft_tokens", "projector", "lora_rank", "lora_alpha"):
        pairs.append((name, f"method.{name}", told.settings.get(name), own.settings[name]))
    theirs, mine = (" ".join(sorted(settings.get("targets", ()))) for settings in (told.settings, own.settings))
    pairs.append(("layers", "method.lora_targets", theirs, mine))
    for what, key, trained, asked in pairs:
        if trained != asked:
            raise ConfigError(
                f"{folder} was trained with the {what} {trained}, and {key} is {asked}; set {key} to that one"
            )


def fitting(folder: Path, own: Mapping[str, Tensor], description: PolicyDescription) -> dict[str, Tensor]:
    """Return the tensors of the checkpoint in `folder` where they fit a policy of this description and these tensors.

    Raises ConfigError for one of another description (see `require_alike`) or other shapes, DataError naming keys that
    are missing or too many.
    """
    tensors, told = read_policy(folder)
    require_alike(folder, told, description)
    require_fitting(folder / _WEIGHTS, tensors, own)
    return tensors
