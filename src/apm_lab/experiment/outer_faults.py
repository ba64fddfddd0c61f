"""Faults of what surrounds a run (memory, files, code that leaves), which are no fault in the run's own code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from apm_lab.errors import ConfigError, DataError
from apm_lab.experiment.plugin import story

__all__ = ["outer_faults_named"]

_NO_MEMORY = re.compile("can't allocate memory|out of memory", re.IGNORECASE)  # torch raises a RuntimeError


@contextmanager
def outer_faults_named() -> Iterator[None]:
    """Turn memory that runs out, a file that can't be used and a `sys.exit` into one message; other faults pass."""
    try:
        yield
    except SystemExit as leaving:
        if isinstance(leaving.__context__, KeyboardInterrupt):  # what Lightning makes of an interrupt
            raise KeyboardInterrupt from None
        raise ConfigError(f"the run was left half-way: code that the configuration names {story(leaving)}") from leaving
    except (MemoryError, RuntimeError) as fault:
        if not isinstance(fault, MemoryError) and not _NO_MEMORY.search(str(fault)):
            raise
        said = " ".join(str(fault).split()) or type(fault).__name__
        raise ConfigError(f"the run needs more memory than there is ({said}); take less") from fault
    except OSError as fault:
        if fault.filename is None:
            raise
        raise DataError(f"{fault.filename} can't be used: {fault.strerror}") from fault
