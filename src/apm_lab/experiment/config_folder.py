"""Where the shipped configuration lies: inside the wheel, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path

__all__ = ["config_folder"]


def config_folder() -> Path:
    """Return the folder of config groups."""
    package = Path(__file__).resolve().parents[1]
    packaged = package / "conf"
    return packaged if packaged.is_dir() else package.parents[1] / "conf"
