"""The parser of each format of documents. Knows no models.

It parses a file into text to translate and everything else, which stays as it is, byte for byte.
"""

import re
from collections.abc import Callable
from functools import partial

from transformer_cli.adapters.documents.blocks import Builder, Inline, escaping_writer
from transformer_cli.adapters.documents.epub import parse_epub
from transformer_cli.adapters.documents.files import PLAIN_TEXT
from transformer_cli.adapters.documents.json_text import parse_json
from transformer_cli.adapters.documents.markdown import parse_markdown, parse_notebook
from transformer_cli.adapters.documents.markup import MAX_PAGE_START, decode_page, parse_html
from transformer_cli.adapters.documents.opendocument import parse_opendocument
from transformer_cli.adapters.documents.parsed_file import LINE, LanguagePair, ParsedFile, decode_text
from transformer_cli.adapters.documents.po import parse_po
from transformer_cli.adapters.documents.subtitles import parse_subtitles
from transformer_cli.adapters.documents.word import parse_word
from transformer_cli.adapters.documents.xliff import parse_xliff
from transformer_cli.config.schema import TranslationSettings

_PAGE_LANGUAGE = re.compile(r"<html\b[^>]*?\s(?:xml:)?lang\s*=\s*[\"']?([\w-]{1,40})", re.IGNORECASE)


def _parse_html_file(content: bytes, languages: LanguagePair, _: TranslationSettings) -> ParsedFile:
    text, encode = decode_page(content)
    named = _PAGE_LANGUAGE.search(text, 0, MAX_PAGE_START)
    return ParsedFile([parse_html(text, languages)], encode, languages=[(named[1], "")] if named else [])


def _parse_text(content: bytes, _: LanguagePair, __: TranslationSettings) -> ParsedFile:
    text, encode = decode_text(content)
    build = Builder(escaping_writer(str))
    for line in LINE.findall(text):
        build.add(Inline(line, line))
        build.end_block()
    return ParsedFile([build.document], encode)


PARSERS: dict[str, Callable[[bytes, LanguagePair, TranslationSettings], ParsedFile]] = {
    PLAIN_TEXT: _parse_text,
    "html": _parse_html_file,
    "docx": lambda content, languages, _: parse_word(content, languages),
    "pptx": lambda content, languages, _: parse_word(content, languages, "slide"),
    "epub": lambda content, languages, _: parse_epub(content, languages),
    "odf": lambda content, languages, _: parse_opendocument(content, languages),
    "xliff": parse_xliff,
    "po": parse_po,
    "json": parse_json,
    "md": parse_markdown,
    "mdx": partial(parse_markdown, is_mdx=True),
    "ipynb": parse_notebook,
    "srt": lambda content, languages, _: parse_subtitles(content, languages),
}
"""key of `files.FORMATS` → raises DataError, without the file's name, if the content is not in this format"""
