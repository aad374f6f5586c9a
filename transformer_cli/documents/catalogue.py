"""Message catalogues (.po, .pot): messages without a translation are blocks, which become their `msgstr`.

Translations that are there stay, fuzzy ones too; forms of the plural stay empty, since how many there are and what they
stand for differs between languages.
"""

import codecs
import re
from collections import Counter

from transformer_cli.documents.blocks import Builder, escaping
from transformer_cli.documents.opened import Languages, Opened, decoded
from transformer_cli.errors import DataError

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_STRING = re.compile(r'\s*(?:(msgctxt|msgid|msgid_plural|msgstr)(\[\d{1,2}\])?\s*)?"((?:[^"\\]|\\.)*)"\s*')
_COMMENT = re.compile(r"\s*(?:#(?P<flags>,.*fuzzy)?|\Z)")
_CHARSET = re.compile(rb'"Content-Type:[^"\n]*?charset=([\w-]+)', re.IGNORECASE)
_ESCAPE = re.compile(r"(\\.)")
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})
LOOKED_AT = 1 << 14  # bytes of a catalogue in which its encoding stands


def open_catalogue(content: bytes, languages: Languages) -> Opened:
    """Cut a catalogue into its messages. Raises DataError if it is none."""
    text, encode = decoded(content, _encoding(content))
    build, kept = Builder(escaping(lambda words: words.translate(_ESCAPED))), Counter[str]()
    message: dict[str, str] = {}
    is_fuzzy, key, lines = False, "", list[str]()  # those of translations
    for number, line in enumerate(_LINES.findall(text), start=1):
        found, comment = _STRING.fullmatch(line), _COMMENT.match(line)
        if not found and not comment:
            raise DataError(f"line {number}: no line of a message catalogue (PO): {line[:40].strip()!r}")
        begins = found and found[1]
        if lines and (comment or begins in ("msgctxt", "msgid")):
            _add(build, message, lines, kept, is_fuzzy=is_fuzzy)
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
        _add(build, message, lines, kept, is_fuzzy=is_fuzzy)
    build.boundary()
    return Opened([build.document], lambda texts: encode(texts[0]), kept)


def _encoding(content: bytes) -> str:
    """Returns the encoding that a catalogue says; UTF-8 if it says none that is known."""
    named = _CHARSET.search(content[:LOOKED_AT])
    try:
        return codecs.lookup(named[1].decode()).name if named else "utf-8"
    except LookupError:  # CHARSET, as templates have it
        return "utf-8"


def _add(build: Builder, message: dict[str, str], lines: list[str], kept: Counter[str], *, is_fuzzy: bool) -> None:
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
        parts = _ESCAPE.split(source)
        for number, part in enumerate(parts):
            before, after = parts[number - 1][-1:] if number else "", "".join(parts[number + 1 : number + 2])
            if part in (r"\"", r"\\"):
                build.text(part, part[1])
            elif part == r"\n" and after[:1].islower() and before not in (*".!?:", ""):
                build.seam(part + line_end, " " * (before != " "))
            elif part == r"\n":
                build.boundary(part + line_end * bool("".join(parts[number + 1 : number + 4])))
            elif number % 2:
                build.boundary(part)
            else:
                build.text(part)
        build.boundary(f'"{end}')
        return
    build.boundary(*lines)
