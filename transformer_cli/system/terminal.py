r"""Standard streams, and what a terminal is given: text that it cannot be made to obey, notes, tables, and a prompt.

A vocabulary, a corpus or a file's name may hold control characters, and a terminal then changes colours, titles, the
clipboard, or what stands above. They become their Python escapes, such as \x1b. Files and pipes get text as it is.
Bytes that are not UTF-8, which Python keeps in names and arguments as surrogates, are shown in the same way, and so are
marks that turn the direction of text, which can make it read as what it is not.
"""

import io
import os
import re
import select
import signal
import sys
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TextIO

from transformer_cli.errors import TfmError
from transformer_cli.system import signals

# DEL; C1, of which \x9b and \x9d begin escape codes too; marks of direction; surrogates
UNSAFE_CHARS = "\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
CONTROL_CHARS = re.compile(f"[\x00-\x1f{UNSAFE_CHARS}]")
CONTROLS_IN_TEXT = f"\x00-\x08\x0b-\x1f{UNSAFE_CHARS}"  # all but tab and line feed
ERASE_LINE = "\r\x1b[K"
ZERO_WIDTH_CATEGORIES = ("Mn", "Me", "Cf")  # Unicode's categories: marks that stand on a letter, and joiners


class Terminal(io.TextIOWrapper):
    """A text stream to a terminal on which control characters are visible."""

    to_escape = re.compile(f"[{CONTROLS_IN_TEXT}]")

    def write(self, text: str, /) -> int:
        """Write text. Returns its length, as the caller knows it."""
        if text:
            clear_status()
        self.write_raw(self.to_escape.sub(lambda found: _escape_char(found[0]), text))
        return len(text)

    def write_raw(self, text: str) -> None:
        """Write text of our own as it is, with codes that the terminal obeys."""
        super().write(text)


class TerminalWithBars(Terminal):
    """The same for standard error, where tqdm draws progress bars: it writes return, and up one line."""

    to_escape = re.compile(f"(?!\r|\x1b\\[A)[{CONTROLS_IN_TEXT}]")


class OutputClosed(BaseException):
    """Nobody reads standard output any more, as in `tfm … | head -1`. No error: there is nothing left to do."""


class _Stdout(io.FileIO):
    """Standard output: what cannot be written ends the command. Only the first failure is told."""

    _has_failed = False

    def write(self, content: Any) -> int:
        """Write some of the bytes. Raises ReaderGone, or TfmError for any other reason."""
        view = memoryview(content)
        if self._has_failed:  # what is left in a buffer is written once more when the process ends
            return view.nbytes
        clear_status()  # whoever reads a pipe may write to the same terminal
        try:
            while (written := super().write(view)) is None:  # somebody has made it non-blocking
                select.select([], [self], [])
            return written
        except OSError as error:
            self._has_failed = True
            if isinstance(error, BrokenPipeError):
                raise OutputClosed from None
            why = f"{error.strerror}; redirect it to a file with room, or a pipe"
            raise TfmError(f"standard output: cannot be written: {why}") from None


class _Stderr(io.FileIO):
    """Standard error: a command does its work even if nobody reads what it says about it, or the disk is full."""

    def write(self, content: Any) -> int:
        """Write what can be written of the bytes, and drop the rest."""
        with suppress(OSError):
            super().write(content)
        return memoryview(content).nbytes


def set_up_streams() -> None:
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
        sys.stdout = _text_stream(
            _Stdout(1, "w", closefd=False), Terminal, errors="surrogateescape", line_buffering=by_line
        )
    if sys.stderr in (None, sys.__stderr__):
        sys.stderr = _text_stream(
            _Stderr(2, "w", closefd=False), TerminalWithBars, errors="replace", line_buffering=True
        )


def _text_stream(raw: io.FileIO, on_terminals: type[Terminal], *, errors: str, line_buffering: bool) -> TextIO:
    """Returns a stream of text: on a terminal, one that shows escape codes."""
    buffer = io.BufferedWriter(raw)
    if raw.isatty():
        return on_terminals(buffer, encoding="utf-8", line_buffering=True)
    return io.TextIOWrapper(buffer, encoding="utf-8", errors=errors, line_buffering=line_buffering)


_status_terminal: Terminal | None = None
"""the terminal whose last line is a note"""


def show_status(text: str) -> None:
    """Say on standard error what takes a while, until something else is written. Says nothing but on a terminal."""
    global _status_terminal
    if isinstance(sys.stderr, Terminal) and not is_dumb_terminal() and not is_secondary_process():
        clear_status()
        sys.stderr.write_raw(f"{text} …")
        sys.stderr.flush()
        _status_terminal = sys.stderr


def clear_status() -> None:
    """Erase the note, if there is one."""
    global _status_terminal
    stream, _status_terminal = _status_terminal, None
    if stream is not None:
        stream.write_raw(ERASE_LINE)
        stream.flush()


def is_secondary_process() -> bool:
    """Whether another process of the same job speaks on this machine: torchrun's process of local rank 0."""
    return "WORLD_SIZE" in os.environ and os.environ.get("LOCAL_RANK", "0") != "0"


def is_dumb_terminal() -> bool:
    """Whether the terminals of this process do no more than print, such as Emacs's shell."""
    return os.environ.get("TERM", "dumb") == "dumb"


def display_width(text: str) -> int:
    """Returns how many columns a line of text takes: two for a Chinese character, none for a mark on a letter."""
    return sum(
        0
        if unicodedata.category(character) in ZERO_WIDTH_CATEGORIES
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


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
    """Returns text whose control characters are visible: a file's name may hold line feeds."""
    return CONTROL_CHARS.sub(lambda found: _escape_char(found[0]), message)


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Join rows with columns as wide as their widest cell; the first is flush left, the others are flush right.

    Control characters are visible: names may hold line feeds.
    """
    rows = [[escape_controls(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]

    def line(first: str, *others: str) -> str:
        cells = [f"{first}{' ' * (widths[0] - display_width(first))}"]
        cells += [f"{' ' * (wide - display_width(cell))}{cell}" for cell, wide in zip(others, widths[1:], strict=True)]
        return "  ".join(cells).rstrip()

    return "\n".join(line(*row) for row in rows)


def _escape_char(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # Python's stand-in for a byte
        return f"\\x{ord(character) - 0xDC00:02x}"
    return repr(character)[1:-1]


def prompt_loop(answer: Callable[[int, str], None], prompt: str) -> None:
    """Ask for lines that somebody types until Ctrl-D, and call `answer` with the number of each, from 1, and its text.

    Ctrl-C drops what is being typed, or what is being answered. A text that was pasted is answered line by line.
    Bytes that are not UTF-8 come as surrogates. Editing is GNU readline's, or that of libedit.
    """
    with suppress(ImportError):  # not every Python is built with it
        import readline  # noqa: F401  # which `input` uses then
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
    sys.stderr.write("\n")  # behind the last prompt
