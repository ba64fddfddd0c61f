"""The user-facing error family and nearest-name suggestions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

__all__ = [
    "ApmLabError",
    "BudgetError",
    "ConfigError",
    "DataError",
    "EndpointError",
    "JudgeError",
    "MissingPackageError",
    "PendingCalls",
    "StoreError",
    "UnfetchedError",
    "did_you_mean",
    "require_known",
]


class ApmLabError(Exception):
    """A mistake that the user can mend: printed as one message, exit code 2, no traceback without `debug=true`."""


class ConfigError(ApmLabError):
    """A key, value or combination in the configuration is not valid."""


class UnfetchedError(ConfigError):
    """A model that is known by `name` is not on this machine yet; names the command that fetches it."""

    def __init__(self, name: str, told: str) -> None:
        super().__init__(told)
        self.name = name


class DataError(ApmLabError):
    """A data file is missing, damaged or of another schema; names the file and the line."""


class StoreError(ApmLabError):
    """The store of generated and judged texts can't be read or written."""


class JudgeError(ApmLabError):
    """The judge failed its health check."""


class EndpointError(ApmLabError):
    """A language model's endpoint does not answer, or not as it should; names the endpoint and what it said."""


class PendingCalls(ApmLabError):  # noqa: N818 (no fault: a stage of the work)
    """Calls are written to a batch file and wait for their answers; says where, and what to do next."""


class BudgetError(ApmLabError):
    """The next call to a model might pass the budget."""


class MissingPackageError(ApmLabError):
    """An optional package is asked for and not installed; names the command that installs it."""


def did_you_mean(name: str, valid: Iterable[str], most: int = 3) -> str:
    """Return `"; did you mean a, b?"` with the nearest names, else `"; one of: ..."`, for the end of a message."""
    names = sorted(set(valid))
    lowered = {candidate.lower(): candidate for candidate in names}
    near = [lowered[hit] for hit in get_close_matches(name.lower(), lowered, n=most, cutoff=0.6)]
    if near:
        return f"; did you mean {', '.join(near)}?"
    return f"; one of: {', '.join(names)}" if names else ""


def require_known(lacks: str, names: Iterable[str], known: Collection[str]) -> None:
    """Return nothing where all `names` are known, else raise ConfigError with every other name and the nearest to it.

    `lacks` begins the sentence, e.g. "pool.attributes: the rewriter can't render".
    """
    unknown = [f"{name!r}{did_you_mean(name, known)}" for name in names if name not in known]
    if unknown:
        raise ConfigError(f"{lacks} {'; nor '.join(unknown)}")
