"""A run is its content: the digest of its resolved config, its data and the source that computes it."""

from __future__ import annotations

import ast
import json
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from apm_lab.errors import ConfigError
from apm_lab.language.hf_weights import identity_of
from apm_lab.training.credentials import without_secrets

__all__ = ["run_identity", "setting_of", "source_digest", "with_their_imports"]

# What cannot change a figure.
_NO_FIGURES = ("logger", "outputs", "store", "debug", "plan", "budget", "prices")
# Of a language model, at any depth: where it is and how fast it is asked. A router's batch size is no such thing.
_ROLES = ("model", "generator", "rewriter", "judge", "summariser", "encoder", "reward_model")
_NO_MODEL_FIGURES = ("base_url", "api_key_env", "concurrency", "timeout_s", "batch_size", "folder")
_NO_TRAINER_FIGURES = ("progress_bar", "checkpoint_folder")
# A method, what it is built from, and what is fitted or written beside it: who is asked, and what, is the same.
_OF_THE_METHOD = ("method", "router", "encoder", "summariser", "trainer", "callbacks", "plugins")


def run_identity(config: Mapping[str, Any], data_digest: str, baseline: Mapping[str, Any] | None = None) -> str:
    """Return the 32-hex-digit identity of a run with this resolved config on this data.

    `baseline`: the values of the baseline router, which the config only names. A `router.pretrained` that is a folder
    counts by its files, and so does a `method.start`.
    """
    kept = {key: value for key, value in config.items() if key not in _NO_FIGURES}
    kept |= {role: _without_reach(kept[role]) for role in _ROLES if role in kept}
    # Groups that the study does not have are not there.
    kept["callbacks"] = {key: value for key, value in (kept.get("callbacks") or {}).items() if key != "checkpoints"}
    kept["trainer"] = {key: value for key, value in kept["trainer"].items() if key not in _NO_TRAINER_FIGURES}
    kept["dataset"] = {key: value for key, value in kept["dataset"].items() if key != "path"} | {"digest": data_digest}
    sources = [source_digest(), *(source_digest(module) for module in with_their_imports(config["plugins"]))]
    router, method = kept.get("router") or {}, kept.get("method") or {}
    begun = ((router, "pretrained"), (baseline or {}, "pretrained"), (method, "start"))
    weights = [_folder_digest(node.get(key)) for node, key in begun]
    # A folder counts by its files wherever it lies, a secret not at all.
    kept["router"], baseline, kept["method"] = (
        {name: value for name, value in node.items() if name != key or digest is None}
        for (node, key), digest in zip(begun, weights, strict=True)
    )
    kept = without_secrets(kept)
    text = json.dumps([kept, sources, baseline, weights], sort_keys=True, ensure_ascii=False, default=str)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def setting_of(config: Mapping[str, Any], data_digest: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what two runs must share for their methods to be compared, and what belongs to the method.

    Both without what cannot change a figure.
    """
    kept = {key: value for key, value in config.items() if key not in _NO_FIGURES}
    kept |= {role: _without_reach(kept[role]) for role in _ROLES if role in kept}
    kept = dict(without_secrets(kept))
    own = {key: kept.pop(key) for key in _OF_THE_METHOD if key in kept}
    # Which arms stand beside the method is no part of what it is asked.
    kept["study"] = {key: value for key, value in kept["study"].items() if key == "_target_"}
    kept["dataset"] = {key: value for key, value in kept["dataset"].items() if key != "path"} | {"digest": data_digest}
    return kept, own


def _without_reach(node: Any) -> Any:  # noqa: ANN401 (any value of a config)
    """Return a language model's node, and nodes inside it, without what can't change its answers.

    Local weights count by their files, wherever they lie.
    """
    if isinstance(node, Mapping):
        kept = {key: _without_reach(value) for key, value in node.items() if key not in _NO_MODEL_FIGURES}
        found = {key: _folder_digest(kept[key]) for key in ("checkpoint",) if key in kept}
        kept |= {key: digest for key, digest in found.items() if digest is not None}
        return {**kept, "path_or_id": _weights(kept["path_or_id"])} if "path_or_id" in kept else kept
    return [_without_reach(value) for value in node] if isinstance(node, list) else node


def _weights(path_or_id: object) -> object:
    try:
        return identity_of(path_or_id) if isinstance(path_or_id, str) else path_or_id
    except ConfigError:  # told before anything is spent, when the backend is asked whether it is ready
        return path_or_id


def _folder_digest(path: object) -> str | None:
    """Return the digest of the files below a folder, None where `path` is none."""
    folder = Path(path).expanduser() if isinstance(path, str) else None
    if folder is None or not folder.is_dir():
        return None
    digest = blake2b(digest_size=16)
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(folder)}\x1f".encode())
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


def with_their_imports(plugins: Sequence[str]) -> list[str]:
    """Return the plug-in packages and, sorted, the modules of the user's own that these import, however deep.

    A user's own is what lies neither in Python's library nor among installed packages.
    """
    found, ahead = list(plugins), list(plugins)
    while ahead:
        for _, file in _files(ahead.pop()):
            fresh = sorted(name for name in _imported(file) if name not in found and _own(name))
            found += fresh
            ahead += fresh
    return [*plugins, *sorted(found[len(plugins) :])]


def _imported(file: Path) -> set[str]:
    """Return the top-level names that a Python file imports, absolutely."""
    try:
        tree = ast.parse(file.read_bytes()) if file.suffix == ".py" else ast.Module([], [])
    except (SyntaxError, ValueError):  # told when it is imported
        return set()
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module and not node.level
    }
    return {name.partition(".")[0] for name in names}


def _own(package: str) -> bool:
    if package == "apm_lab" or package in sys.stdlib_module_names:
        return False
    installed = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "purelib", "platlib")]
    files = [file.resolve() for _, file in _files(package)]
    return bool(files) and not any(file.is_relative_to(place) for file in files[:1] for place in installed)


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
