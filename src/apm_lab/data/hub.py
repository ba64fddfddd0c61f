"""Where a public data set lies: a folder or file of one's own, or a data set of the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from apm_lab.errors import DataError

__all__ = ["local_folder"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")


def local_folder(path: str | None, download: str, wanted: Sequence[str]) -> Path:
    """Return where the files of `dataset.path` lie: the folder or file itself if there is one, else what was fetched.

    A hub id (`owner/name`, or `owner/name@revision`) is fetched into the hub's own cache, and of it only the files that
    match a pattern of `wanted`. `download` names the official download, for the messages.

    Raises:
        DataError: no path, no such folder, and what the hub said where it can't be fetched.

    """
    if not path:
        raise DataError(f"dataset.path is not set; give dataset.path=FOLDER with {download}")
    place = Path(path).expanduser()
    if place.exists():
        return place
    if not _HUB_ID.fullmatch(path):
        raise DataError(f"dataset.path={path}: there is no such folder or file; give one with {download}")
    return _fetched(path, download, wanted)


def _fetched(path: str, download: str, wanted: Sequence[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled, RepositoryNotFoundError

    name, _, revision = path.partition("@")
    try:
        return Path(
            snapshot_download(name, repo_type="dataset", revision=revision or None, allow_patterns=list(wanted))
        )
    except RepositoryNotFoundError:
        why = "there is no such folder, and the hub has no such data set (or not for you)"
    except (LocalEntryNotFoundError, OfflineModeIsEnabled):
        why = "there is no such folder, and the hub can't be reached"
    except Exception as fault:  # whatever its client raises, the data can't be had from there
        lines = [line for line in str(fault).splitlines() if line.strip()]
        why = f"there is no such folder, and the hub said: {lines[0] if lines else type(fault).__name__:.200}"
    raise DataError(f"dataset.path={path}: {why}; give dataset.path=FOLDER with {download}")
