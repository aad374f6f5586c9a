"""Message catalogues (.po, .pot): messages without a translation are blocks, which become their `msgstr`.

Tags in them, such as <b>, go with their words. Translations that are there stay, fuzzy ones too; forms of the plural
stay empty, since how many there are and what they stand for differs between languages.
"""

import re
from collections import Counter

from transformer_cli.documents.blocks import Builder, escaping, nested
from transformer_cli.documents.opened import LINES, NO_LETTER, Languages, Opened, decoded
from transformer_cli.text.catalogues import Message, encoding_of, meant, messages
from transformer_cli.text.lines import has_letter

_PARTS = re.compile(  # of a message
    r"(?P<bytes>(?:\\(?:[0-7]{1,3}|x[\da-fA-F]{1,2}))+)|(?P<escape>\\.)"
    r"|(?P<tag><(?P<slash>/?)(?P<name>[a-zA-Z][\w:.-]{0,50}|\d{1,9})"
    r"(?:\s(?:[^<>\\=]|\\.)*=(?:[^<>\\]|\\.)*|\s{0,9}/?)>)|(?P<text>[^\\<]+|<)"
)
_PARTING = re.compile("br|d[dt]|div|h[1-6r]|li|ol|p|table|t[dhr]|ul")  # tags between blocks
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})


def open_catalogue(content: bytes, languages: Languages) -> Opened:
    """Cut a catalogue into its messages. Raises DataError if it is none."""
    encoding = encoding_of(content)
    text, encode = decoded(content, encoding)
    build, kept = Builder(escaping(lambda words: words.translate(_ESCAPED))), Counter[str]()
    for message in messages(LINES.findall(text)):
        build.boundary(*message.before)
        if message.translation:
            _add(build, message, kept, encoding)
    build.boundary()
    return Opened([build.document], lambda texts: encode(texts[0]), kept)


def _add(build: Builder, message: Message, kept: Counter[str], encoding: str) -> None:
    """Add the translation of a message: as it is, or its text, which becomes one."""
    source, lines = "".join(message.strings.get("msgid", ())), message.translation
    if message.is_translated:
        kept["fuzzy" if message.is_fuzzy else "translated already"] += bool(source)  # and not the header
    elif "msgid_plural" in message.strings:
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
        if text:
            build.text(raw, text)
        elif raw == r"\n":
            beside = "".join(texts[max(0, number - 1) : number]), "".join(texts[number + 1 : number + 2])
            build.line_end(raw + line_end * (number + 1 < len(parts)), *beside)
        elif part["escape"] or _PARTING.fullmatch(name):
            build.boundary(raw)
        elif number in pairs:
            (build.close if part["slash"] else build.open)(name, raw)
        else:
            build.point(raw)
    return has_letter("".join(texts))


def _meaning(part: re.Match[str], encoding: str) -> str:
    """Returns what an escape stands for, if that is text."""
    if part["escape"] not in (r"\"", r"\\", None):
        return ""
    text = meant(part["escape"] or part["bytes"] or "", encoding)
    return text if "\ufffd" not in text and (text.isprintable() or text.isspace()) else ""
