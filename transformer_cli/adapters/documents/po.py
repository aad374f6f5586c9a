"""Parses gettext catalogues (.po, .pot): messages without a translation are blocks, which become their `msgstr`.

A line before each of these messages marks it as a machine translation. Tags such as <b> go with their words. Existing
translations stay, including fuzzy ones; only those with this mark can be renewed. Plural forms stay empty unless the
header (Plural-Forms) says that there is only one, or one for each of msgid and msgid_plural.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from transformer_cli.adapters.corpora.po import MARKS, Message, header_languages, parse_messages, po_encoding, unescape
from transformer_cli.adapters.documents.blocks import Builder, Inline, Place
from transformer_cli.adapters.documents.markup import message_builder
from transformer_cli.adapters.documents.parsed_file import LINE, NO_LETTER, LanguagePair, ParsedFile, decode_text
from transformer_cli.adapters.terminology.placeholders import TERMINAL_CODE
from transformer_cli.config.schema import TranslationSettings

_MESSAGE_PART = re.compile(
    rf"(?P<code>{TERMINAL_CODE})|(?P<line_end>\\n(?: {{10,}})?)|"  # before a further line of the text of an option
    r"(?P<bytes>(?:\\(?:[0-7]{1,3}|x[\da-fA-F]{1,2}))+)|(?P<escape>\\.)|[^\\]+"
)
_KEPT_PART = re.compile(  # an option that begins a line, up to its text; `words <link>`_ and :ref:`words <link>`
    r"((?:\A|(?<=\\n)) *-{1,2}[\w?#@](?:(?! {2}|\\[nt]).)*(?: {2,}|(?:\\t)+)(?=\S)"
    r"|(?<![\w`])(?::[a-zA-Z][\w:+.-]*:)?`(?=[^`<>]+ <[^`<>]+>`)| <[^`<>]+>`_{0,2})"
)
_PLURAL_RULES = {  # of a header → the source string of each plural form
    re.compile(r"nplurals\s*=\s*1\s*;"): ["msgid_plural"],
    re.compile(r"nplurals\s*=\s*2\s*;\s*plural\s*=[\s(]*n\s*(?:!=|>)\s*1[\s)]*(?:;|\\n|\Z)"): ["msgid", "msgid_plural"],
}
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"})


def parse_po(
    content: bytes, languages: LanguagePair, settings: TranslationSettings = TranslationSettings()
) -> ParsedFile:
    """Parse the messages of a catalogue. Raises DataError for other files."""
    encoding = po_encoding(content)
    text, encode = decode_text(content, encoding)
    build = message_builder(text, lambda words: words.translate(_ESCAPES), languages, settings)
    build.document.conversions.keeps_code = True
    forms: Sequence[str] = ()  # see `_add_message`
    kept, named = Counter[str](), list[LanguagePair]()
    for message in parse_messages(LINE.findall(text)):
        if message.strings and not any(message.strings.get("msgid", ())):  # the header
            header = "".join(message.strings.get("msgstr", ()))
            forms = next((found for rule, found in _PLURAL_RULES.items() if rule.search(header)), ())
            named.append(header_languages(unescape(header, encoding)))
        if message.msgstr_lines:
            mark = MARKS[settings.fuzzy] * (settings.fuzzy or not message.is_by_machine)
            _add_message(build, message, kept, encoding, mark, forms, renew=settings.renew)
        else:
            build.end_block(*message.lines_before)
    build.end_block()
    return ParsedFile([build.document], encode, kept, named)


def _add_message(
    build: Builder, message: Message, kept: Counter[str], encoding: str, mark: str, forms: Sequence[str], *, renew: bool
) -> None:
    """Add a message, with the existing `msgstr`, or else with `mark` and the text to translate.

    forms: for each plural form of the target language, its source: msgid or msgid_plural; empty if they are unknown.
    renew: see `TranslationSettings`.
    """
    before, lines, is_plural = message.lines_before, message.msgstr_lines, "msgid_plural" in message.strings
    sources = ["".join(message.strings.get(each, "")) for each in (forms if is_plural else ["msgid"])]
    targets = [n for n, line in enumerate(lines) if line.lstrip().startswith("msgstr")]
    # msgctxt, msgid or, directly before them, the previous msgid
    start = next((n for n, line in enumerate(before) if line.lstrip().startswith(("msg", "#|"))), 0)
    old = [unescape("".join(texts), encoding) for key, texts in message.strings.items() if key.startswith("msgstr")]
    is_kept = message.is_translated and not (renew and message.is_by_machine and not message.is_fuzzy)
    is_new = all(sources) and len(sources) == len(targets) and not is_kept
    marks = [mark + ("\r\n" if before[start].endswith("\r\n") else "\n")] if is_new and mark else []
    build.end_block(*before[:start], *marks, *before[start:])
    if not is_new:
        reason = "plural forms" if not message.is_translated else "fuzzy" if message.is_fuzzy else "already translated"
        kept[reason] += any(message.strings.get("msgid", ()))  # not the header
        build.end_block(*lines)
        return
    flags = {flag.strip() for line in before if line.startswith(("#,", "#=")) for flag in line[2:].split(",")}
    for form, (source, (first, last)) in enumerate(zip(sources, pairwise([*targets, len(lines)]), strict=True)):
        part = f", plural form {form}" * is_plural
        build.place = Place(f"line {message.number}", part, replaced=old[form], flags=flags)
        build.document.conversions.start_message(flags)
        form_text = "".join(lines[first:last])
        end = form_text[len(form_text.rstrip()) :]
        line_end = '"' + ("\r\n" if end.startswith("\r\n") else "\n") + '"'
        build.end_block(lines[first][: lines[first].index('"') + 1])
        if r"\n" in source.removesuffix(r"\n"):
            build.end_block(line_end)
        inlines, parts = list[Inline](), _KEPT_PART.split(source)
        for number, part in enumerate(map(build.document.conversions.replace, parts)):
            if number % 2 == 0:
                inlines += _inlines(part, line_end, encoding, is_last=number + 1 == len(parts))
            elif part.rstrip("_").endswith("`"):
                inlines.append(Inline(part, closes="`") if part[0] == " " else Inline(part, opens="`"))
            else:
                inlines.append(Inline(part, kind="block_end"))
        inlines = build.parse_text(inlines)
        kept[NO_LETTER] += not build.add_inlines(inlines)
        build.end_block(f'"{end}')


def _inlines(source: str, line_end: str, encoding: str, *, is_last: bool) -> Iterator[Inline]:
    """Yield a part of a message's text, without escapes, and what is no text in it. is_last: whether it ends there."""
    for part in _MESSAGE_PART.finditer(source):
        if part["code"]:
            colour, is_end = "\033[" * part[0].endswith("m"), part[0].endswith(("[m", "[0m"))  # goes with its words
            yield Inline(part[0], closes=colour) if is_end else Inline(part[0], opens=colour)
        elif part["line_end"]:
            has_more = part.end() < len(source) or not is_last
            yield Inline(rf"\n{line_end * has_more}{part[0][2:]}", kind="line_end")
        else:
            text = unescape(part[0], encoding)
            is_byte_of_text = "\ufffd" not in text and (text.isprintable() or text.isspace())
            is_text = part["escape"] in (r"\"", r"\\") if part["escape"] else is_byte_of_text or not part["bytes"]
            yield Inline(part[0], text * is_text, kind="block_end" if part["escape"] else "")
