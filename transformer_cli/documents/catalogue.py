"""Message catalogues (.po, .pot): messages without a translation are blocks, which become their `msgstr`.

Tags in them, such as <b>, go with their words. Translations that are there stay, fuzzy ones too; forms of the plural
stay empty, since how many there are and what they stand for differs between languages.
"""

import codecs
import re
from collections import Counter

from transformer_cli.documents.blocks import Builder, escaping, nested
from transformer_cli.documents.opened import LINES, NO_LETTER, Languages, Opened, decoded
from transformer_cli.errors import DataError
from transformer_cli.text.lines import has_letter

_STRING = re.compile(r'\s*(?:(msgctxt|msgid|msgid_plural|msgstr)(\[\d{1,2}\])?\s*)?"((?:[^"\\]|\\.)*)"\s*')
_COMMENT = re.compile(r"\s*(?:#(?P<flags>,.*fuzzy)?|\Z)")
_CHARSET = re.compile(rb'"Content-Type:[^"\n]*?charset=([\w-]+)', re.IGNORECASE)
_PARTS = re.compile(  # of a message
    r"(?P<bytes>(?:\\(?:[0-7]{1,3}|x[\da-fA-F]{1,2}))+)|(?P<escape>\\.)"
    r"|(?P<tag><(?P<slash>/?)(?P<name>[a-zA-Z][\w:.-]{0,50}|\d{1,9})"
    r"(?:\s(?:[^<>\\=]|\\.)*=(?:[^<>\\]|\\.)*|\s{0,9}/?)>)|(?P<text>[^\\<]+|<)"
)
_PARTING = re.compile("br|d[dt]|div|h[1-6r]|li|ol|p|table|t[dhr]|ul")  # tags between blocks
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})
LOOKED_AT = 1 << 14  # bytes of a catalogue in which its encoding stands


def open_catalogue(content: bytes, languages: Languages) -> Opened:
    """Cut a catalogue into its messages. Raises DataError if it is none."""
    encoding = _encoding(content)
    text, encode = decoded(content, encoding)
    build, kept = Builder(escaping(lambda words: words.translate(_ESCAPED))), Counter[str]()
    message: dict[str, str] = {}
    is_fuzzy, key, lines = False, "", list[str]()  # those of translations
    for number, line in enumerate(LINES.findall(text), start=1):
        found, comment = _STRING.fullmatch(line), _COMMENT.match(line)
        if not found and not comment:
            raise DataError(f"line {number}: no line of a message catalogue (PO): {line[:40].strip()!r}")
        begins = found and found[1]
        if lines and (comment or begins in ("msgctxt", "msgid")):
            _add(build, message, lines, encoding, kept, is_fuzzy=is_fuzzy)
            message, lines, is_fuzzy, key = {}, [], False, ""
        if found:
            key = f"{found[1]}{found[2] or ''}" if begins else key
            if not key:
                raise DataError(f"line {number}: a string that belongs to no message (PO)")
            message[key] = message.get(key, "") + found[3]
        elif comment and comment["flags"]:
            is_fuzzy = True
        if found and key.startswith("msgstr"):
            lines.append(line)
        else:
            build.boundary(line)
    if lines:
        _add(build, message, lines, encoding, kept, is_fuzzy=is_fuzzy)
    build.boundary()
    return Opened([build.document], lambda texts: encode(texts[0]), kept)


def _encoding(content: bytes) -> str:
    """Returns the encoding that a catalogue says; UTF-8 if it says none that is known."""
    named = _CHARSET.search(content[:LOOKED_AT])
    try:
        return codecs.lookup(named[1].decode()).name if named else "utf-8"
    except LookupError:  # CHARSET, as templates have it
        return "utf-8"


def _add(
    build: Builder, message: dict[str, str], lines: list[str], encoding: str, kept: Counter[str], *, is_fuzzy: bool
) -> None:
    """Add the translation of a message: as it is, or its text, which becomes one. lines: of the translation."""
    source = message.get("msgid", "")
    if any(text for key, text in message.items() if key.startswith("msgstr")):
        kept["fuzzy" if is_fuzzy else "translated already"] += bool(source)  # and not the header
    elif "msgid_plural" in message:
        kept["forms of the plural"] += 1
    elif source:
        end = lines[-1][len(lines[-1].rstrip()) :]
        line_end = '"' + ("\r\n" if end == "\r\n" else "\n") + '"'
        build.boundary(lines[0][: lines[0].index('"') + 1])
        if r"\n" in source.removesuffix(r"\n"):
            build.boundary(line_end)
        kept[NO_LETTER] += not _add_text(build, source, line_end, encoding)
        build.boundary(f'"{end}')
        return
    build.boundary(*lines)


def _add_text(build: Builder, source: str, line_end: str, encoding: str) -> bool:
    """Add a message. Returns whether it has a letter."""
    parts = [*_PARTS.finditer(source)]
    texts = [each["text"] or _meaning(each, encoding) for each in parts]
    names = [(each["name"] or "").lower() for each in parts]
    is_empty = [each[0].endswith("/>") for each in parts]
    marks = [
        (name * (not each["slash"] and not empty), name * bool(each["slash"]))
        for name, each, empty in zip(names, parts, is_empty, strict=True)
    ]
    pairs = nested(marks, ())
    for number, (part, text, name) in enumerate(zip(parts, texts, names, strict=True)):
        raw = part[0]
        before, after = texts[number - 1][-1:] if number else "", "".join(texts[number + 1 : number + 2])
        if text:
            build.text(raw, text)
        elif raw == r"\n" and after[:1].islower() and before not in (*".!?:", ""):
            build.seam(raw + line_end, " " * (before != " "))
        elif part["escape"] or _PARTING.fullmatch(name):
            build.boundary(raw + line_end * (raw == r"\n" and number + 1 < len(parts)))
        elif number in pairs:
            (build.close if part["slash"] else build.open)(name, raw)
        else:
            build.point(raw)
    return has_letter("".join(texts))


def _meaning(part: re.Match[str], encoding: str) -> str:
    """Returns what an escape stands for, if that is text."""
    if part["escape"] in (r"\"", r"\\"):
        return part["escape"][1]
    codes = re.findall(r"\\(?:x(\w+)|(\d+))", part["bytes"] or "")
    try:
        text = bytes(int(code, 16) if code else int(octal, 8) & 0xFF for code, octal in codes).decode(encoding)
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() or text.isspace() else ""
