"""The standard streams of a process: ones that were closed, and readers that leave.

Knows nothing of what is written.
"""

import io
import os
import select
import sys
from contextlib import suppress
from typing import Any, TextIO

from transformer_cli.errors import TfmError
from transformer_cli.system.terminal import Terminal, TerminalWithBars, forget_note


class ReaderGone(BaseException):
    """Nobody reads standard output any more, as in `tfm … | head -1`. No error: there is nothing left to do."""


class _Results(io.FileIO):
    """Standard output: what cannot be written ends the command. Only the first failure is told."""

    _has_failed = False

    def write(self, content: Any) -> int:
        """Write some of the bytes. Raises ReaderGone, or TfmError for any other reason."""
        view = memoryview(content)
        if self._has_failed:  # what is left in a buffer is written once more when the process ends
            return view.nbytes
        forget_note()  # whoever reads a pipe may write to the same terminal
        try:
            while (written := super().write(view)) is None:  # somebody has made it non-blocking
                select.select([], [self], [])
            return written
        except OSError as error:
            self._has_failed = True
            if isinstance(error, BrokenPipeError):
                raise ReaderGone from None
            why = f"{error.strerror}; redirect it to a file with room, or a pipe"
            raise TfmError(f"standard output: cannot be written: {why}") from None


class _Messages(io.FileIO):
    """Standard error: a command does its work even if nobody reads what it says about it, or the disk is full."""

    def write(self, content: Any) -> int:
        """Write what can be written of the bytes, and drop the rest."""
        with suppress(OSError):
            super().write(content)
        return memoryview(content).nbytes


def set_up() -> None:
    """Give this process three usable streams of UTF-8, as the input is, whatever the locale.

    A closed one is opened so that using it fails: reading standard input, writing standard output. Otherwise the next
    file that is opened, such as a checkpoint, would be taken for it. What is said on a closed standard error is lost.
    Streams that are not the process's own, as in a notebook, stay as they are.
    """
    for descriptor, access in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, access), True)  # the lowest that is free, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)
    if sys.stdout in (None, sys.__stdout__):
        by_line = getattr(sys.stdout, "write_through", False)  # PYTHONUNBUFFERED
        sys.stdout = _text(_Results(1, "w", closefd=False), Terminal, errors="surrogateescape", line_buffering=by_line)
    if sys.stderr in (None, sys.__stderr__):
        sys.stderr = _text(_Messages(2, "w", closefd=False), TerminalWithBars, errors="replace", line_buffering=True)


def _text(raw: io.FileIO, on_terminals: type[Terminal], *, errors: str, line_buffering: bool) -> TextIO:
    """Returns a stream of text: on a terminal, one that shows escape codes."""
    buffer = io.BufferedWriter(raw)
    if raw.isatty():
        return on_terminals(buffer, encoding="utf-8", line_buffering=True)
    return io.TextIOWrapper(buffer, encoding="utf-8", errors=errors, line_buffering=line_buffering)
