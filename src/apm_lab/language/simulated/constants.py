"""The committed table of the simulated world's constants, read from `constants.yaml`."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any

__all__ = ["constant", "load_yaml", "package_digest"]

_PACKAGE = "apm_lab.language.simulated"


@cache
def load_yaml(name: str) -> Any:  # noqa: ANN401 (the file's own shape)
    """Return the parsed YAML data file `name` of this package (with libyaml where PyYAML has it: ten times faster)."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(files(_PACKAGE).joinpath(name).read_text(encoding="utf-8"), loader)


def constant(name: str) -> Any:  # noqa: ANN401 (the entry's own shape)
    """Return one entry of the table, e.g. `constant("shift")["value"]`."""
    return load_yaml("constants.yaml")[name]


@cache
def package_digest(*names: str) -> str:
    """Return the 16-hex-digit digest of these files of the package: a simulated model's revision."""
    digest = blake2b(digest_size=8)
    for name in names:
        digest.update(name.encode() + b"\x1f" + files(_PACKAGE).joinpath(name).read_bytes() + b"\x1f")
    return digest.hexdigest()
