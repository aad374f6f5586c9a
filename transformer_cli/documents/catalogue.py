"""Message catalogues (.po, .pot): messages without a translation are blocks, which become their `msgstr`.

Translations that are there stay, fuzzy ones too; forms of the plural stay empty, since how many there are and what they
stand for differs between languages.
"""

import re
from collections import Counter

from transformer_cli.documents.blocks import Builder, escaping
from transformer_cli.documents.opened import Languages, Opened, decoded
from transformer_cli.text.catalogues import ESCAPE, Message, encoding_of, meant, messages

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})


def open_catalogue(content: bytes, languages: Languages) -> Opened:
    """Cut a catalogue into its messages. Raises DataError if it is none."""
    encoding = encoding_of(content)
    text, encode = decoded(content, encoding)
    build, kept = Builder(escaping(lambda words: words.translate(_ESCAPED))), Counter[str]()
    for message in messages(_LINES.findall(text)):
        build.boundary(*message.before)
        if message.translation:
            _add(build, message, kept, encoding)
    build.boundary()
    return Opened([build.document], lambda texts: encode(texts[0]), kept)


def _add(build: Builder, message: Message, kept: Counter[str], encoding: str) -> None:
    """Add the translation of a message: as it is, or its text, which becomes one."""
    source, lines = message.strings.get("msgid", ""), message.translation
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
        parts = ESCAPE.split(source)
        for number, part in enumerate(parts):
            before, after = parts[number - 1][-1:] if number else "", "".join(parts[number + 1 : number + 2])
            if number % 2 and part[1] in '"\\01234567x':
                build.text(part, meant(part, encoding))
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
