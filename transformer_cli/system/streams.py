"""The standard streams of a process: ones that were closed, readers that leave, and files that are a stream's name.

Knows nothing of what is written.
"""

import io
import os
import re
import select
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from transformer_cli.errors import TfmError
from transformer_cli.system.terminal import Terminal, TerminalWithBars, forget_note

STREAM_NAME = re.compile(r"/dev/(?:(stdin)|(stdout)|(stderr)|fd/(\d+))|/proc/(?:self|\d+)/fd/(\d+)")


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
        except BrokenPipeError:
            self._has_failed = True
            raise ReaderGone from None
        except OSError as error:
            self._has_failed = True
            raise _unwritable(error) from None


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
    """
    for descriptor, access in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, access)  # the lowest that is free, which is this one
            os.set_inheritable(opened, True)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = _set_up(sys.stdout, sys.__stdout__, _Results, 1, errors="surrogateescape")
    sys.stderr = _set_up(sys.stderr, sys.__stderr__, _Messages, 2, errors="replace")


def _set_up(stream: TextIO | None, original: TextIO | None, kind: type[io.FileIO], number: int, errors: str) -> TextIO:
    """Returns the stream to use: on a terminal, one that shows escape codes.

    One that is not the process's own, as in a notebook or a test, keeps its file.
    """
    if stream is None or stream is original:
        if stream is not None:
            stream.flush()
        buffer: Any = io.BufferedWriter(kind(number, "w", closefd=False))
    elif isinstance(stream, io.TextIOWrapper) and not isinstance(stream, Terminal):
        stream.reconfigure(encoding="utf-8", errors=errors)
        buffer = stream.buffer
        if not buffer.isatty():
            return stream
    else:
        return stream
    if buffer.isatty():
        return (TerminalWithBars if number == 2 else Terminal)(buffer, encoding="utf-8", line_buffering=True)
    return io.TextIOWrapper(buffer, encoding="utf-8", errors=errors, line_buffering=number == 2)


def check_standard_output() -> None:
    """Raises TfmError if standard output cannot be written, so that no work is done for nothing."""
    if isinstance(getattr(getattr(sys.stdout, "buffer", None), "raw", None), _Results):
        import fcntl

        if fcntl.fcntl(1, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise _unwritable(OSError(0, "it is closed"))


def stream_named(path: Path) -> int | None:
    """Returns the descriptor that a path names: 1 for /dev/stdout, 63 for /dev/fd/63, which is the shell's >(…)."""
    found = STREAM_NAME.fullmatch(os.fspath(path))
    if found is None:
        return None
    *standard, of_dev, of_proc = found.groups()
    return int(of_dev or of_proc or [bool(each) for each in standard].index(True))


def _unwritable(error: OSError) -> TfmError:
    return TfmError(f"standard output: cannot be written: {error.strerror}; redirect it to a file with room, or a pipe")
