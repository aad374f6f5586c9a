"""Parses the messages of a gettext catalogue (.po) line by line. Knows no files."""

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from transformer_cli.errors import DataError

HEADER_BYTES = 1 << 14  # of a catalogue, searched for its encoding
MAX_MESSAGE_CHARS = 1 << 24  # including the lines before a message
MARKS = MACHINE_COMMENT, FUZZY_FLAG = "# machine translation", "#, fuzzy"  # lines before a translated message

_STRING = re.compile(r'\s*(?:(msgctxt|msgid|msgid_plural|msgstr)(\[\d{1,2}\])?\s*)?"((?:[^"\\]|\\.)*)"\s*')
_OTHER_LINE = re.compile(r"\s*(?:#(?P<flags>[,=].*\bfuzzy\b)?(?P<obsolete>~)?|domain\s|\Z)")
_CHARSET = re.compile(rb'"Content-Type:[^"\n]*?charset=([\w-]+)', re.IGNORECASE)
_ESCAPE = re.compile(r"(?:\\[0-7]{1,3}|\\x[\da-fA-F]{1,2})+|\\.")  # octal or hexadecimal bytes, or one character
_ESCAPED_CHARS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_BYTE = re.compile(r"\\(?:x([\da-fA-F]+)|([0-7]+))")


@dataclass(slots=True)
class Message:
    """A message, or the lines after the last one."""

    number: int = 0
    """the line number of its first string"""
    lines_before: list[str] = field(default_factory=list)
    """all lines from the previous message to the first `msgstr`"""
    msgstr_lines: list[str] = field(default_factory=list)
    """the lines of its `msgstr`, or of all its plural forms, and blank lines after them"""
    strings: dict[str, list[str]] = field(default_factory=dict)
    """msgctxt, msgid, msgid_plural, msgstr or msgstr[0] → the text inside the quotation marks, line by line"""
    is_fuzzy: bool = False
    is_by_machine: bool = False
    """whether it has MACHINE_COMMENT"""

    @property
    def is_translated(self) -> bool:
        """Whether there is a translation, at least of one plural form."""
        return any(any(texts) for key, texts in self.strings.items() if key.startswith("msgstr"))


def parse_messages(lines: Iterable[str], where: str = "") -> Iterator[Message]:
    """Yield the messages of a catalogue, and then the lines after the last one.

    where: the prefix of error messages. Raises DataError if the lines are not a complete catalogue.
    """
    message, key, number, size = Message(), "", 0, 0
    for number, line in enumerate(lines, start=1):
        found, comment = _STRING.fullmatch(line), _OTHER_LINE.match(line)
        if not found and not comment:
            raise DataError(f"{where}line {number}: not a line of a message catalogue (PO): {line[:40].strip()!r}")
        begins = found and found[1]
        ends = line.strip() and (comment or (begins and begins != "msgstr"))  # blank lines may stand between strings
        if message.msgstr_lines and ends:
            yield message
            message, key, size = Message(), "", 0
        size += len(line)
        if size > MAX_MESSAGE_CHARS:
            what = f"a message of more than {MAX_MESSAGE_CHARS:,} characters (PO); shorten it"
            raise DataError(f"{where}line {number}: {what}")
        if found:
            key = f"{found[1]}{found[2] or ''}" if begins else key
            if not key:
                raise DataError(f"{where}line {number}: a string that belongs to no message (PO)")
            if begins and key in message.strings:
                raise DataError(f"{where}line {number}: a second {key} in a message (PO); delete one")
            message.number = message.number or number
            message.strings.setdefault(key, []).append(found[3])
        elif comment:
            message.is_fuzzy = bool(comment["flags"]) or (message.is_fuzzy and not comment["obsolete"])
            is_marked = line.startswith(MACHINE_COMMENT)
            message.is_by_machine = is_marked or (message.is_by_machine and not comment["obsolete"])
        (message.msgstr_lines if key.startswith("msgstr") else message.lines_before).append(line)
    if message.strings and not message.msgstr_lines:
        raise DataError(f"{where}line {number}: ends in a message without a msgstr (PO); copy the file again")
    yield message


def header_languages(header: str) -> tuple[str, str]:
    """Returns the source and the target language that a header names, or ""."""
    fields = dict(line.partition(":")[::2] for line in header.split("\n"))
    return fields.get("X-Source-Language", "").strip(), fields.get("Language", "").strip()


def po_encoding(content: bytes, where: str = "") -> str:
    """Returns the encoding that a catalogue declares; UTF-8 if it declares no known one.

    where: the prefix of error messages. Raises DataError for a codec that does not encode text.
    """
    named = _CHARSET.search(content[:HEADER_BYTES])
    try:
        encoding = codecs.lookup(named[1].decode()).name if named else "utf-8"
    except LookupError:  # "CHARSET" in templates
        return "utf-8"
    try:
        b"\xff".decode(encoding, "replace")
    except (LookupError, UnicodeError):  # such as base64 or idna
        raise DataError(f"{where}{encoding} is not a text encoding; convert the file to UTF-8") from None
    return encoding


def unescape(escaped: str, encoding: str) -> str:
    r"""Returns a string, or a part of one, without escapes: `"` for `\"`, ä for `\303\244` (its bytes in UTF-8)."""

    def replace(found: re.Match[str]) -> str:
        codes = [int(each[1], 16) if each[1] else int(each[2], 8) & 255 for each in _BYTE.finditer(found[0])]
        return bytes(codes).decode(encoding, "replace") if codes else _ESCAPED_CHARS.get(found[0][1], found[0][1])

    return _ESCAPE.sub(replace, escaped)
