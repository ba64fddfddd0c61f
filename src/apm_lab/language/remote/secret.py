"""Names under which secrets stand in a configuration or a request."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["SECRET_NAME", "secret_names"]

SECRET_NAME = re.compile(
    r"(api|access|private|secret)[_-]?key|password|passwd|secret|credential|authorization|(^|[_-])token$", re.IGNORECASE
)


def secret_names(values: Mapping[str, object]) -> list[str]:
    """Return the names in `values` that look like a secret's and have a value, at any depth, in order."""
    found: list[str] = []
    for name, value in values.items():
        if SECRET_NAME.search(str(name)) and value is not None:
            found.append(str(name))
            continue
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, Mapping):
                found += secret_names(each)
    return found
