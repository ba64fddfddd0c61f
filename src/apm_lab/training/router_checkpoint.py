"""A trained router on disk: weights as safetensors, tokenizer and description as json, verified on reading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from apm_lab.errors import DataError
from apm_lab.language.weight_files import digest_of, require_fitting, write_whole
from apm_lab.training.targets import Objective

__all__ = ["RouterDescription", "fill", "read_description", "read_weights", "write_checkpoint"]

_WEIGHTS, _TOKENIZER, _DESCRIPTION = "router.safetensors", "tokenizer.json", "router.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterDescription:
    """What stands in `router.json`.

    `base` names the encoder trained from (`pretrained`, `revision`, `digest` of its weights; a fresh one has none),
    `settings` what shaped it, `encoder` its transformers config, `frame` the tokenizer's special ids, `label` the
    strategy whose labels were learned, and `digests` the files beside it.
    """

    objective: Objective
    styles: int
    label: str | None
    base: dict[str, Any]
    settings: dict[str, Any]
    encoder: dict[str, Any]
    frame: dict[str, Any]
    max_tokens: int
    digests: dict[str, str]


def write_checkpoint(
    folder: Path, module: nn.Module, tokenizer: str, description: Mapping[str, Any]
) -> RouterDescription:
    """Write the three files into `folder`, the description last, and return it; each appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    # A description left from before must not vouch for new weights while they are being written.
    (folder / _DESCRIPTION).unlink(missing_ok=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    contents = {_WEIGHTS: save_tensors(tensors), _TOKENIZER: tokenizer.encode()}
    for name, content in contents.items():
        write_whole(folder / name, content)
    digests = {name: digest_of(content) for name, content in contents.items()}
    written = RouterDescription(**description, digests=digests)
    write_whole(folder / _DESCRIPTION, json.dumps(asdict(written), indent=1, sort_keys=True).encode())
    return written


def read_description(folder: Path) -> RouterDescription:
    """Return the description; DataError when it is missing, no json, or has a missing or extra entry."""
    path = folder / _DESCRIPTION
    try:
        found = json.loads(_read(path))
    except ValueError as error:
        raise DataError(f"{path} is not json: {error}") from error
    expected = {field.name for field in fields(RouterDescription)}
    if not isinstance(found, dict) or set(found) != expected:
        names = set(found) if isinstance(found, dict) else set()
        raise DataError(f"{path}: missing {sorted(expected - names)}, extra {sorted(names - expected)}")
    return RouterDescription(**found)


def read_weights(folder: Path, description: RouterDescription) -> tuple[dict[str, Tensor], str]:
    """Return the tensors by name and the tokenizer's json; DataError when a file is missing or damaged."""
    contents = {}
    for name in (_WEIGHTS, _TOKENIZER):
        contents[name] = _read(folder / name)
        if digest_of(contents[name]) != description.digests.get(name):
            raise DataError(f"{folder / name} is not the file that {_DESCRIPTION} describes: damaged or replaced")
    try:
        tensors = load_tensors(contents[_WEIGHTS])
    except SafetensorError as error:
        raise DataError(f"{folder / _WEIGHTS} is not a safetensors file: {error}") from error
    return tensors, contents[_TOKENIZER].decode()


def fill(module: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Copy `tensors` into `module`; DataError names missing and extra keys, ConfigError one of another shape."""
    own = module.state_dict()
    require_fitting(source, tensors, own)
    module.load_state_dict(dict(tensors), strict=True)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error
