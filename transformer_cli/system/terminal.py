r"""Standard streams, and output for a terminal: escaped text, a status line, tables and a prompt.

Text, vocabularies and file names may contain control characters, with which a terminal would change colours, titles,
the clipboard or earlier lines. On a terminal they are written as Python escapes, such as \x1b; files and pipes get them
unchanged. Marks of text direction, which can disguise text, are escaped too, and so are surrogates, by which Python
represents bytes that are not UTF-8.
"""

import io
import os
import re
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TextIO
from unicodedata import category, east_asian_width

from transformer_cli.errors import TfmError
from transformer_cli.system import signals

# DEL; C1, of which \x9b and \x9d begin escape codes too; marks of direction; surrogates
UNSAFE_CHARS = "\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
CONTROL_CHARS = re.compile(f"[\x00-\x1f{UNSAFE_CHARS}]")
CONTROLS_IN_TEXT = f"\x00-\x08\x0b-\x1f{UNSAFE_CHARS}"  # all but tab and line feed
ERASE_LINE = "\r\x1b[K"
ZERO_WIDTH_CATEGORIES = ("Mn", "Me", "Cf")  # Unicode: combining marks and format characters


class Terminal(io.TextIOWrapper):
    """A text stream to a terminal that escapes control characters."""

    to_escape = re.compile(f"[{CONTROLS_IN_TEXT}]")

    def write(self, text: str, /) -> int:
        """Write text, with control characters escaped. Returns the length of `text`."""
        if text:
            clear_status()
        self.write_raw(self.to_escape.sub(lambda found: _escape_char(found[0]), text))
        return len(text)

    def write_raw(self, text: str) -> None:
        """Write text unescaped, for tfm's own control codes."""
        super().write(text)


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


_status_terminal: Terminal | None = None
"""the terminal whose last line is a status"""


def show_status(text: str) -> None:
    """Show on a terminal's standard error what takes a while, until something else is written."""
    global _status_terminal
    if isinstance(sys.stderr, Terminal) and not is_dumb_terminal() and not is_secondary_process():
        clear_status()
        sys.stderr.write_raw(f"{text} …")
        sys.stderr.flush()
        _status_terminal = sys.stderr


def clear_status() -> None:
    """Erase the status line, if there is one."""
    global _status_terminal
    stream, _status_terminal = _status_terminal, None
    if stream is not None:
        stream.write_raw(ERASE_LINE)
        stream.flush()


def is_secondary_process() -> bool:
    """Whether this is a process of torchrun whose local rank is not 0; only rank 0 of each machine writes messages."""
    return "WORLD_SIZE" in os.environ and os.environ.get("LOCAL_RANK", "0") != "0"


def is_dumb_terminal() -> bool:
    """Whether this process's terminal can only print, such as Emacs's shell."""
    return os.environ.get("TERM", "dumb") == "dumb"


def display_width(text: str) -> int:
    """Returns the columns that a line of text takes: two for a Chinese character, none for a combining mark."""
    return sum(1 + (east_asian_width(each) in "WF") for each in text if category(each) not in ZERO_WIDTH_CATEGORIES)


def pluralize(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun: "1 thread", "12,000 pairs". plural: None adds an s to the noun."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def shorten(text: str, max_chars: int) -> str:
    """Returns a text of at most `max_chars` characters; a longer one is cut off and ends in "…"."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def first_few(names: Sequence[str], max_shown: int = 8) -> str:
    """Returns the first names as "a, b, c", with ", …" if there are more than `max_shown`."""
    return ", ".join(names[:max_shown]) + (", …" if len(names) > max_shown else "")


def escape_controls(message: str) -> str:
    """Returns text with control characters escaped, line feeds included."""
    return CONTROL_CHARS.sub(lambda found: _escape_char(found[0]), message)


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Join rows into a table with aligned columns, the first flush left, the others flush right; escapes controls."""
    rows = [[escape_controls(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]

    def line(first: str, *others: str) -> str:
        cells = [f"{first}{' ' * (widths[0] - display_width(first))}"]
        cells += [f"{' ' * (wide - display_width(cell))}{cell}" for cell, wide in zip(others, widths[1:], strict=True)]
        return "  ".join(cells).rstrip()

    return "\n".join(line(*row) for row in rows)


def _escape_char(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return repr(character)[1:-1]


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
