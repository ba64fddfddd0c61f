"""A run is its content: the digest of its resolved config, its data and the source that computes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

__all__ = ["run_identity", "source_digest"]

# What cannot change a figure.
_NO_FIGURES = ("logger", "hydra", "outputs", "store", "debug", "experiment")
_NO_TRAINER_FIGURES = ("progress_bar", "checkpoint_folder")


def run_identity(config: Mapping[str, Any], data_digest: str, baseline: Mapping[str, Any] | None = None) -> str:
    """Return the 32-hex-digit identity of a run with this resolved config on this data.

    `baseline`: the values of the baseline router, which the config only names. A `router.pretrained` that is a folder
    counts by its files.
    """
    kept = {key: value for key, value in config.items() if key not in _NO_FIGURES}
    kept["callbacks"] = {key: value for key, value in kept["callbacks"].items() if key != "checkpoints"}
    kept["trainer"] = {key: value for key, value in kept["trainer"].items() if key not in _NO_TRAINER_FIGURES}
    kept["dataset"] = {key: value for key, value in kept["dataset"].items() if key != "path"} | {"digest": data_digest}
    sources = [source_digest(), *(source_digest(plugin) for plugin in config["plugins"])]
    weights = _folder_digest(config["router"].get("pretrained"))
    text = json.dumps([kept, sources, baseline, weights], sort_keys=True, ensure_ascii=False, default=str)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _folder_digest(path: object) -> str | None:
    """Return the digest of the files below a folder, None where `path` is none."""
    if not isinstance(path, str) or not Path(path).is_dir():
        return None
    digest = blake2b(digest_size=16)
    for file in sorted(file for file in Path(path).rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(path)}\x1f".encode())
        with file.open("rb") as handle:
            while block := handle.read(2**20):
                digest.update(block)
    return digest.hexdigest()


@cache
def source_digest(package: str = "apm_lab") -> str:
    """Return the digest of a package's Python and data files (its configuration apart: that is resolved already)."""
    digest = blake2b(digest_size=16)
    for name, file in _files(package):
        digest.update(name.encode() + b"\x1f" + file.read_bytes() + b"\x1f")
    return digest.hexdigest()


def _files(package: str) -> Iterator[tuple[str, Path]]:
    from importlib.util import find_spec

    spec = find_spec(package)
    if spec is None:
        return
    if spec.origin is not None and spec.has_location and not spec.submodule_search_locations:
        yield Path(spec.origin).name, Path(spec.origin)
    for root in map(Path, spec.submodule_search_locations or ()):  # a package without __init__.py has no origin
        for file in sorted(root.rglob("*")):
            relative = file.relative_to(root)
            if file.suffix in (".py", ".yaml", ".jsonl") and relative.parts[0] != "conf":
                yield str(relative), file
