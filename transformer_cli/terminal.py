r"""Text that a terminal would obey, made harmless: escape codes, and other control characters, become visible.

A vocabulary, a corpus or a file's name may hold them, and a terminal then changes colours, titles, the clipboard, or
what stands above. They become their Python escapes, such as \x1b. Files and pipes get text as it is. Bytes that are not
UTF-8, which Python keeps in names and arguments as surrogates, are shown in the same way.
"""

import io
import re

SURROGATES = "\ud800-\udfff"
CONTROLS = re.compile(f"[\x00-\x1f\x7f-\x9f{SURROGATES}]")  # C0, DEL and C1; \x9b and \x9d begin escape codes too
NOT_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{SURROGATES}]")  # all but tab and line feed
NOT_IN_BARS = re.compile(
    f"(?!\x1b\\[A)[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{SURROGATES}]"
)  # tqdm writes \r and "up" too


class Terminal(io.TextIOWrapper):
    """A text stream to a terminal on which control characters are visible."""

    obeyed = NOT_IN_LINES
    """what is made visible"""

    def write(self, text: str, /) -> int:
        """Write text. Returns its length, as the caller knows it."""
        super().write(_visible(text, self.obeyed))
        return len(text)


class TerminalWithBars(Terminal):
    """The same for standard error, where tqdm draws progress bars."""

    obeyed = NOT_IN_BARS


def on_one_line(message: str) -> str:
    """Returns a message without control characters: a file's name may hold line feeds too."""
    return _visible(message, CONTROLS)


def _visible(text: str, obeyed: "re.Pattern[str]") -> str:
    return obeyed.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # Python's stand-in for a byte
        return f"\\x{ord(character) - 0xDC00:02x}"
    return repr(character)[1:-1]
