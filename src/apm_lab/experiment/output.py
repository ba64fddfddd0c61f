"""Standard output that may fail: a reader who has left ends nothing, and a full disk is one message at the end."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, TextIO, cast

__all__ = ["Output", "patient_output"]


class Output:
    """A text stream that writes to another one until that fails (`lost` is the fault), and then to nowhere.

    So a run whose figures are already on disk, or soon will be, does not die of a closed pipe.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost: OSError | None = None

    def write(self, text: str) -> int:
        """Write, and return the number of characters taken."""
        try:
            if self.lost is None:
                self._stream.write(text)
        except OSError as fault:
            self._lose(fault)
        return len(text)

    def flush(self) -> None:
        """Hand on what is buffered."""
        try:
            if self.lost is None:
                self._stream.flush()
        except OSError as fault:
            self._lose(fault)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the stream has)
        return getattr(self._stream, name)

    def _lose(self, fault: OSError) -> None:
        self.lost = fault
        # What the stream still holds would fail once more when Python ends.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


@contextmanager
def patient_output() -> Iterator[Output]:
    """Make standard output and standard error such streams; what they can't encode is written as escapes."""
    shown, told = Output(_opened(sys.stdout)), Output(_opened(sys.stderr))
    with redirect_stdout(cast(TextIO, shown)), redirect_stderr(cast(TextIO, told)):
        try:
            yield shown
        finally:
            shown.flush()
            if shown.lost is not None and shown.lost.errno != errno.EPIPE:
                told.write(f"error: standard output can't be written: {shown.lost.strerror}\n")
            told.flush()


def _opened(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed before Python began
        return io.StringIO()
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream
