"""Parses OpenDocument files (text, slides, spreadsheets), whose paragraphs are blocks.

What is neither text, nor around text, nor a space is copied, such as a field or a picture; the paragraphs in it, as in
a footnote, are blocks of their own.
"""

from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

from transformer_cli.adapters.documents.archive import Archive, parse_members
from transformer_cli.adapters.documents.blocks import Block, Builder, Document, Inline, escaping_writer
from transformer_cli.adapters.documents.parsed_file import LanguagePair, ParsedFile
from transformer_cli.adapters.documents.word import CODE_STYLE
from transformer_cli.adapters.documents.xmltext import XmlEvent, escape_like, set_attributes, xml_events
from transformer_cli.errors import DataError
from transformer_cli.text.languages import is_language_code, is_other_language
from transformer_cli.text.normalization import primary_subtag

_PREFIXES = {"http://purl.org/dc/elements/1.1/": "dc:"} | {
    f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0": f"{name.partition('-')[0]}:"
    for name in ("office", "style", "text", "table", "presentation", "svg-compatible", "manifest")
}
_PREFIXES |= {
    "urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0": "fo:",
    "http://www.daisy.org/z3986/2005/ncx/": "ncx:",  # the table of contents of a book
}
_PARAGRAPHS = (
    *("text:p", "text:h", "text:index-title-template", "presentation:footer-decl", "presentation:header-decl"),
    *("svg:title", "svg:desc", "table:title", "table:desc", "dc:title", "ncx:text"),
)
_AROUND = (  # words
    *("text:span", "text:a", "text:meta", "text:ruby", "text:ruby-base"),
    *("text:bookmark-ref", "text:reference-ref", "text:sequence-ref"),
)
_SPACES = ("text:s", "text:tab", "text:line-break")
_KEPT = ("text:tracked-changes", "text:ruby-text")
_MAX_AROUND = 10  # nested elements around words; deeper ones end a block


@dataclass(slots=True)
class _Paragraph:
    """A paragraph whose end has not been read."""

    tag: str
    inlines: list[Inline] = field(default_factory=list)
    depth: int = 0
    """the number of open elements in one that is copied"""
    around: int = 0
    """the number of open elements around words"""
    last: str = ""
    """the last character of text"""
    copied: list[str | Block] = field(default_factory=list)
    """the markup of the last element that is copied"""

    def start_copied(self) -> None:
        self.copied = []
        self.inlines.append(Inline("", tail=self.copied))

    def add(self, event: XmlEvent, step: int, *, is_kept: bool) -> None:
        """Add a tag or text. step: 1 for a start tag, -1 for an end tag."""
        name = event.name
        if self.depth or (step and (is_kept or name not in (*_AROUND, *_SPACES))):
            if not self.depth:
                self.start_copied()
            self.copied.append(event.raw)
            self.depth += step
        elif step and name in _AROUND:
            self.around += step
            ends_block = self.around + (step < 0) > _MAX_AROUND
            names = ("", "") if ends_block else (name * (step > 0), name * (step < 0))
            self.inlines.append(Inline(event.raw, "", *names, "block_end" if ends_block else ""))
        elif step < 0:
            self.inlines[-1].raw += event.raw
        elif name == "text:s" and event.attributes.get("text:c", "1") == "1":
            self.inlines.append(Inline(event.raw, " " * (self.last.strip() != "")))
            self.last = " "
        elif step:
            self.inlines.append(Inline(event.raw, kind="block_end" if name == "text:tab" else "line_end"))
        else:
            self.inlines.append(Inline(event.raw, event.text))
            self.last = event.text[-1:] or self.last


def parse_opendocument(content: bytes, languages: LanguagePair) -> ParsedFile:
    """Parse the parts of an OpenDocument file: text, headers, charts, the title. Raises DataError for other files."""
    archive = Archive(content)
    if not (archive.read("mimetype") or b"").startswith(b"application/vnd.oasis.opendocument."):
        raise DataError("not an OpenDocument file; give it the suffix of its format")
    if any(archive.read_tags("META-INF/manifest.xml", _PREFIXES, "manifest:encryption-data")):
        raise DataError("encrypted; save the document without a password")
    names = [name for name in archive.names if PurePosixPath(name).name in ("content.xml", "styles.xml", "meta.xml")]
    parsers = {name: partial(parse_part, languages=languages, name=name) for name in names}
    return parse_members(archive, parsers, languages[0])


def parse_part(source: str, language: str = "", *, languages: LanguagePair = ("", ""), name: str = "") -> Document:
    """Parse the XML of one part of a document into paragraphs. Raises DataError if it is not well-formed.

    language: see `parse_marked`. languages: codes of source and target; the source language in a style becomes the
    target language. name: of the part.
    """
    document = Document([], [], place=f"{name.removesuffix('.xml')}, " * bool(name))
    write = escaping_writer(escape_like(source))
    open_ = list[_Paragraph]()  # each in an element that is copied in the one before it
    n_kept, last = 0, ""  # open elements in one that is not translated; the last start tag
    styles, style = dict[str, str](), ""  # why text in a style is kept; the style that is open
    seen = set[Block]()
    for event in xml_events(source, _PREFIXES):
        step = {"start": 1, "end": -1}.get(event.kind, 0)
        value = event.attributes.get
        if event.name == "style:style":
            style = f"{value('style:family')} {value('style:name')}" * (step > 0)
        if event.name == "style:style" and step > 0:
            parent = value("style:parent-style-name", "")
            is_code = any(CODE_STYLE.fullmatch(each.replace("_20_", "")) for each in (style.split()[-1], parent))
            styles[style] = "code" * is_code
        elif spoken := value("fo:language") or event.text * (last == "dc:language" and event.kind == "text"):
            if primary_subtag(spoken) == primary_subtag(languages[0]):
                new = {"fo:language": languages[1], "fo:country": "none"}
                event = event._replace(raw=set_attributes(event.raw, new) if step else languages[1])
            elif language and is_language_code(spoken) and is_other_language(spoken, language):
                styles[style] = styles.get(style) or "language"
        last = event.name if step > 0 else ""
        family = "text" if event.name == "text:span" else "paragraph"
        why = styles.get(f"{family} {value('text:style-name')}") if step > 0 and not n_kept else ""
        document.n_other_language += why == "language"
        is_value = value("table:formula") or value("office:value-type", "string") != "string"
        is_kept = n_kept or (step > 0 and (why or is_value or event.name in _KEPT))
        n_kept += step * bool(is_kept)
        is_paragraph = event.name in _PARAGRAPHS and not is_kept
        if is_paragraph and step > 0:
            if open_ and not open_[-1].depth:
                open_[-1].start_copied()
            open_.append(_Paragraph(event.raw))
            continue
        parts: list[str | Block] = [event.raw]
        if is_paragraph and step < 0:
            paragraph = open_.pop()
            build = Builder(write)
            build.place = document.next_place()
            build.add_inlines(paragraph.inlines)
            build.end_block()
            document.blocks += [each for each in build.document.blocks if each not in seen]
            seen.update(build.document.blocks)
            parts = [paragraph.tag, *build.document.parts, event.raw]
            if open_:
                open_[-1].copied += parts
        elif open_:
            open_[-1].add(event, step, is_kept=bool(is_kept))
        if not open_:
            document.parts += parts
    return document
