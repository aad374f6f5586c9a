r"""What a terminal is given: text that it cannot be made to obey, bold and colour, lines that fit, and passing notes.

A vocabulary, a corpus or a file's name may hold control characters, and a terminal then changes colours, titles, the
clipboard, or what stands above. They become their Python escapes, such as \x1b. Files and pipes get text as it is, and
neither colour nor line breaks. Bytes that are not UTF-8, which Python keeps in names and arguments as surrogates, are
shown in the same way, and so are marks that turn the direction of text, which can make it read as what it is not.
"""

import io
import os
import re
import sys
import textwrap
import unicodedata
from collections.abc import Iterator
from typing import TextIO

# DEL; C1, of which \x9b and \x9d begin escape codes too; marks of direction; surrogates
HIDDEN = "\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
CONTROLS = re.compile(f"[\x00-\x1f{HIDDEN}]")
NOT_IN_LINES = f"\x00-\x08\x0b-\x1f{HIDDEN}"  # all but tab and line feed
STYLE = re.compile("\x1b\\[(?:1|1;31|1;33|0)m")
STYLED = f"\x1b\\[(?:1|1;31|1;33)m[^{NOT_IN_LINES}]*\x1b\\[0m"  # what `styled` returns
BARS = "\r|\x1b\\[A"  # what tqdm writes: return, and up one line
ERASE_LINE = "\r\x1b[K"
STYLES_OF_MESSAGES = {"tfm: error:": "1;31", "warning:": "1;33"}  # bold and red, bold and yellow
WITHOUT_WIDTH = ("Mn", "Me", "Cf")  # Unicode's categories: marks that stand on a letter, and joiners
JOINER = "\u200d"  # makes one sign of two emoji


class Terminal(io.TextIOWrapper):
    """A text stream to a terminal on which control characters are visible. Bold that ends is all that it obeys."""

    obeyed = re.compile(f"{STYLED}|([{NOT_IN_LINES}])")
    """what it obeys, and, as group 1, a character that is made visible"""

    def write(self, text: str, /) -> int:
        """Write text. Returns its length, as the caller knows it."""
        if text:
            forget_note()
        self.put(self.obeyed.sub(lambda found: _escape(found[0]) if found[1] else found[0], text))
        return len(text)

    def put(self, text: str) -> None:
        """Write text of our own as it is, with codes that the terminal obeys."""
        super().write(text)


class TerminalWithBars(Terminal):
    """The same for standard error, where tqdm draws progress bars."""

    obeyed = re.compile(f"{STYLED}|{BARS}|([{NOT_IN_LINES}])")


_noted: Terminal | None = None
"""the terminal whose last line is a note"""


def note(text: str) -> None:
    """Say on standard error what takes a while, until something else is written. Says nothing but on a terminal."""
    global _noted
    if isinstance(sys.stderr, Terminal) and not is_plain() and not is_second():
        forget_note()
        sys.stderr.put(f"{text} …")
        sys.stderr.flush()
        _noted = sys.stderr


def forget_note() -> None:
    """Erase the note, if there is one."""
    global _noted
    stream, _noted = _noted, None
    if stream is not None:
        stream.put(ERASE_LINE)
        stream.flush()


def erase_line() -> None:
    """Erase what stands in the last line of a terminal: a note, or the ^C of a Ctrl-C, behind a bar that has gone."""
    forget_note()
    if isinstance(sys.stderr, Terminal) and not is_plain():
        sys.stderr.put(ERASE_LINE)


def is_second() -> bool:
    """Whether another process of the same job speaks on this machine: torchrun's process of local rank 0."""
    return "WORLD_SIZE" in os.environ and os.environ.get("LOCAL_RANK", "0") != "0"


def is_plain() -> bool:
    """Whether the terminals of this process do no more than print, such as Emacs's shell."""
    return os.environ.get("TERM", "dumb") == "dumb"


def bold(text: str) -> str:
    """Returns text for standard output that is bold on a terminal."""
    return styled(text, "1", sys.stdout)


def styled(text: str, style: str, stream: TextIO | None) -> str:
    """Returns text that is bold or coloured where a stream is a terminal that can be. See no-color.org for NO_COLOR."""
    if not isinstance(stream, Terminal) or is_plain() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{style}m{text}\x1b[0m"


def message(text: str) -> str:
    """Returns a message for standard error: one line, which a terminal gets in lines that fit, its beginning coloured.

    Such a beginning is "tfm: error:" or "warning:". Control characters are visible: a file's name may hold line feeds.
    """
    lines = fitted(on_one_line(text), sys.stderr)
    for beginning, style in STYLES_OF_MESSAGES.items():
        if lines.startswith(beginning):
            return styled(beginning, style, sys.stderr) + lines.removeprefix(beginning)
    return lines


def columns(stream: TextIO | None = None) -> int | None:
    """Returns how wide a stream (None: standard output) is; None if it is no terminal, so that lines have no end."""
    stream = stream or sys.stdout
    if not isinstance(stream, Terminal):
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None  # some terminals say 0
    except OSError:
        return None


def width(text: str) -> int:
    """Returns how many columns a line of text takes: two for a Chinese character, none for a style."""
    text = STYLE.sub("", text)
    if text.isascii():
        return len(text)
    return sum(min(2, max(map(_width_of, sign))) for sign in signs(text))


def signs(text: str) -> Iterator[str]:
    """Yield what is written as one sign: a character with the marks on it, or emoji that are joined."""
    sign = ""
    for character in text:
        is_mark = _width_of(character) == 0 or "\U0001f3fb" <= character <= "\U0001f3ff"  # colours of skin
        if sign and not is_mark and not sign.endswith(JOINER):
            yield sign
            sign = ""
        sign += character
    if sign:
        yield sign


def _width_of(character: str) -> int:
    if unicodedata.category(character) in WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, stream: TextIO | None = None) -> str:
    """Returns text whose lines are broken between words where they are wider than a terminal.

    What is broken off is indented by two columns more than its line. A word that is wider than the terminal, such as a
    path, is left to the terminal to break, so that it can be copied as a whole. stream: as in `columns`.
    """
    limit = columns(stream)
    if limit is None:
        return text
    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
        broken = textwrap.wrap(line, limit, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        lines += [line] if width(line) <= limit else broken
    return "\n".join(lines)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun: "1 thread", "12,000 pairs". plural: None adds an s to the noun."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def on_one_line(message: str) -> str:
    """Returns text without control characters."""
    return CONTROLS.sub(lambda found: _escape(found[0]), message)


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # Python's stand-in for a byte
        return f"\\x{ord(character) - 0xDC00:02x}"
    return repr(character)[1:-1]
