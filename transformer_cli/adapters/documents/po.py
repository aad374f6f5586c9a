"""Parses gettext catalogues (.po, .pot): messages without a translation are blocks, which become their `msgstr`.

A line before each of these messages marks it as a machine translation. Tags such as <b> go with their words. Existing
translations stay, including fuzzy ones. Plural forms stay empty, since their number and meaning differ between
languages.
"""

import re
from collections import Counter

from transformer_cli.adapters.corpora.po import MACHINE_COMMENT, Message, parse_messages, po_encoding, unescape
from transformer_cli.adapters.documents.blocks import Builder, Inline, Place, escaping_writer
from transformer_cli.adapters.documents.markup import inline_of_tag, tag_pattern
from transformer_cli.adapters.documents.parsed_file import LINE, NO_LETTER, LanguagePair, ParsedFile, decode_text
from transformer_cli.adapters.terminology.placeholders import TERMINAL_CODE

_MESSAGE_PART = re.compile(
    rf"(?P<code>{TERMINAL_CODE})|"
    r"(?P<bytes>(?:\\(?:[0-7]{1,3}|x[\da-fA-F]{1,2}))+)|(?P<escape>\\.)|[^\\<]+|"
    + tag_pattern("<", ">", r"(?:[^\\]|\\.)")
    + "|<"
)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})


def parse_po(content: bytes, languages: LanguagePair, mark: str = MACHINE_COMMENT) -> ParsedFile:
    """Parse the messages of a catalogue. mark: the line for a translated message. Raises DataError for other files."""
    encoding = po_encoding(content)
    text, encode = decode_text(content, encoding)
    build, kept = Builder(escaping_writer(lambda words: words.translate(_ESCAPES))), Counter[str]()
    for message in parse_messages(LINE.findall(text)):
        if message.msgstr_lines:
            _add_message(build, message, kept, encoding, mark)
        else:
            build.end_block(*message.lines_before)
    build.end_block()
    return ParsedFile([build.document], encode, kept)


def _add_message(build: Builder, message: Message, kept: Counter[str], encoding: str, mark: str) -> None:
    """Add a message, with the existing `msgstr`, or else with `mark` and the text to translate."""
    source, before, lines = "".join(message.strings.get("msgid", ())), message.lines_before, message.msgstr_lines
    # msgctxt, msgid or, directly before them, the previous msgid
    start = next((n for n, line in enumerate(before) if line.lstrip().startswith(("msg", "#|"))), 0)
    is_new = bool(source) and not message.is_translated and "msgid_plural" not in message.strings
    marks = [mark + ("\r\n" if before[start].endswith("\r\n") else "\n")] if is_new else []
    build.end_block(*before[:start], *marks, *before[start:])
    build.place = Place(f"line {message.number}")
    if message.is_translated:
        kept["fuzzy" if message.is_fuzzy else "already translated"] += bool(source)  # not the header
    elif "msgid_plural" in message.strings:
        kept["plural forms"] += 1
    elif source:
        end = lines[-1][len(lines[-1].rstrip()) :]
        line_end = '"' + ("\r\n" if end == "\r\n" else "\n") + '"'
        build.end_block(lines[0][: lines[0].index('"') + 1])
        if r"\n" in source.removesuffix(r"\n"):
            build.end_block(line_end)
        kept[NO_LETTER] += not _add_text(build, source, line_end, encoding)
        build.end_block(f'"{end}')
        return
    build.end_block(*lines)


def _add_text(build: Builder, source: str, line_end: str, encoding: str) -> bool:
    """Add the text of a message. Returns whether it has a letter."""
    inlines = list[Inline]()
    for part in _MESSAGE_PART.finditer(source):
        if part["name"]:
            inlines.append(inline_of_tag(part))
        elif part["code"]:
            colour, is_end = "\033[" * part[0].endswith("m"), part[0].endswith(("[m", "[0m"))  # goes with its words
            inlines.append(Inline(part[0], closes=colour) if is_end else Inline(part[0], opens=colour))
        elif part[0] == r"\n":
            inlines.append(Inline(part[0] + line_end * (part.end() < len(source)), kind="line_end"))
        else:
            text = unescape(part[0], encoding)
            is_byte_of_text = "\ufffd" not in text and (text.isprintable() or text.isspace())
            is_text = part["escape"] in (r"\"", r"\\") if part["escape"] else is_byte_of_text or not part["bytes"]
            inlines.append(Inline(part[0], text * is_text, kind="block_end" if part["escape"] else ""))
    return build.add_inlines(inlines)
