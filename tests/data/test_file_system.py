from pathlib import Path

import pytest

from apm_lab.data import file_system
from apm_lab.data.file_system import is_shared, machine_name, safe_name

MOUNTS = """\
rootfs / rootfs rw 0 0
/dev/vda / ext4 rw 0 0
server:/export /net nfs4 rw 0 0
/dev/vdb /net/scratch\\040here xfs rw 0 0
host /mnt/host 9p rw 0 0
odd
"""


@pytest.mark.parametrize(
    ("folder", "shared"),
    [
        ("/", False),
        ("/data/store", False),
        ("/net", True),
        ("/net/me/outputs", True),
        ("/nets/me", False),
        ("/net/scratch here/store", False),
        ("/mnt/host/store", True),
    ],
)
def test_the_nearest_mount_decides(tmp_path, monkeypatch, folder, shared):
    (tmp_path / "mounts").write_text(MOUNTS)
    monkeypatch.setattr(file_system, "_MOUNTS", tmp_path / "mounts")
    assert is_shared(Path(folder)) is shared


def test_a_system_that_lists_no_mounts_counts_as_local(tmp_path, monkeypatch):
    monkeypatch.setattr(file_system, "_MOUNTS", tmp_path / "none")
    assert is_shared(tmp_path) is False


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("node-1.cluster", "node-1.cluster"),
        ("a/b c", "a-b-c"),
        ("..", "machine"),
        ("", "machine"),
        ("ü" * 9, "machine"),
    ],
)
def test_a_machines_name_is_a_file_name(name, safe):
    assert safe_name(name) == safe
    assert len(safe_name("x" * 500)) == 64
    assert machine_name() == safe_name(machine_name())
