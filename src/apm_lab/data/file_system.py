"""What kind of file system a folder lies on, and what this machine is called on it."""

from __future__ import annotations

import re
import socket
from pathlib import Path

__all__ = ["is_shared", "machine_name"]

_MOUNTS = Path("/proc/mounts")
# A list of local ones: whatever is not known (network, FUSE, a virtual machine's host folder) is treated as shared.
_LOCAL = {
    *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2", "apfs"),
    *("tmpfs", "ramfs", "rootfs", "overlay", "aufs", "fuse.fuse-overlayfs", "fuseblk", "vfat", "exfat", "ntfs3"),
}


def machine_name() -> str:
    """Return the host's name as a file name."""
    return safe_name(socket.gethostname())


def safe_name(name: str) -> str:
    """Return a name as a file name of at most 64 letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:64] or "machine"


def is_shared(folder: Path) -> bool:
    """Return whether other machines may see this folder: it lies on no file system known to be local.

    False where the system does not list its mounts (no Linux).
    """
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    place = folder.resolve()
    nearest, kind = 0, ""
    for line in lines:
        fields = line.split()
        if len(fields) < 3:
            continue
        mount = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[1])
        # Of several mounts on one place the last one counts.
        if place.is_relative_to(mount) and len(mount) >= nearest:
            nearest, kind = len(mount), fields[2]
    return bool(kind) and kind not in _LOCAL
