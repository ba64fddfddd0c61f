"""What a run leaves behind, written so that nothing half-written is ever read back."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from apm_lab.errors import DataError
from apm_lab.studies.arms import ArmDraw

__all__ = ["DrawParts", "RunFolder", "full_disk_named", "new_folder"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def new_folder(outputs: Path, study: str, identity: str, now: datetime) -> Path:
    """Return `outputs/<study>/<date>/<time>-<id8>`."""
    return outputs / study / f"{now:%Y-%m-%d}" / f"{now:%H-%M-%S}-{identity[:8]}"


@contextmanager
def full_disk_named() -> Iterator[None]:
    """Turn a full disk, whoever was writing, into a DataError; every other fault passes.

    A trainer's state is written to the temporary folder and copied from there: either may be full.
    """
    try:
        yield
    except OSError as fault:
        if fault.errno not in _FULL:
            raise
        # A copy names its source first; a write to an open file names nothing.
        where = fault.filename2 or fault.filename or f"a file below {Path.cwd()} or {tempfile.gettempdir()}"
        raise DataError(
            f"{where} can't be written: {fault.strerror}; free space and give the same command again"
        ) from fault


class RunFolder:
    """One run's folder; every file appears whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write_text(self, name: str, text: str) -> None:
        """Write a text file."""
        self.appear(name, lambda draft: draft.write_text(text, encoding="utf-8"))

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file."""
        self.write_text(name, json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n")

    def write_parquet(self, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write a table given by columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table(dict(columns))
        self.appear(name, lambda draft: pq.write_table(table, draft))

    def checkpoint_folder(self, draw: int, arm: str) -> Path:
        """Return where to write what an arm learnt in a draw."""
        return self.path / "checkpoints" / f"draw-{draw:04d}" / arm.replace("/", "_")

    def appear(self, name: str, write: Callable[[Path], object]) -> None:
        """Let `write(draft)` write a draft beside `name`, and put it in place when it is whole."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
        try:
            write(draft)
            draft.replace(target)
        except OSError as fault:
            draft.unlink(missing_ok=True)
            reason = fault.strerror or str(fault)
            raise DataError(
                f"{target} can't be written: {reason}; free space and give the same command again"
            ) from fault


class DrawParts:
    """Finished mapping draws of a run, one file each, from which an interrupted run continues."""

    def __init__(self, folder: RunFolder, settle: Callable[[], None] = lambda: None) -> None:
        """`settle` is called before a draw counts as finished: what was logged of it must have arrived."""
        self._folder, self._settle = folder, settle

    def load(self, draw: int) -> dict[str, ArmDraw] | None:
        """Return the arms of a finished draw, or None when it is not there or can't be read."""
        path = self._folder.path / self._name(draw)
        try:
            # Opened here, because numpy leaves its own handle on a damaged archive open.
            with path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            # The last slash: an option in a folder of its group, and so an arm, has one in its name.
            names = list(dict.fromkeys(name.rpartition("/")[0] for name in arrays))
            return {name: ArmDraw(*(arrays[f"{name}/{field}"] for field in ArmDraw.__slots__)) for name in names}
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
            return None

    def save(self, draw: int, arms: Mapping[str, ArmDraw]) -> None:
        """Keep the arms of a finished draw."""
        self._settle()
        arrays = {f"{name}/{field}": array for name, arm in arms.items() for field, array in arm.arrays().items()}

        def write(draft: Path) -> None:
            with draft.open("wb") as handle:
                np.savez(handle, **arrays)  # type: ignore[arg-type]

        self._folder.appear(self._name(draw), write)

    @staticmethod
    def _name(draw: int) -> str:
        return f"parts/draw-{draw:04d}.npz"
