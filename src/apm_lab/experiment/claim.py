"""Who computes a run: one process at a time, and a finished run is not computed again."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from apm_lab.errors import DataError

__all__ = ["Claim", "claim_run", "finished_figures", "finished_folder"]

_BEAT_S, _STALE_S = 10.0, 90.0


@dataclass(slots=True)
class Claim:
    """The answer to asking for a run: `ours` (compute it in `folder`), `done` (read it there), `busy` (`owner` has it).

    `resumed` says that an earlier process began it.
    """

    state: Literal["ours", "done", "busy"]
    folder: Path
    owner: str
    resumed: bool = False
    path: Path | None = None

    def finish(self) -> None:
        """Mark the run as done; DataError where that can't be written."""
        with _named_faults(self.folder):
            self._write({"state": "done"})

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the claim's heartbeat going; leaving without `finish` frees it for the next process."""
        stop = threading.Event()
        beat = threading.Thread(target=self._beat, args=(stop,), daemon=True)
        beat.start()
        try:
            yield
        finally:
            stop.set()
            beat.join()
            # Unwritten (a full disk, say) it stays "running", and this process is soon dead: the next one takes over.
            with suppress(OSError):
                if self.path is not None and _ours(_read(self.path)):
                    self._write({"state": "interrupted"})

    def _beat(self, stop: threading.Event) -> None:
        while not stop.wait(_BEAT_S):
            if self.path is not None:
                with suppress(OSError):  # one missed beat is no reason to stop beating
                    os.utime(self.path)

    def _write(self, change: dict[str, Any]) -> None:
        if self.path is not None:
            _replace(self.path, {**_read(self.path), **change})


def claim_run(claims: Path, identity: str, new_folder: Path) -> Claim:
    """Return who has the run `identity`; when nobody does, it is ours, in the folder of its earlier start if any.

    The claim is a file created exclusively, with its owner; one whose owner is dead (same host) or silent for 90 s
    (another host) is taken over. Looking and taking happen under one lock file, so two takers can't both succeed.
    A run killed between its manifest and `finish` counts as interrupted: its draws are read back, its results are
    written anew.
    DataError where the folder can't be written.
    """
    with _named_faults(claims.parent):
        return _claim(claims, identity, new_folder)


@contextmanager
def _named_faults(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise DataError(f"outputs: {folder} can't be written: {fault.strerror or fault}") from fault


def _claim(claims: Path, identity: str, new_folder: Path) -> Claim:
    claims.mkdir(parents=True, exist_ok=True)
    path = claims / identity
    with _locked(claims / f"{identity}.lock"):
        found = _read(path) if path.exists() else {}
        folder = _folder_of(found, claims.parent) or new_folder
        if found.get("state") == "done" and finished_figures(folder) is not None:
            return Claim("done", folder, "")
        if found.get("state") == "running" and _alive(found, path):
            return Claim("busy", folder, f"process {found.get('pid')} on {found.get('host')}")
        resumed = bool(found) and folder.is_dir()
        folder = folder if resumed else new_folder
        folder.mkdir(parents=True, exist_ok=True)
        owner = {"state": "running", "pid": os.getpid(), "start": _start_of(os.getpid()), "host": socket.gethostname()}
        _replace(path, {**owner, "folder": os.path.relpath(folder, claims.parent), "claimed": time.time()})
    return Claim("ours", folder, "", resumed, path)


def finished_figures(folder: Path) -> dict[str, float | None] | None:
    """Return the figures in the manifest of a finished run, None where there is no manifest or it is damaged."""
    figures = _read(folder / "manifest.json").get("figures")
    sound = isinstance(figures, dict) and all(isinstance(value, int | float | None) for value in figures.values())
    return figures if sound else None


def finished_folder(claims: Path, identity: str) -> Path | None:
    """Return the folder of a finished run's results, None where the run is not finished; nothing is claimed."""
    found = _read(claims / identity)
    folder = _folder_of(found, claims.parent)
    done = found.get("state") == "done" and folder is not None and finished_figures(folder) is not None
    return folder if done else None


def _folder_of(found: dict[str, Any], outputs: Path) -> Path | None:
    """Return the folder that a claim names, None where it names none below `outputs`."""
    name = str(found.get("folder") or "")
    with suppress(ValueError):  # no path
        inside = outputs.resolve() in (outputs / name).resolve().parents
        return outputs / name if inside else None
    return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl

    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # let go by the kernel when the process dies
        yield


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):  # a claim that can't be read is nobody's
        return {}
    return content if isinstance(content, dict) else {}


def _replace(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    try:
        draft.write_text(json.dumps(content))
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _ours(found: dict[str, Any]) -> bool:
    """Whether this process is computing the run: not when it is done, nor when another host took it over."""
    return (
        found.get("state") == "running"
        and found.get("pid") == os.getpid()
        and found.get("host") == socket.gethostname()
    )


def _alive(found: dict[str, Any], path: Path) -> bool:
    if not isinstance(found.get("host"), str):
        return False
    if found.get("host") != socket.gethostname():
        return time.time() - path.stat().st_mtime < _STALE_S
    pid = found.get("pid")
    return isinstance(pid, int) and _start_of(pid) is not None and _start_of(pid) == found.get("start")


def _start_of(pid: int) -> str | None:
    """Return when the process began, so that a reused number is told apart; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return None
        return _asked(pid)
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def _asked(pid: int) -> str | None:
    """Return "alive" where there is no /proc but the process answers a signal."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "alive"
