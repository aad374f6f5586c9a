r"""What a terminal is given: text that it cannot be made to obey, bold and colour, lines that fit, and passing notes.

A vocabulary, a corpus or a file's name may hold control characters, and a terminal then changes colours, titles, the
clipboard, or what stands above. They become their Python escapes, such as \x1b. Files and pipes get text as it is, and
neither colour nor line breaks. Bytes that are not UTF-8, which Python keeps in names and arguments as surrogates, are
shown in the same way.
"""

import io
import os
import re
import sys
import unicodedata
from typing import TextIO

SURROGATES = "\ud800-\udfff"
CONTROLS = re.compile(f"[\x00-\x1f\x7f-\x9f{SURROGATES}]")  # C0, DEL and C1; \x9b and \x9d begin escape codes too
NOT_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{SURROGATES}]")  # all but tab and line feed
NOT_IN_BARS = re.compile(
    f"(?!\x1b\\[A)[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{SURROGATES}]"
)  # tqdm writes \r and "up" too
ERASE_LINE = "\r\x1b[K"
STYLES_OF_MESSAGES = {"tfm: error:": "1;31", "warning:": "1;33"}  # bold and red, bold and yellow
WITHOUT_WIDTH = ("Mn", "Me", "Cf")  # Unicode's categories: marks that stand on a letter, and joiners

# What stands for a style in our texts: \ufdd05f0c91d21\ufdd1 is bold. 5f0c91d2 is new in each process, so that no text
# from outside can have it: a terminal gets nothing else of what it would obey.
_OWN = os.urandom(4).hex()
_STYLES = re.compile(f"\ufdd0{_OWN}([0-9;]+)\ufdd1")


class Terminal(io.TextIOWrapper):
    """A text stream to a terminal on which control characters are visible, and styles take effect."""

    obeyed = NOT_IN_LINES
    """what is made visible"""

    def write(self, text: str, /) -> int:
        """Write text. Returns its length, as the caller knows it."""
        if text:
            forget_note()
        self.put(_STYLES.sub("\x1b[\\1m", _visible(text, self.obeyed)))
        return len(text)

    def put(self, text: str) -> None:
        """Write text of our own as it is, with codes that the terminal obeys."""
        super().write(text)


class TerminalWithBars(Terminal):
    """The same for standard error, where tqdm draws progress bars."""

    obeyed = NOT_IN_BARS


_noted: Terminal | None = None
"""the terminal whose last line is a note"""


def note(text: str) -> None:
    """Say on standard error what takes a while, until something else is written. Says nothing but on a terminal."""
    global _noted
    if not isinstance(sys.stderr, Terminal) or os.environ.get("LOCAL_RANK", "0") != "0":
        return
    forget_note()
    if is_plain():
        sys.stderr.put(f"{text} …\n")
    else:
        sys.stderr.put(f"{text} …")
        _noted = sys.stderr
    sys.stderr.flush()


def forget_note() -> None:
    """Erase the note, if there is one."""
    global _noted
    stream, _noted = _noted, None
    if stream is not None:
        stream.put(ERASE_LINE)
        stream.flush()


def erase_line() -> None:
    """Erase what stands in the last line of a terminal: the ^C of a Ctrl-C, behind a bar that has gone."""
    if isinstance(sys.stderr, Terminal) and not is_plain():
        sys.stderr.put(ERASE_LINE)


def is_plain() -> bool:
    """Whether the terminals of this process do no more than print, such as Emacs's shell."""
    return os.environ.get("TERM", "dumb") == "dumb"


def has_styles(stream: TextIO | None) -> bool:
    """Whether text that is written to a stream may be bold and coloured. See no-color.org for NO_COLOR."""
    return isinstance(stream, Terminal) and not is_plain() and not os.environ.get("NO_COLOR")


def bold(text: str) -> str:
    """Returns text for standard output that is bold on a terminal."""
    return _styled(text, "1", sys.stdout)


def message(text: str) -> str:
    """Returns a message for standard error: one line, which a terminal gets in lines that fit, its beginning coloured.

    Such a beginning is "tfm: error:" or "warning:". Control characters are visible: a file's name may hold line feeds.
    """
    line = on_one_line(text)
    for beginning, style in STYLES_OF_MESSAGES.items():
        if line.startswith(beginning):
            line = _styled(beginning, style, sys.stderr) + line.removeprefix(beginning)
    return fitted(line, sys.stderr)


def _styled(text: str, style: str, stream: TextIO | None) -> str:
    return f"\ufdd0{_OWN}{style}\ufdd1{text}\ufdd0{_OWN}0\ufdd1" if has_styles(stream) else text


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
    text = _STYLES.sub("", text)
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.category(each) in WITHOUT_WIDTH else _width_of(each) for each in text)


def _width_of(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, stream: TextIO | None = None) -> str:
    """Returns text whose lines are broken between words where they are wider than a terminal.

    What is broken off is indented by two columns more than its line. A word that is wider than the terminal, such as a
    path, stays where it is: the terminal breaks it, and it can be copied as a whole. stream: as in `columns`.
    """
    limit = columns(stream)
    if limit is None:
        return text
    return "\n".join(line if width(line) <= limit else _broken(line, limit) for line in text.split("\n"))


def _broken(line: str, limit: int) -> str:
    content = line.lstrip(" ")
    indent = line[: len(line) - len(content)]
    lines = [indent]
    for word in re.split("(?<=[^ ])(?= )", content):  # each word but the first with the spaces before it
        below = f"{indent}  {word.lstrip(' ')}"
        if lines[-1].strip() and width(lines[-1] + word) > limit >= width(below):
            lines.append(below)
        else:
            lines[-1] += word
    return "\n".join(lines)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun: "1 thread", "12,000 pairs". plural: None adds an s to the noun."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def on_one_line(message: str) -> str:
    """Returns text without control characters."""
    return _visible(message, CONTROLS)


def _visible(text: str, obeyed: "re.Pattern[str]") -> str:
    return obeyed.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # Python's stand-in for a byte
        return f"\\x{ord(character) - 0xDC00:02x}"
    return repr(character)[1:-1]
