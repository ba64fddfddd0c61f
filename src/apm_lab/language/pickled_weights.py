"""Pickled weights as safetensors, once: nothing but tensors is read of a pickle, so that none can run code.

`python -m apm_lab.language.pickled_weights MODEL FOLDER [REVISION]` takes a folder or a hub id and writes FOLDER.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError

from apm_lab.errors import ApmLabError, ConfigError, DataError

__all__ = ["convert"]

_BESIDE = ("*.json", "*.model", "*.txt", "*.jinja")
_PICKLES = ("pytorch_model*.bin", "*.pt")


def convert(model: str, folder: Path, revision: str | None = None) -> Path:
    """Return `folder`, now with the weights of a local or hub model as safetensors, its configuration and tokenizer.

    It is made beside and renamed. Raises ConfigError where it is there already or the model has no pickled weights,
    DataError where a pickle holds more than tensors.
    """
    if folder.exists():
        raise ConfigError(f"{folder} is there already: name a folder that is not")
    source = Path(model).expanduser()
    if not source.is_dir():
        from huggingface_hub import snapshot_download

        try:
            source = Path(snapshot_download(model, revision=revision, allow_patterns=[*_BESIDE, *_PICKLES]))
        except Exception as fault:  # each cause has a class of its own
            raise ConfigError(f"{model} can't be fetched from the hub: {fault}") from fault
    pickles = next((found for pattern in _PICKLES if (found := sorted(source.glob(pattern)))), [])
    if not pickles:
        raise ConfigError(f"{source} has no pickled weights: expected {' or '.join(_PICKLES)}")
    draft = folder.with_name(f".{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    where: dict[str, str] = {}
    for number, pickle in enumerate(pickles, start=1):
        name = "model.safetensors" if len(pickles) == 1 else f"model-{number:05}-of-{len(pickles):05}.safetensors"
        where |= dict.fromkeys(_rewritten(pickle, draft / name), name)
    if len(pickles) > 1:
        (draft / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    for pattern in _BESIDE:
        for file in source.glob(pattern):
            if not file.name.endswith(".bin.index.json"):
                shutil.copyfile(file, draft / file.name)
    draft.rename(folder)
    return folder


def _rewritten(pickle: Path, file: Path) -> list[str]:
    """Write one file's tensors and return their names."""
    import torch
    from safetensors.torch import save_file

    try:
        tensors = torch.load(pickle, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, EOFError) as fault:
        raise DataError(f"{pickle} is damaged, or holds more than tensors: {str(fault).splitlines()[0]}") from fault
    if not isinstance(tensors, dict) or not all(isinstance(value, torch.Tensor) for value in tensors.values()):
        raise DataError(f"{pickle} holds no tensors by name")
    # Two names for one tensor can't be kept in safetensors: each gets its own.
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, file, {"format": "pt"})
    return list(tensors)


def main(given: Sequence[str]) -> int:
    """Convert one model; return the exit code."""
    if len(given) not in (2, 3):
        print("usage: python -m apm_lab.language.pickled_weights MODEL FOLDER [REVISION]", file=sys.stderr)
        return 2
    try:
        folder = convert(given[0], Path(given[1]).expanduser(), given[2] if len(given) == 3 else None)
    except ApmLabError as fault:
        print(fault, file=sys.stderr)
        return 2
    print(f"{folder}: name it as reward_model.model.path_or_id")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
