"""Cuts XML into tags and text, byte for byte. Expands no entities, refuses definitions. Only importer of expat."""

import html
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from xml.parsers import expat

from transformer_cli.adapters.documents.parsed_file import decode_text
from transformer_cli.errors import DataError

PARSED_BYTES = 1 << 13  # by expat at a time
MAX_EVENTS = 1_500_000  # of a document; each takes memory
MAX_XML_DEPTH = 200  # of nested elements
XML_ENCODING = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([\w.:-]+)")
_QUOTE_ENTITY = re.compile("&(quot|apos|#39|#34);")


class XmlEvent(NamedTuple):
    """A tag, text, or something else such as a comment."""

    kind: str
    """"start", "end" (an empty tag has both), "text" or "other" """
    name: str
    """of a tag: the prefix of its namespace and its name"""
    raw: str
    """as written; "" for the end of an empty tag"""
    text: str = ""
    """the text without entities"""
    attributes: Mapping[str, str] = {}


def decode_xml(content: bytes) -> tuple[str, Callable[[str], bytes]]:
    """Like `decode_text`, in the declared encoding; characters that it lacks are written like &#8222;."""
    found = XML_ENCODING.match(content)
    named = found[1].decode() if found else "utf-8"  # UTF-16 has a byte order mark
    return decode_text(content, "utf-8" if named.lower().startswith("utf") else named, "xmlcharrefreplace")


def xml_events(source: str, prefixes: Mapping[str, str]) -> Iterator[XmlEvent]:
    """Yield the events of a document in order; the `raw` of all of them, joined, is the document. Raises DataError.

    prefixes: namespace → prefix, such as "w:"; other namespaces get "?:", names without a namespace no prefix.
    """
    parser = expat.ParserCreate("utf-8", " ")  # whatever encoding the document declares
    found: list[tuple[int, str, str, str, Mapping[str, str]]] = []  # the first byte of each event, and its fields

    def with_prefix(name: str) -> str:
        space, _, local = name.rpartition(" ")
        return (prefixes.get(space, "?:") if space else "") + local

    def refuse_entities(name: str, system_id: str | None, public_id: str | None, has_definitions: int) -> None:
        if has_definitions:  # otherwise it only names a file, which is not read
            raise DataError("XML with a document type that may define entities; save it without one")
        add("other")

    def add(kind: str, name: str = "", text: str = "", attributes: Mapping[str, str] = {}) -> None:
        found.append((parser.CurrentByteIndex, kind, name, text, attributes))

    parser.StartElementHandler = lambda name, attributes: add(
        "start", with_prefix(name), "", {with_prefix(key): value for key, value in attributes.items()}
    )
    parser.EndElementHandler = lambda name: add("end", with_prefix(name))
    parser.CharacterDataHandler = lambda text: add("text", "", text)
    parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = lambda: add("text")
    parser.DefaultHandler = lambda _: add("other")
    parser.StartDoctypeDeclHandler = refuse_entities
    content, last, n_events, depth = source.encode(), 0, 0, 0
    raws, texts = list[str](), list[str]()  # of text in several pieces
    for position in range(0, len(content) + PARSED_BYTES, PARSED_BYTES):
        try:
            parser.Parse(content[position : position + PARSED_BYTES], position >= len(content))
        except expat.ExpatError as error:
            raise DataError(f"not well-formed XML: line {error.lineno}: {expat.ErrorString(error.code)}") from None
        n_events += len(found)
        if n_events > MAX_EVENTS:
            raise DataError(f"XML with more than {MAX_EVENTS:,} tags and texts; translate it in parts")
        ends = [*(each[0] for each in found[1:]), len(content)]
        n_complete = len(found) if position >= len(content) else len(found) - 1  # the last one may go on
        for (_, kind, name, text, attributes), end in zip(found[:n_complete], ends, strict=False):
            raw = content[last:end].decode()
            depth += {"start": 1, "end": -1}.get(kind, 0)
            if depth > MAX_XML_DEPTH:
                raise DataError(f"XML with more than {MAX_XML_DEPTH} nested elements")
            last = max(end, last)
            if kind == "text":
                raws.append(raw)
                texts.append(text)
                continue
            if raws:
                yield XmlEvent("text", "", "".join(raws), "".join(texts))
                raws, texts = [], []
            yield XmlEvent(kind, name, raw, text, attributes)
        del found[:n_complete]


def tag_name(tag: str) -> str:
    """Returns the name of an element as written, with its prefix. tag: a string that begins with its tag."""
    return re.split(r"[\s/>]", tag[1:], maxsplit=1)[0]


def escape_like(source: str) -> Callable[[str], str]:
    """Returns a function that escapes text with the line ends and quotation-mark entities that `source` uses."""
    entities = {html.unescape(found): found for found in (match[0] for match in _QUOTE_ENTITY.finditer(source))}
    table = {ord(char): entity for char, entity in {"&": "&amp;", "<": "&lt;", ">": "&gt;", **entities}.items()}
    table[10] = "\r\n" if "\r\n" in source else "\n"
    return lambda text: text.translate(table)


def set_attributes(tag: str, attributes: Mapping[str, str]) -> str:
    """Returns a start tag with new values of some attributes."""
    for name, value in attributes.items():
        new = f' {name}="{value}"'
        tag, n_found = re.subn(rf"\s{name}\s*=\s*(\"[^\"]*\"|'[^']*')", new, tag, count=1)
        if not n_found:
            end = len(tag) - 1 - tag.endswith("/>")
            tag = tag[:end] + new + tag[end:]
    return tag
