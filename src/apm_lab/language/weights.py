"""Which weights a local model has: what makes two models of one name different."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path

__all__ = ["weights_identity"]


def weights_identity(model: str, revision: str | None) -> str:
    """Return `model@revision` for an id of the hub; for a folder its name and the digest of all its files.

    Where the folder lies does not matter. A digest is computed once a process: a second per GB, less than loading.
    """
    folder = Path(model)
    if not folder.is_dir():
        return f"{model}@{revision or 'main'}"
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return f"{folder.resolve().name}@{_digest(folder, tuple(_state(file) for file in files))}"


def _state(file: Path) -> tuple[Path, int, int]:
    status = file.stat()
    return file, status.st_size, status.st_mtime_ns


@cache
def _digest(folder: Path, states: tuple[tuple[Path, int, int], ...]) -> str:
    digest = blake2b(digest_size=16)
    for file, size, _ in states:
        digest.update(f"{file.relative_to(folder).as_posix()}\x1f{size}\x1f".encode())
        with file.open("rb") as handle:
            while block := handle.read(2**20):
                digest.update(block)
    return digest.hexdigest()
