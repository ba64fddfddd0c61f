"""Where a transformers model lies, what it is, and its weights, loaded once per process."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from apm_lab.errors import ConfigError, UnfetchedError, did_you_mean
from apm_lab.language.offline_models import COMMAND, OFFLINE_MODELS, models_folder
from apm_lab.language.simulated.lm import SIMULATED_LM, simulated_lm_folder

__all__ = [
    "Loaded",
    "auto_device",
    "auto_dtype",
    "identity_of",
    "load_as",
    "load_encoder",
    "load_language_model",
    "locate",
    "quiet_loading",
    "require_model",
]

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_BLOCK = 2**22
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model", "tekken.json")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory: transformers' model and tokenizer."""

    model: Any
    tokenizer: Any


def locate(path_or_id: str) -> str:
    """Return the folder of a local or offline model, or the hub id as it is.

    Raises ConfigError where it is neither, UnfetchedError where it is an offline model that is not fetched.
    """
    if path_or_id == SIMULATED_LM:
        made = simulated_lm_folder()
        if not made.is_dir():
            raise UnfetchedError(path_or_id, f"{path_or_id} is not on this machine yet; its first run trains it")
        return str(made)
    if path_or_id in OFFLINE_MODELS:
        folder = models_folder() / path_or_id
        if not folder.is_dir():
            raise UnfetchedError(
                path_or_id,
                f"{path_or_id} is not on this machine ({folder}); fetch it: {COMMAND}, "
                f"or python -m apm_lab.language.offline_models {path_or_id}",
            )
        return str(folder)
    if Path(path_or_id).expanduser().is_dir():
        return str(Path(path_or_id).expanduser())
    if not _HUB_ID.fullmatch(path_or_id) or path_or_id.startswith("."):
        raise ConfigError(
            f"no model at {path_or_id!r}: expected a folder, a hub id like org/name, or an offline model"
            f"{did_you_mean(path_or_id, OFFLINE_MODELS)}"
        )
    return path_or_id


def require_model(path_or_id: str, revision: str | None = None, tokenizer: bool = True) -> None:
    """Return nothing where the model can be loaded as far as its files show; ConfigError names what is missing.

    Nothing is loaded; a hub id is looked up in the local cache only where the hub is switched off.
    """
    place = locate(path_or_id)
    if Path(place).is_dir():
        _require_files(Path(place), tokenizer)
    elif os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "ON", "YES", "TRUE"):
        from huggingface_hub import try_to_load_from_cache

        if not isinstance(try_to_load_from_cache(place, "config.json", revision=revision), str):
            raise ConfigError(
                f"{place} is not in the local hub cache and HF_HUB_OFFLINE is set; unset it, or name a folder"
            )


def _require_files(folder: Path, tokenizer: bool) -> None:
    names = {file.name for file in folder.iterdir()}
    if "config.json" not in names:
        raise ConfigError(f"{folder} is no model folder: it has no config.json")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise ConfigError(
            f"{folder} has no weights: expected *.safetensors (pickled weights are not read: convert them, "
            "python -m apm_lab.language.pickled_weights MODEL FOLDER)"
        )
    for file in weights:
        _require_whole(file)
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            listed = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError) as fault:
            raise ConfigError(f"{index} is damaged: {fault}") from None
        for name in sorted(listed - names):
            raise ConfigError(f"{folder} lacks {name}, which {index.name} lists")
    if tokenizer and not names.intersection(_TOKENIZERS):
        raise ConfigError(f"{folder} has no tokenizer: expected one of {', '.join(_TOKENIZERS)}")


def _require_whole(file: Path) -> None:
    """Raise ConfigError where a safetensors file is shorter than its own header says, or has none."""
    try:
        with file.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            header: dict[str, Any] = json.loads(handle.read(min(length, file.stat().st_size)))
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        whole = file.stat().st_size == 8 + length + max(ends, default=0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise ConfigError(f"{file} is damaged: it is no whole safetensors file; get it again")


def identity_of(path_or_id: str, revision: str | None = None) -> str:
    """Return the model's id and revision, `main` where none is given; a folder's is its name and its files' digest."""
    place = locate(path_or_id)
    if Path(place).is_dir():
        return f"{Path(place).resolve().name}@{_folder_digest(place)}"
    return f"{place}@{revision or 'main'}"


@cache
def _folder_digest(folder: str) -> str:
    """Return the digest of a model's files: weights, configuration, tokenizer, chat template."""
    digest = blake2b(digest_size=16)
    for file in sorted(Path(folder).iterdir()):
        if file.is_file() and not file.name.startswith(".") and file.suffix.lower() != ".md":
            digest.update(f"{file.name}\x1f".encode() + _file_digest(file))
    return digest.hexdigest()


def _file_digest(file: Path) -> bytes:
    """Return a file's digest; that of a large one is kept in the models folder, by path, size and time."""
    stat = file.stat()
    name = blake2b(f"{file.resolve()}\x1f{stat.st_size}\x1f{stat.st_mtime_ns}".encode(), digest_size=16).hexdigest()
    kept = models_folder() / ".digests" / name
    large = stat.st_size > 16 * _BLOCK
    if large and kept.is_file() and len(found := kept.read_bytes()) == 16:
        return found
    digest = blake2b(digest_size=16)
    with file.open("rb") as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
    if large:
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            fresh = kept.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(digest.digest())
            fresh.replace(kept)
        except OSError:  # a folder that can't be written costs a second reading next time, no more
            pass
    return digest.digest()


def auto_dtype(dtype: str, device: str) -> str:
    """Return `float32` or `bfloat16`: as asked, or for `auto` bfloat16 where the processor computes in it."""
    if dtype != "auto":
        return dtype
    import torch

    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    can: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    fast = device == "cpu" and (can.get("avx512_bf16", False) or can.get("amx_bf16", False))
    return "bfloat16" if fast else "float32"


def auto_device(device: str) -> str:
    """Return the device as asked, or for `auto` the first GPU, else the processor."""
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def load_language_model(path_or_id: str, revision: str | None, dtype: str, device: str) -> Loaded:
    """Return a causal language model in eval mode and its tokenizer.

    Raises ConfigError where the files are missing, damaged or of another kind of model.
    """
    from transformers import AutoModelForCausalLM

    return load_as(AutoModelForCausalLM, "causal language model", path_or_id, revision, dtype, device)


def load_encoder(path_or_id: str, revision: str | None, dtype: str, device: str) -> Loaded:
    """Return a text encoder in eval mode and its tokenizer; raises as `load_language_model` does."""
    from transformers import AutoModel

    pooler = "pooler."  # of a head that is not used
    return load_as(AutoModel, "text encoder", path_or_id, revision, dtype, device, unused=pooler)


def load_as(
    kind: Any,  # noqa: ANN401
    named: str,
    path_or_id: str,
    revision: str | None,
    dtype: str,
    device: str,
    unused: str | None = None,
    tokenizer: str | None = None,
) -> Loaded:
    """Return a model of one of transformers' auto classes in eval mode, and its tokenizer or that of `tokenizer`.

    Raises ConfigError where files are missing or damaged, or weights lacking whose names do not begin with `unused`.
    """
    require_model(path_or_id, revision, tokenizer is None)
    import torch
    from transformers import AutoTokenizer

    place = locate(path_or_id)
    given = {"dtype": getattr(torch, dtype), "use_safetensors": True, "output_loading_info": True}
    with quiet_loading():
        try:
            words = AutoTokenizer.from_pretrained(tokenizer or place, revision=None if tokenizer else revision)
            model, found = kind.from_pretrained(place, revision=revision, **given)
        except Exception as fault:  # each library has its own for the same thing
            raise ConfigError(f"{place} can't be loaded as a {named}: {_first_line(fault)}") from fault
    lacking = sorted(found["missing_keys"]) + sorted(map(str, found["mismatched_keys"]))
    lacking = [name for name in lacking if unused is None or not name.startswith(unused)]
    if lacking:
        raise ConfigError(f"{place}: weights do not fit config.json: {len(lacking)} missing, first {lacking[0]}")
    return Loaded(model.eval().requires_grad_(False).to(device), words)


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Keep transformers' bars and warnings off the console: what matters of them is checked and raised."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _first_line(fault: Exception) -> str:
    return next(iter(str(fault).strip().splitlines()), type(fault).__name__)
