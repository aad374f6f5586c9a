"""Parses EPUB books: their pages as HTML, the title and the table of contents as XML."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from transformer_cli.adapters.documents.archive import Archive, parse_members
from transformer_cli.adapters.documents.blocks import Document
from transformer_cli.adapters.documents.markup import decode_page, parse_page
from transformer_cli.adapters.documents.opendocument import parse_part
from transformer_cli.adapters.documents.parsed_file import LanguagePair, ParsedFile
from transformer_cli.errors import DataError

_PREFIXES = {
    "urn:oasis:names:tc:opendocument:xmlns:container": "",
    "http://www.idpf.org/2007/opf": "",
    "http://www.w3.org/2001/04/xmlenc#": "",
    "http://purl.org/dc/elements/1.1/": "dc:",
}
_PARSERS: dict[str, Callable[..., Document]] = {  # by media types; the last one is a table of contents
    "application/xhtml+xml": parse_page, "text/html": parse_page, "application/x-dtbncx+xml": parse_part
}  # fmt: skip


def parse_epub(content: bytes, languages: LanguagePair) -> ParsedFile:
    """Parse the pages of a book, its title and its table of contents. Raises DataError for other files."""
    archive = Archive(content)
    roots = archive.read_tags("META-INF/container.xml", _PREFIXES, "rootfile")
    packages = [each.attributes.get("full-path", "") for each in roots]
    if not packages:
        raise DataError("not an EPUB book; give it the suffix of its format")
    parsers = {name: partial(parse_part, languages=languages, name=name) for name in packages}
    named = list[str]()
    for package in packages:
        for each in archive.read_tags(package, _PREFIXES, "item", "dc:language"):
            name = normpath(join(dirname(package), unquote(each.attributes.get("href", ""))))
            if parse := _PARSERS.get(each.attributes.get("media-type", "")):
                parsers[name] = partial(parse, languages=languages, name=name)
            named += [each.text.strip()] * (each.name == "dc:language")
    for each in archive.read_tags("META-INF/encryption.xml", _PREFIXES, "CipherReference"):  # of fonts, too, which stay
        if (name := unquote(each.attributes.get("URI", ""))) in parsers:
            raise DataError(f"{name[:80]}: encrypted (DRM); only a book without it can be translated")
    parsed = parse_members(archive, parsers, languages[0], decode_page)
    return replace(parsed, languages=[(each, "") for each in named if each])
