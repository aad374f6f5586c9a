"""Parses JSON of translations, whose messages are blocks. Keys and all between the messages stay byte for byte."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator

from transformer_cli.adapters.corpora.json_messages import LOCALE, json_strings
from transformer_cli.adapters.documents.blocks import Inline, Place
from transformer_cli.adapters.documents.markup import message_builder
from transformer_cli.adapters.documents.parsed_file import NO_LETTER, LanguagePair, ParsedFile, decode_text
from transformer_cli.adapters.terminology.conversions import Conversions
from transformer_cli.adapters.terminology.placeholders import STAND_IN
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.text.normalization import primary_subtag

MAX_PLACE_CHARS = 100
_NOT_ASCII = re.compile(rf"[^\x00-\x7f{STAND_IN.pattern[1:-1]}]")
_ESCAPE = re.compile(r"\\(?:u[\da-fA-F]{4}|[^u])")
_MESSAGE_PART = re.compile(
    r"(?P<line_end>(?:\\r)?\\n)|(?P<end>\\[rtbf]|\\u00[01][\da-fA-F]|\s\|\s)"  # "a dog | dogs", as Vue has plurals
    r"|(?P<held>\$[\w@]{1,50}\$|@(?:\.\w{1,20})?:\w[\w.]{0,99})"  # $USER$ of Chrome, @:other.key of Vue
    r"|\\u[dD][89aA][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"
    r"|(?P<surrogate>\\u[dD][bB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u[dD][89a-fA-F][\da-fA-F]{2})"  # or private
    r"|\\u[\da-fA-F]{4}|\\[^u]|(?:[^\\\s$@]|\s(?!\|\s))+|[\s$@]"
)


def parse_json(content: bytes, languages: LanguagePair, settings: TranslationSettings) -> ParsedFile:
    """Parse the messages of JSON. Raises DataError for other files."""
    text, encode = decode_text(content)
    strings = [*json_strings(text)]  # raises an error for other text
    build, kept = message_builder(text, escape_like(text), languages, settings), Counter[str]()
    conversions, named, done = build.document.conversions, list[LanguagePair](), 0
    conversions.keeps_code = True
    for each in strings:
        start, end = each.span[0] + 1, each.span[1] - 1
        if each.key == LOCALE:
            named.append((each.value, ""))
            if primary_subtag(each.value) == primary_subtag(languages[0]):
                build.end_block(text[done:start], languages[1])
                done = end
        elif each.why:
            kept[each.why] += 1
        else:
            build.end_block(text[done:start])
            build.place = Place(f"key {each.key[-MAX_PLACE_CHARS:]}")
            conversions.start_message()
            inlines = build.parse_text([*_inlines(conversions.replace(text[start:end]), conversions)])
            kept[NO_LETTER] += not build.add_inlines(inlines)
            done = end
    build.end_block(text[done:])
    return ParsedFile([build.document], encode, kept, named)


def escape_like(text: str) -> Callable[[str], str]:
    """Returns a function that writes text in a string of JSON; characters that the file escapes are escaped alike."""
    written = {char: json.dumps(char)[1:-1] for char in '"\\\n\r\t'}
    written |= {json.loads(f'"{each}"'): each for each in {*_ESCAPE.findall(text)}}
    table, is_ascii = str.maketrans(written), text.isascii() and "\\u" in text

    def escape(words: str) -> str:
        words = words.translate(table)
        return _NOT_ASCII.sub(lambda char: json.dumps(char[0])[1:-1], words) if is_ascii else words

    return escape


def _inlines(source: str, conversions: Conversions) -> Iterator[Inline]:
    """Yield the inside of a string as text, without escapes, and what is no text in it."""
    for part in _MESSAGE_PART.finditer(source):
        if part["line_end"] or part["end"]:
            yield Inline(part[0], kind="line_end" if part["line_end"] else "block_end")
        else:
            hold = part["held"] or part["surrogate"]
            yield Inline(part[0], conversions.hold(part[0]) if hold else json.loads(f'"{part[0]}"'))
