"""Parses Word documents and PowerPoint presentations, whose paragraphs are blocks.

The text of slides, charts and diagrams (`a:p`, `a:r`, `a:t`) is read as Word's (`w:p`, `w:r`, `w:t`).

A paragraph is a sequence of items: texts, other content of runs (a tab, a picture), and content between runs (a
bookmark, the ends of a link). A paragraph without a letter stays as it is. Otherwise each item that is not text gets a
run of its own. Words get runs with the properties of the words that they are linked to, or else with the properties of
most characters of the paragraph. Neighbouring runs with equal properties become one.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, groupby, pairwise
from operator import itemgetter
from pathlib import PurePosixPath

from transformer_cli.adapters.documents.archive import Archive, parse_members
from transformer_cli.adapters.documents.blocks import Block, Builder, Document, Inline, Unescaped, nested_pairs
from transformer_cli.adapters.documents.parsed_file import LanguagePair, ParsedFile
from transformer_cli.adapters.documents.xmltext import XmlEvent, escape_like, tag_name, xml_events
from transformer_cli.errors import DataError
from transformer_cli.text.languages import is_language_code, is_other_language
from transformer_cli.text.lines import has_letter
from transformer_cli.text.normalization import is_word, primary_subtag

NAMES = {"word": "a Word document (DOCX)", "slide": "a PowerPoint presentation (PPTX)"}
_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w:",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w:",
    "http://schemas.openxmlformats.org/package/2006/content-types": "",
    "http://purl.org/dc/elements/1.1/": "dc:",
}
_DRAWING = {
    "http://schemas.openxmlformats.org/drawingml/2006/main": "w:",
    "http://purl.oclc.org/ooxml/drawingml/main": "w:",
    "http://schemas.openxmlformats.org/drawingml/2006/chart": "c:",
    "http://purl.oclc.org/ooxml/drawingml/chart": "c:",
    "http://schemas.openxmlformats.org/presentationml/2006/main": "p:",
    "http://purl.oclc.org/ooxml/presentationml/main": "p:",
}
_PREFIXES_OF = {  # kind of a part → namespaces; the sample texts of a layout are in `layout:ph`
    "slide": _DRAWING,
    "drawing": _DRAWING,
    "layout": {space: "layout:" if prefix == "p:" else prefix for space, prefix in _DRAWING.items()},
}
_TRANSLATED_PARTS = re.compile(  # by their types
    r"application/vnd\.(?:(?P<word>(?:openxmlformats-officedocument\.wordprocessingml|ms-word)\."
    r"(?:(?:document|template)(?:\.macroEnabled(?:Template)?)?\.main|header|footer|footnotes|endnotes|comments))|"
    r"(?P<slide>(?:openxmlformats-officedocument\.presentationml|ms-powerpoint)\."
    r"(?:(?:presentation|slideshow|template)(?:\.macroEnabled)?\.main|slide|notesSlide|comments))|"
    r"(?P<layout>openxmlformats-officedocument\.presentationml\.slide(?:Layout|Master))|"
    r"(?P<drawing>(?:openxmlformats-officedocument|ms-office)\.drawingml\.(?:chart|chartshapes|diagram(?:Data|Drawing)))|"
    r"openxmlformats-(?:officedocument\.wordprocessingml\.styles|package\.core-properties))\+xml"
)
_CONTAINERS = (
    *("w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:sdt", "w:sdtContent", "w:fldSimple", "w:customXml"),
    *("w:dir", "w:bdo", "w:rubyBase"),
)
_START_OF = {"w:bookmarkEnd": "w:bookmarkStart", "w:commentRangeEnd": "w:commentRangeStart"}
_TABS_AND_BREAKS = ("w:tab", "w:br", "w:cr", "w:ptab")
_NO_BREAK_HYPHEN = "w:noBreakHyphen"  # a character, but outside <w:t>
_MAX_FIELD_DEPTH = 50  # the content of the innermost field is copied once per level
_MAX_GROWTH = 20  # of a paragraph's size, since each item repeats the properties of its run
_RECOMPUTED = ("w:proofErr", "w:lastRenderedPageBreak")  # by Word when it opens the document
_NUMBERS = ("c:numCache", "c:numLit")  # of a chart, such as 1.5E-3 and #N/A
_PLAIN_TEXTS = ("dc:title", "c:v", "p:text")  # the title, names and categories of a chart, comments
_PROPERTIES = ("w:pPr", "w:rPr", "w:sdtPr", "w:sdtEndPr", "w:smartTagPr", "w:customXmlPr")
_WITHOUT_TEXT = (*_PROPERTIES, *_START_OF, "w:fldChar")  # paragraphs in them are not translated
_REVISION = re.compile(  # the editing session in which a run was written; whether its spelling is checked
    r"\s(?:\w+:rsid\w*|dirty|err|smtClean)=\"[^\"]*\""
)
_DATA_FIELD = re.compile(  # by its code
    r"\s{0,9}(?:ADDIN|ADDRESSBLOCK|AUTHOR|BIBLIOGRAPHY|CITATION|CREATEDATE|DATE|DOCVARIABLE|EDITTIME|FILE(?:NAME|SIZE)"
    r"|DOCPROPERTY(?!\s+\"?(?:Title|Subject|Category|Keywords|Comments)\b)|GREETINGLINE|LASTSAVEDBY|LISTNUM|MERGE\w+|SEQ"
    r"|NUM(?:CHARS|PAGES|WORDS)|PAGE(?:REF)?|PRINTDATE|REVNUM|SAVEDATE|SECTION(?:PAGES)?|TEMPLATE|TIME|USER\w+)\b",
    re.IGNORECASE,
)
_IMPORTS = "has pages that Word inserts when it opens the file (altChunk), which stay; save it in Word, then translate"
_MAX_CODE_CHARS = 100  # of a field's code, which decide what its result is
CODE_STYLE = re.compile(  # the id of a style; HTMLPreformatted is not one, since much pasted prose has it
    r"(?:HTML|Inline|Program|Source)?-?(?:Code|Codice|Cdigo)(?:Block|Fragment|HTML|Inline|Snippet|Text)?(?:Char)?"
    r"|HTML(?:Keyboard|Sample|Typewriter|Variable)|Verbatim(?:Char)?|SourceText|Quell(?:text|code)|[A-Z]\w{1,20}Tok",
    re.IGNORECASE,
)
_SPACE_OR_TEXT = re.compile(r"\s+|\S(?:.*\S)?", re.DOTALL)
_TAB_OR_TEXT = re.compile(r"\t|[^\t]+")
_OTHER_LANGUAGE = "other language"  # the kind of an event, and the name of its item
_STYLED = {"w:pStyle": "w:p", "w:rStyle": "w:r"}
_LANGUAGE = re.compile(r"(?<==[\"'])[\w-]+(?=[\"'])")
_LANGUAGE_ATTRIBUTE = re.compile(r"(?<=\slang=[\"'])[\w-]+")
_DESCRIBED = ("?:docPr", "?:cNvPr", "p:cNvPr", "?:shape")  # elements with alternative texts
_ALTERNATIVE_TEXT = re.compile(r"(?:(?<=\sdescr=\")|(?<=\stitle=\")|(?<=\salt=\"))([^\"]+)")
_LINE_ENDS = re.compile(r"((?:&#(?:10|13|x[aAdD]);)+)")  # in an attribute
_INVISIBLE_PROPERTIES = re.compile(r"<\w+:(?:lang|noProof)\b[^>]*>|\s(?:altLang|bmk|lang|noProof|smtId)=\"[^\"]*\"")

_Parts = list[str | Block]


class _RunTag(str):
    """The start tag and properties of a run, put before its words."""


class _PunctuationRunTag(_RunTag):
    """The same before text without a letter or digit."""


@dataclass(slots=True)
class _Item(Inline):
    """A text in a paragraph, or other content, which is copied."""

    name: str = ""
    run: str = ""
    """the start tag and properties of its run; "" between runs"""
    formatting: str | None = None
    """the visible properties of its run"""

    @property
    def markup(self) -> _Parts:
        """Its markup, inside a run of its own."""
        inside = [self.raw, *self.tail]
        return [self.run, *inside, f"</{_prefix(self.run)}r>"] if self.run else inside


def parse_word(content: bytes, languages: LanguagePair, kind: str = "word") -> ParsedFile:
    """Parse the parts of a Word document (kind="slide": a presentation): text, notes, comments, charts and so on.

    Raises DataError for other files.
    """
    archive = Archive(content)
    parts = {
        each.attributes.get("PartName", "").removeprefix("/"): found.lastgroup or ""
        for each in archive.read_tags("[Content_Types].xml", _PREFIXES, "Override")
        if (found := _TRANSLATED_PARTS.fullmatch(each.attributes.get("ContentType", "")))
    }
    if kind not in (parts[name] for name in parts if name in archive.names):
        raise DataError(f"not {NAMES[kind]}; give it the suffix of its format")
    parsers = {name: partial(parse_part, languages=languages, kind=kind, name=name) for name, kind in parts.items()}
    # PowerPoint marks each run with the language of the keyboard, as in `lang="en-US">Einträge`, so it says nothing
    parsed = parse_members(archive, parsers, languages[0] if kind == "word" else "")
    has_imports = b"/aFChunk" in (archive.read("word/_rels/document.xml.rels") or b"")
    return replace(parsed, warnings=[*parsed.warnings, *[_IMPORTS] * has_imports])


def parse_part(
    source: str, language: str = "", *, languages: LanguagePair = ("", ""), kind: str = "word", name: str = ""
) -> Document:
    """Parse the XML of one part of a document into paragraphs. Raises DataError if it is not well-formed.

    language: see `parse_marked`. languages: codes of source and target; a w:lang of the source language gets the target
    language. kind: "word", "slide", "layout" or "drawing". name: of the part.
    """
    document = Document([], [], place=f"{PurePosixPath(name).stem}, " * bool(name))
    escape, own = escape_like(source), primary_subtag(languages[0])
    open_: list[list[XmlEvent | _Parts]] = []  # paragraphs, each in a text box of the one before it
    n_without_text, last = 0, ""  # open elements of _WITHOUT_TEXT; the last event's start tag
    data = _DataFinder()
    for event in xml_events(source, _PREFIXES_OF.get(kind, _PREFIXES)):
        step = {"start": 1, "end": -1}.get(event.kind, 0)
        texts = _Parts()
        if data.is_data(event, step, last):
            event = event._replace(kind="data")
        elif language and data.is_marked_other(event, step, language):
            event = event._replace(kind=_OTHER_LANGUAGE)
        elif event.name == "w:lang" or "lang" in event.attributes:
            codes = _LANGUAGE if event.name == "w:lang" else _LANGUAGE_ATTRIBUTE
            raw = codes.sub(lambda code: languages[1] if primary_subtag(code[0]) == own else code[0], event.raw)
            event = event._replace(raw=raw)
        elif event.kind == "text" and last in _PLAIN_TEXTS:
            texts, event = [document.add_text(event.raw, escape)], event._replace(raw="")
        elif step > 0 and event.name in _DESCRIBED:
            cut = enumerate(_ALTERNATIVE_TEXT.split(event.raw))  # every second one is text
            pieces = chain.from_iterable(_LINE_ENDS.split(each) if number % 2 else [each] for number, each in cut)
            texts = [document.add_text(each, html.escape) if number % 2 else each for number, each in enumerate(pieces)]
            event = event._replace(raw="")
        last = event.name if step > 0 else ""
        n_without_text += step * (event.name in _WITHOUT_TEXT)
        is_paragraph = event.name == "w:p" and not n_without_text
        if is_paragraph and step > 0:
            open_.append([])
        if open_:
            open_[-1] += [texts, event] if texts else [event]
        else:
            document.parts += [*texts, event.raw]
        if is_paragraph and step < 0:
            parts = _parse_paragraph(open_.pop(), escape, document, ' xml:space="preserve"' * (kind == "word"))
            if open_:
                open_[-1].append(parts)
            else:
                document.parts += parts
    return document


class _DataFinder:
    """Finds text that is data or code: results of fields such as citations, and text in a style of code."""

    def __init__(self) -> None:
        self._styled = set[str]()  # the names of open elements in a style of code
        self._codes = list[str]()  # of the open fields
        self._depth = 0  # of the outermost open field whose result is data
        self._n_open = 0  # elements inside a simple field or a content control that contains data
        self._languages: Mapping[str, str] = {}  # of the open run's own properties, by script

    def is_data(self, event: XmlEvent, step: int, last: str) -> bool:
        """Whether an event is such text. Takes all events of a part in order. step, last: see `parse_part`."""
        name, value, codes = event.name, event.attributes.get, self._codes
        kind = value("w:fldCharType")
        self._styled.discard(name)
        if name in _STYLED and CODE_STYLE.fullmatch(value("w:val", "")):
            self._styled.add(_STYLED[name])
        if self._n_open or name in _NUMBERS or (name == "w:fldSimple" and _DATA_FIELD.match(value("w:instr", ""))):
            self._n_open += step
        elif name == "w:tag" and value("w:val", "").startswith("MENDELEY_"):  # in the properties of a content control
            self._n_open = 3
        elif name == "layout:ph":  # the content of the shape in whose properties it is
            self._n_open = 4
        if kind == "begin":
            codes.append("")
        elif kind == "separate" and codes and not self._depth:
            self._depth = len(codes) if _DATA_FIELD.match(codes[-1]) else 0
        elif kind == "end":
            del codes[-1:]
            self._depth *= self._depth <= len(codes)
        elif last == "w:instrText" and codes:
            codes[-1] = (codes[-1] + event.text)[:_MAX_CODE_CHARS]
        elif name == "w:p" and step < 0 and self._depth:  # only a bibliography may have several paragraphs
            self._depth *= codes[self._depth - 1].strip().upper().startswith(("ADDIN", "BIBLIOGRAPHY"))
        return event.kind == "text" and bool(self._n_open or self._depth or self._styled)

    def is_marked_other(self, event: XmlEvent, step: int, language: str) -> bool:
        """Whether an event is text of a run with another `w:lang`; see `is_data`."""
        if event.name == "w:r":
            self._languages = {}
        elif step > 0 and event.name in ("w:lang", "w:rPrChange"):  # of which the latter has properties of the past
            self._languages = self._languages or {"": "", **event.attributes}
        letter = next(filter(str.isalpha, event.text if self._languages else ""), "a")
        is_wide = unicodedata.east_asian_width(letter) in "FW"
        of_script = "w:eastAsia" if is_wide else "w:bidi" if unicodedata.bidirectional(letter)[0] in "RA" else "w:val"
        named = self._languages.get(of_script, "")
        return has_letter(event.text) and is_language_code(named) and is_other_language(named, language)


def _parse_items(inside: Sequence[XmlEvent | _Parts], space: str) -> tuple[_Parts, list[_Item], _Parts]:
    """Returns the properties of a paragraph, its items, and the properties of its end.

    inside: the events between its tags; paragraphs in its text boxes are parsed already. space: an attribute of texts.
    """
    head, items, foot = _Parts(), list[_Item](), _Parts()
    run, formatting = "", None  # of the open run, as in _Item
    depth, into, properties = 0, head, _Parts()  # depth: in a copied element; into: where its markup is added
    is_in_text = keeps_spaces = False
    around_ruby: tuple[str, str | None] = ("", None)  # the run that contains a ruby
    for each in inside:
        if isinstance(each, list):
            if not depth:
                items.append(_Item("", tail=(into := []), run=run, formatting=formatting))
            into += each
            continue
        kind, name = each.kind, each.name
        step = {"start": 1, "end": -1}.get(kind, 0)
        if depth:
            into.append(each.raw)
            depth += step
            if depth == 2 and name == "w:rubyBase" and items[-1].opens == name:
                depth = 0
            elif not depth and name == "w:ruby" and around_ruby[0]:
                into.append(f"</{_prefix(around_ruby[0])}r>")
                (run, formatting), around_ruby = around_ruby, ("", None)
            elif not depth and into is properties:
                written = _REVISION.sub("", "".join(map(str, properties)))
                run += written
                formatting = _INVISIBLE_PROPERTIES.sub("", written)
        elif kind in ("text", "data", _OTHER_LANGUAGE) and is_in_text:
            is_indented = "\n" in each.text and not keeps_spaces
            is_other = kind == _OTHER_LANGUAGE
            is_cut = is_other or ("\t" in each.text and not is_indented and "<![" not in each.raw)
            pattern = _SPACE_OR_TEXT if is_other else _TAB_OR_TEXT
            for part in pattern.findall(each.raw) if is_cut else [each.raw]:
                raw = f"<{_prefix(run)}t{space}>{part}</{_prefix(run)}t>"
                text = html.unescape(part) if is_cut else each.text.strip() if is_indented else each.text
                name = "w:tab" if part == "\t" else _OTHER_LANGUAGE if is_other and text.strip() else ""
                text *= kind != "data" and part != "\t"
                items.append(_Item(raw, text, name=name, run=run, formatting=formatting))
        elif name == "w:t" and run:
            is_in_text, keeps_spaces = step > 0, "xml:space" in each.raw
        elif name == "w:r" and step > 0 and not run:
            run, formatting = _REVISION.sub("", each.raw), ""
        elif name == "w:r" and step < 0:
            run, formatting = "", None
        elif name in _CONTAINERS and not run:
            items.append(_Item(each.raw, "", name * (step > 0), name * (step < 0), tail=(into := []), name=name))
            depth = int(name == "w:rubyBase" and step < 0)  # with the end of the ruby
        elif step > 0:
            depth = 1
            if name == "w:pPr" and not items:
                into = head
            elif name == "w:endParaRPr":
                into = foot
            elif name == "w:rPr" and run:
                into = properties = []
            elif name in _PROPERTIES and items and items[-1].opens in _CONTAINERS:
                items[-1].tail = into = [*items[-1].tail]
            elif name in _RECOMPUTED:
                into = []
            elif name == "w:ruby" and run:
                items.append(_Item(run, opens="w:rubyBase", tail=(into := []), name="w:rubyBase"))
                around_ruby, run = (run, formatting), ""
            else:
                range_id, kind = each.attributes.get("w:id"), each.attributes.get("w:fldCharType", name)
                opens = f"{name} {range_id}" if name in _START_OF.values() else ""
                closes = f"{_START_OF[name]} {range_id}" if name in _START_OF else ""
                text, into = "-" * bool(run and name == _NO_BREAK_HYPHEN), []
                items.append(_Item("", text, opens, closes, tail=into, name=kind, run=run, formatting=formatting))
            into.append(each.raw)
    return head, items, foot


def _parse_paragraph(
    events: Sequence[XmlEvent | _Parts], escape: Callable[[str], str], document: Document, space: str
) -> _Parts:
    """Returns a paragraph, unchanged or with blocks, and adds these to the document. space: an attribute of texts."""
    raw = list(chain.from_iterable(each if isinstance(each, list) else [each.raw] for each in events))
    head, found, foot = _parse_items(events[1:-1], space)
    _keep_other_language(found)
    document.n_other_language += sum(each.name == _OTHER_LANGUAGE and not each.text for each in found)
    largest = len(found) * max((len(each.run) for each in found), default=0)
    is_bounded = largest <= _MAX_GROWTH * sum(len(part) for part in raw if isinstance(part, str))
    items = _merge_fields(found) if is_bounded else []
    if not has_letter("".join(each.text for each in items)):
        return raw
    items.append(_Item(""))
    fields = {each.closes for each in items if each.closes.startswith("field ")}
    pairs = nested_pairs(items, {*_CONTAINERS, *fields})
    main, formatting_of = _formatting(items)
    run = _RunTag(next(each.run for each in items if each.text and each.formatting == main))
    only_no_break = {each.name for each in items if "-" in each.text} == {_NO_BREAK_HYPHEN}
    first_chars = (each.text[:1] for each in reversed(items[1:]))
    following = [*accumulate(first_chars, lambda last, char: char or last, initial="")][::-1]
    paragraph = _Paragraph(items, following, main, run, formatting_of, pairs, only_no_break, escape, space)
    parts = [raw[0], *head]
    for first, index in pairwise([-1, *_block_ends(paragraph)]):
        parts += [*_parse_between(paragraph, first, index, document), *items[index].markup]
    return [*parts, *foot, raw[-1]]


def _keep_other_language(items: Sequence[_Item]) -> None:
    """Turn texts in another language into other content, unless they are parts of words."""
    read = [each for each in items if each.text or each.name in _TABS_AND_BREAKS]
    for before, each, after in zip([_Item(""), *read], read, [*read[1:], _Item("")], strict=False):
        following = after.text[:1] if after.name != _OTHER_LANGUAGE else ""
        edges = (before.text[-1:], each.text[:1]), (each.text[-1:], following)
        if each.name == _OTHER_LANGUAGE and not any(is_word(left) and is_word(right) for left, right in edges):
            each.text = ""


def _block_ends(paragraph: "_Paragraph") -> list[int]:
    """Returns the indices of items that end a block: tabs, line breaks unless lower case follows, and the last item.

    The ends of a link or field that contains one of these end a block, too. A bookmark around one is no longer a pair.
    """
    found, open_, newest, last = {len(paragraph.items) - 1}, list[int](), -1, ""
    for index, each in enumerate(paragraph.items):
        last = each.text or last
        is_inside_sentence = paragraph.following[index].islower() and not last.endswith((".", "!", "?", ":"))
        if each.name in _TABS_AND_BREAKS and (each.name == "w:tab" or not is_inside_sentence):
            found.add(newest := index)
            last = ""
        elif each.opens and index in paragraph.pairs:
            open_.append(index)
        elif index in paragraph.pairs and (start := open_.pop()) < newest:
            ends = {start, index}
            if each.closes.partition(" ")[0] in _START_OF.values():
                paragraph.pairs.difference_update(ends)
            else:
                found |= ends
    return sorted(found)


def _parse_between(paragraph: "_Paragraph", first: int, end: int, document: Document) -> _Parts:
    """Returns the items between two others, as a block if they have letters."""
    build = Builder(partial(_write_runs, paragraph))
    build.place = document.next_place()
    inside: str | None = None  # the formatting of the open element
    outside, now, last = paragraph.run, paragraph.run, ""  # last: the last character so far
    for index, each in enumerate(paragraph.items[first + 1 : end], start=first + 1):
        formatting = paragraph.formatting_of.get(index, each.formatting)
        if inside is not None and formatting != inside:
            build.add(Inline(outside, closes="formatting"))
            inside, now = None, outside
        if index in paragraph.formatting_of:
            if formatting != paragraph.main_formatting and inside is None:
                inside, now = formatting, _RunTag(each.run)
                build.add(Inline(now, opens="formatting"))
            elif each.run != now:  # in another language, or a punctuation mark with other formatting
                now = (_RunTag if any(map(is_word, each.text)) else _PunctuationRunTag)(each.run)
                build.add(Inline(now, kind="proportional"))
            outside = now if inside is None and not isinstance(now, _PunctuationRunTag) else outside
            build.add(Inline("".join(map(str, each.markup)), each.text))
            last = each.text[-1]
        elif each.name in _TABS_AND_BREAKS:
            space = " " if last.strip() and paragraph.following[index].strip() else ""
            build.add(replace(each, text=space, kind="proportional"))
            last = space or last
        else:
            build.add(each if index in paragraph.pairs else replace(each, opens="", closes=""))
    if inside is not None:
        build.add(Inline(outside, closes="formatting"))
    build.end_block()
    parts = build.document.parts
    if len(parts) == 1 and isinstance(parts[0], Block):
        document.blocks.append(parts[0])
        return parts  # otherwise it has no letter or is nested too deeply
    return [part for each in paragraph.items[first + 1 : end] for part in each.markup]


@dataclass(frozen=True)
class _Paragraph:
    items: Sequence[_Item]
    """the last one is empty and marks the end"""
    following: Sequence[str]
    """the first character of text after each item"""
    main_formatting: str
    """the formatting of most of its characters"""
    run: _RunTag
    """the first run with this formatting"""
    formatting_of: dict[int, str]
    """by the index of each text"""
    pairs: set[int]
    """the indices of items that open or close an element"""
    only_no_break: bool
    """whether all its hyphens are no-break hyphens; then those of the translation are, too"""
    escape: Callable[[str], str]
    space: str
    """an attribute of texts"""


def _formatting(items: Sequence[_Item]) -> tuple[str, dict[int, str]]:
    """Returns the formatting of most characters, and that of each text.

    A text without a letter or digit whose formatting is not the main one gets that of the text before it.
    """
    own = {index: each.formatting or "" for index, each in enumerate(items) if each.text}
    ((main, _),) = Counter(formatting for index, formatting in own.items() for _ in items[index].text).most_common(1)
    last, formatting_of = main, dict[int, str]()
    for index, formatting in own.items():
        last = formatting if formatting == main or any(map(is_word, items[index].text)) else last
        formatting_of[index] = last
    return main, formatting_of


def _merge_fields(items: Sequence[_Item]) -> list[_Item]:
    """Returns items in which each field that has both ends is an element around its result.

    All from the field's beginning to its separator, with nested fields, becomes one item. Returns no items, so that the
    paragraph stays as it is, if only the beginning or only the separator is in a container such as a link, or if
    fields are nested too deeply.
    """
    found: list[_Item] = []
    begun: list[tuple[int, int]] = []  # the start of each open field, and the container around it
    containers = [-1]  # those that are open
    for number, each in enumerate(items):
        if each.name in _CONTAINERS and each.opens:
            containers.append(number)
        elif each.name in _CONTAINERS:
            containers = containers[:-1] or [-1]
        if each.name == "begin":
            begun.append((len(found), containers[-1]))
        start, container = begun[-1] if begun else (-1, -1)
        if start < 0 or each.name not in ("separate", "end"):
            found.append(each)
            continue
        first, is_inside = found[start], container == containers[-1]
        if first.name == "field":
            first.opens *= is_inside
            found.append(replace(each, closes=first.opens))
        elif is_inside and len(begun) <= _MAX_FIELD_DEPTH:
            markup = [part for one in [*found[start:], each] for part in one.markup]
            opens = f"field {number}" if each.name == "separate" else ""
            found[start:] = [replace(first, raw="", tail=markup, run="", name="field", opens=opens)]
        else:
            return []
        if first.name == "field" or each.name == "end":
            begun.pop()
    for start, _ in begun:
        found[start].opens = ""
    return found


def _write_runs(paragraph: _Paragraph, parts: Sequence[str]) -> str:
    """Returns a translation as runs; words get the run tag before them, and equal neighbours are joined."""
    found = list[tuple[_RunTag | None, str]]()
    tag = punctuation_tag = paragraph.run
    for part in parts:
        if isinstance(part, _RunTag):
            punctuation_tag, tag = part, tag if isinstance(part, _PunctuationRunTag) else part
        elif isinstance(part, Unescaped) and part:
            found.append((tag if any(map(is_word, part)) else punctuation_tag, part))
        elif part:
            found.append((None, part))
    joined = ((tag, "".join(part for _, part in group)) for tag, group in groupby(found, key=itemgetter(0)))
    return "".join(_write_run(paragraph, tag, text) if tag else text for tag, text in joined)


def _write_run(paragraph: _Paragraph, tag: _RunTag, words: str) -> str:
    prefix = _prefix(tag)
    texts = words.split("-") if paragraph.only_no_break else [words]
    tagged = [f"<{prefix}t{paragraph.space}>{paragraph.escape(text)}</{prefix}t>" if text else "" for text in texts]
    return f"{tag}{f'<{prefix}{_NO_BREAK_HYPHEN[2:]}/>'.join(tagged)}</{prefix}r>"


def _prefix(run: str) -> str:
    """Returns the namespace prefix in the tag of a run, with its colon."""
    return tag_name(run).removesuffix("r")
