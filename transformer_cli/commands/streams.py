"""The standard streams of a command, and a prompt that reads lines from a terminal."""

import io
import os
import re
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

from transformer_cli.errors import TfmError
from transformer_cli.system import signals
from transformer_cli.system.terminal import CONTROLS_IN_TEXT, Terminal, clear_status


class TerminalWithBars(Terminal):
    """The same for standard error, where tqdm's bars need carriage return and cursor up."""

    to_escape = re.compile(f"(?!\r|\x1b\\[A)[{CONTROLS_IN_TEXT}]")


class OutputClosed(BaseException):
    """The reader of standard output is gone, as in `tfm … | head -1`. Not an Exception: nothing is left to do."""


class _Stdout(io.FileIO):
    """Standard output: a failed write ends the command. Only the first failure is reported."""

    _has_failed = False

    def write(self, content: Any) -> int:
        """Write some of the bytes. Raises OutputClosed, or TfmError for any other reason."""
        view = memoryview(content)
        if self._has_failed:  # Python flushes the buffer again when the process ends
            return view.nbytes
        clear_status()  # the reader of a pipe may write to the same terminal
        try:
            while (written := super().write(view)) is None:  # another program has made the stream non-blocking
                select.select([], [self], [])
            return written
        except OSError as error:
            self._has_failed = True
            if isinstance(error, BrokenPipeError):
                raise OutputClosed from None
            why = f"{error.strerror}; redirect it to a file with room, or a pipe"
            raise TfmError(f"standard output: cannot be written: {why}") from None


class _Stderr(io.FileIO):
    """Standard error: a failed write is ignored, so that the command goes on; so is one that would block."""

    def write(self, content: Any) -> int:
        """Write as many of the bytes as possible; drop the rest."""
        with suppress(OSError):
            super().write(content)
        return memoryview(content).nbytes


def set_up_streams() -> None:
    """Give this process three usable UTF-8 streams, whatever the locale.

    A closed stream is opened so that reading or writing fails; otherwise the next file, such as a checkpoint, would get
    its descriptor. Output to a closed standard error is lost. Streams that were replaced, as in a notebook, stay.
    """
    for descriptor, access in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, access), True)  # open() returns the lowest free one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)
    if sys.stdout in (None, sys.__stdout__):
        by_line = getattr(sys.stdout, "write_through", False)  # PYTHONUNBUFFERED
        sys.stdout = _text_stream(_Stdout(1, "w", closefd=False), Terminal, errors="surrogateescape", by_line=by_line)
    if sys.stderr in (None, sys.__stderr__):
        sys.stderr = _text_stream(_Stderr(2, "w", closefd=False), TerminalWithBars, errors="replace", by_line=True)


def _text_stream(raw: io.FileIO, on_terminals: type[Terminal], *, errors: str, by_line: bool) -> TextIO:
    """Returns a text stream; on a terminal, one that escapes control characters. by_line: flush after each line."""
    buffer = io.BufferedWriter(raw)
    if raw.isatty():
        return on_terminals(buffer, encoding="utf-8", line_buffering=True)
    return io.TextIOWrapper(buffer, encoding="utf-8", errors=errors, line_buffering=by_line)


def make_stderr_nonblocking() -> None:
    """From now on, drop messages that the reader of standard error does not take in time; not on a terminal."""
    if not os.isatty(2):  # a terminal may be standard input, too
        os.set_blocking(2, False)


def prompt_loop(answer: Callable[[int, str], None], prompt: str) -> None:
    """Read lines at a prompt until Ctrl-D, and call `answer` with the number of each, from 1, and its text.

    Ctrl-C cancels the typed line or the running call. Pasted text is answered line by line. Bytes that are not UTF-8
    become surrogates. Lines are edited by GNU readline or libedit.
    """
    with suppress(ImportError):  # not every Python has it
        import readline  # noqa: F401  # `input` then uses it
    number = 0
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    with signals.temporary_handler([signal.SIGINT], signal.default_int_handler):
        while True:
            try:
                for line in input(prompt).split("\n"):
                    number += 1
                    answer(number, line)
            except EOFError:
                break
            except KeyboardInterrupt:
                sys.stderr.write("\n")
    sys.stderr.write("\n")  # after the last prompt
