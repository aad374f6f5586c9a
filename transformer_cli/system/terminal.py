r"""Output for a terminal: escaped text, a status line and tables.

Text, vocabularies and file names may contain control characters, with which a terminal would change colours, titles,
the clipboard or earlier lines. On a terminal they are written as Python escapes, such as \x1b; files and pipes get them
unchanged. Marks of text direction, which can disguise text, are escaped too, and so are surrogates, by which Python
represents bytes that are not UTF-8.
"""

import io
import os
import re
import sys
from collections.abc import Sequence
from unicodedata import category, east_asian_width

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


_status_terminal: Terminal | None = None
"""the terminal whose last line is a status"""


def show_status(text: str) -> None:
    """Show a status such as "loading libraries …" on standard error, if it is a terminal, until the next output."""
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
