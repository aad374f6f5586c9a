"""XML, cut into tags and text where they stand. Expands no entity and reads no document type. The one user of expat."""

import html
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from xml.parsers import expat

from transformer_cli.adapters.documents.parsed_file import decode_text
from transformer_cli.errors import DataError

PARSED_BYTES = 1 << 13  # bytes that expat is given at a time
MAX_EVENTS = 1_500_000  # of a document, with the texts between them, each of which takes memory
MAX_XML_DEPTH = 200  # elements inside each other
XML_ENCODING = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([\w.:-]+)")
_QUOTE_ENTITY = re.compile("&(quot|apos|#39|#34);")


class XmlEvent(NamedTuple):
    """A tag, text, or what else there is, such as a comment."""

    kind: str
    """"start", "end" (of an empty tag, too), "text" or "other" """
    name: str
    """of a tag: the prefix of its namespace and its name"""
    raw: str
    """as it is written; nothing for the end of an empty tag"""
    text: str = ""
    """what text means"""
    attributes: Mapping[str, str] = {}


def decode_xml(content: bytes) -> tuple[str, Callable[[str], bytes]]:
    """Like `decode_text`, in the declared encoding; characters that it lacks are written like &#8222;."""
    found = XML_ENCODING.match(content)
    named = found[1].decode() if found else "utf-8"  # UTF-16 has its mark
    return decode_text(content, "utf-8" if named.lower().startswith("utf") else named, "xmlcharrefreplace")


def xml_events(source: str, prefixes: Mapping[str, str]) -> Iterator[XmlEvent]:
    """Yield what a document consists of, in its order: joined, `raw` is the document. Raises DataError.

    prefixes: those of namespaces that are known, such as "w:"; others have "?:", and what is in none has no prefix.
    """
    parser = expat.ParserCreate("utf-8", " ")  # whatever the document says
    found: list[tuple[int, str, str, str, Mapping[str, str]]] = []  # where each begins in bytes, and its fields

    def named(name: str) -> str:
        space, _, local = name.rpartition(" ")
        return (prefixes.get(space, "?:") if space else "") + local

    def refuse(*_: Any) -> None:
        raise DataError("XML with a document type, which could stand for anything; save it without one")

    def add(kind: str, name: str = "", text: str = "", attributes: Mapping[str, str] = {}) -> None:
        found.append((parser.CurrentByteIndex, kind, name, text, attributes))

    parser.StartElementHandler = lambda name, attributes: add(
        "start", named(name), "", {named(key): value for key, value in attributes.items()}
    )
    parser.EndElementHandler = lambda name: add("end", named(name))
    parser.CharacterDataHandler = lambda text: add("text", "", text)
    parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = lambda: add("text")
    parser.DefaultHandler = lambda _: add("other")
    parser.StartDoctypeDeclHandler = refuse
    content, last, n_tags, depth = source.encode(), 0, 0, 0
    raws, texts = list[str](), list[str]()  # of text that goes on
    for place in range(0, len(content) + PARSED_BYTES, PARSED_BYTES):
        try:
            parser.Parse(content[place : place + PARSED_BYTES], place >= len(content))
        except expat.ExpatError as error:
            raise DataError(f"not whole XML: line {error.lineno}: {expat.ErrorString(error.code)}") from None
        n_tags += len(found)
        if n_tags > MAX_EVENTS:
            raise DataError(f"XML with more than {MAX_EVENTS:,} tags and texts; translate its parts")
        ends = [*(each[0] for each in found[1:]), len(content)]
        n_whole = len(found) if place >= len(content) else len(found) - 1  # where the last one ends is not known yet
        for (start, kind, name, text, attributes), end in zip(found[:n_whole], ends, strict=False):
            raw = content[max(start, last) : end].decode()
            depth += {"start": 1, "end": -1}.get(kind, 0)
            if depth > MAX_XML_DEPTH:
                raise DataError(f"XML with more than {MAX_XML_DEPTH} elements inside each other")
            last = max(end, last)
            if kind == "text":
                raws.append(raw)
                texts.append(text)
                continue
            if raws:
                yield XmlEvent("text", "", "".join(raws), "".join(texts))
                raws, texts = [], []
            yield XmlEvent(kind, name, raw, text, attributes)
        del found[:n_whole]


def tag_name(tag: str) -> str:
    """Returns the name of an element as it is written, with its prefix. tag: the tag, and perhaps more."""
    return re.split(r"[\s/>]", tag[1:], maxsplit=1)[0]


def escape_like(source: str) -> Callable[[str], str]:
    """Returns what writes text as a document does: its line ends, and entities for quotation marks if it has them."""
    entities = {html.unescape(found): found for found in (match[0] for match in _QUOTE_ENTITY.finditer(source))}
    table = {ord(char): entity for char, entity in {"&": "&amp;", "<": "&lt;", ">": "&gt;", **entities}.items()}
    table[10] = "\r\n" if "\r\n" in source else "\n"
    return lambda text: text.translate(table)
