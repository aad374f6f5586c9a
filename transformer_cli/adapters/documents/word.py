"""Word documents (.docx): the paragraphs of their parts are blocks. Knows what runs are, and nothing of how they look.

A paragraph is a row of items: texts, what stands in a run between them (a tab, a picture), and what stands between runs
(a bookmark, the ends of a link). A paragraph without a letter stays as it is. Otherwise each item that is no text gets
a run of its own, and words get runs with the properties of those that they are linked to, or else with the properties
that most of the paragraph's characters have; neighbours that look the same are one run.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from operator import itemgetter

from transformer_cli.adapters.documents.archive import Archive
from transformer_cli.adapters.documents.blocks import Block, Builder, Document, Unescaped, nested_pairs
from transformer_cli.adapters.documents.parsed_file import LanguagePair, ParsedFile
from transformer_cli.adapters.documents.xmltext import XmlEvent, decode_xml, escape_like, tag_name, xml_events
from transformer_cli.errors import DataError
from transformer_cli.text.lines import has_letter
from transformer_cli.text.normalization import is_word

_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w:",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w:",
    "http://schemas.openxmlformats.org/package/2006/content-types": "",
}
_TRANSLATED_PARTS = re.compile(  # by their types
    r"application/vnd\.(?:openxmlformats-officedocument\.wordprocessingml|ms-word)\."
    r"(?:(?:document|template)(?:\.macroEnabled(?:Template)?)?\.main|header|footer|footnotes|endnotes|comments)\+xml"
)
_CONTAINERS = (
    *("w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:sdt", "w:sdtContent", "w:fldSimple", "w:customXml"),
    *("w:dir", "w:bdo"),
)
_START_OF = {"w:bookmarkEnd": "w:bookmarkStart", "w:commentRangeEnd": "w:commentRangeStart"}
_TABS_AND_BREAKS = ("w:tab", "w:br", "w:cr", "w:ptab")
_NO_BREAK_HYPHEN = "w:noBreakHyphen"  # a text, but not in one
_MAX_FIELD_DEPTH = 50  # fields inside each other: what is in the innermost is copied for each
_MAX_GROWTH = 20  # as large as itself a paragraph may become, in which each item repeats the properties of its run
_RECOMPUTED = ("w:proofErr", "w:lastRenderedPageBreak")  # what Word finds anew
_PROPERTIES = ("w:pPr", "w:rPr", "w:sdtPr", "w:sdtEndPr", "w:smartTagPr", "w:customXmlPr")
_WITHOUT_TEXT = (*_PROPERTIES, *_START_OF, "w:fldChar")  # no paragraph in them is translated
_REVISION_ID = re.compile(r"\s\w+:rsid\w*=\"[^\"]*\"")  # of a run's tag: when it was written
_INVISIBLE_PROPERTIES = re.compile(r"<\w+:(?:lang|noProof)\b[^>]*>")  # of a run's properties, what nobody sees

_Parts = list[str | Block]


class _RunTag(str):
    """The tag of a run, and its properties, which the words behind it have."""

    __slots__ = ()


class _SignRunTag(_RunTag):
    """Likewise, for what has no letter and no digit."""

    __slots__ = ()


@dataclass(slots=True)
class _Item:
    """A text, or what else stands in a paragraph and is kept."""

    raw: _Parts
    run: str = ""
    """the tag of the run that it is in, and its properties; nothing if it stands between runs"""
    formatting: str | None = None
    """the properties of the run, as far as they are seen"""
    text: str = ""
    name: str = ""
    opens: str = ""
    """the name of the element that begins with it"""
    closes: str = ""
    """the name of the one that ends with it"""

    @property
    def markup(self) -> _Parts:
        """What stands for it in the file, in a run of its own."""
        return [self.run, *self.raw, f"</{_prefix(self.run)}r>"] if self.run else self.raw


def parse_word(content: bytes, languages: LanguagePair) -> ParsedFile:
    """Cut a document into its parts: text, headers, footers, notes, comments. Raises DataError if it is none."""
    archive = Archive(content)
    types = archive.read("[Content_Types].xml")
    if types is None:
        raise DataError("no Word document (DOCX); name one that Word or another program has saved as such")
    names = [
        event.attributes.get("PartName", "").removeprefix("/")
        for event in xml_events(decode_xml(types)[0], _PREFIXES)
        if event.kind == "start" and _TRANSLATED_PARTS.fullmatch(event.attributes.get("ContentType", ""))
    ]
    texts = {name: decode_xml(part) for name in dict.fromkeys(names) if (part := archive.read(name)) is not None}
    if not texts:
        raise DataError("an archive without a Word document (DOCX); name one")

    def assemble(*parts: str) -> bytes:
        new = {name: encode(part) for (name, (_, encode)), part in zip(texts.items(), parts, strict=True)}
        return archive.replace_members({name: part for name, part in new.items() if part != archive.read(name)})

    return ParsedFile([parse_part(text) for text, _ in texts.values()], assemble)


def parse_part(source: str) -> Document:
    """Cut a part of a document, which is XML, into paragraphs. Raises DataError if it is not whole."""
    document, escape = Document([], []), escape_like(source)
    open_: list[list[XmlEvent | _Parts]] = []  # paragraphs, each of which is in a text box of the one before it
    n_without_text = 0  # of the elements that are open
    for event in xml_events(source, _PREFIXES):
        step = {"start": 1, "end": -1}.get(event.kind, 0)
        n_without_text += step * (event.name in _WITHOUT_TEXT)
        is_paragraph = event.name == "w:p" and not n_without_text
        if is_paragraph and step > 0:
            open_.append([])
        if open_:
            open_[-1].append(event)
        else:
            document.parts.append(event.raw)
        if is_paragraph and step < 0:
            parts = _parse_paragraph(open_.pop(), escape, document)
            if open_:
                open_[-1].append(parts)
            else:
                document.parts += parts
    return document


def _parse_items(inside: Sequence[XmlEvent | _Parts]) -> tuple[_Parts, list[_Item]]:
    """Returns the properties of a paragraph, and what stands behind them.

    inside: its tokens without its own tags, and what became of paragraphs in it.
    """
    head, items = _Parts(), list[_Item]()
    run, formatting = "", None  # of the run that is open: its tag and properties, and its look
    depth, into, properties = 0, head, _Parts()  # in an element that is kept; what it is added to; those of a run
    is_in_text = keeps_spaces = False
    for each in inside:
        if isinstance(each, list):
            if not depth:
                items.append(_Item(into := [], run, formatting))
            into += each
            continue
        kind, name = each.kind, each.name
        step = {"start": 1, "end": -1}.get(kind, 0)
        if depth:
            into.append(each.raw)
            depth += step
            if not depth and into is properties:
                run += "".join(map(str, properties))
                formatting = _INVISIBLE_PROPERTIES.sub("", "".join(map(str, properties)))
        elif kind == "text" and is_in_text:
            is_indented = "\n" in each.text and not keeps_spaces
            raw = f'<{_prefix(run)}t xml:space="preserve">{each.raw}</{_prefix(run)}t>'
            items.append(_Item([raw], run, formatting, each.text.strip() if is_indented else each.text))
        elif name == "w:t" and run:
            is_in_text, keeps_spaces = step > 0, "xml:space" in each.raw
        elif name == "w:r" and step > 0 and not run:
            run, formatting = _REVISION_ID.sub("", each.raw), ""
        elif name == "w:r" and step < 0:
            run, formatting = "", None
        elif name in _CONTAINERS and not run:
            items.append(_Item([each.raw], name=name, **{"opens" if step > 0 else "closes": name}))
        elif step > 0:
            depth = 1
            if name == "w:pPr" and not items:
                into = head
            elif name == "w:rPr" and run:
                into = properties = []
            elif name in _PROPERTIES and items and items[-1].opens in _CONTAINERS:
                into = items[-1].raw
            elif name in _RECOMPUTED:
                into = []
            else:
                range_id, kind = each.attributes.get("w:id"), each.attributes.get("w:fldCharType", name)
                item = _Item(into := [], run, formatting, "-" * bool(run and name == _NO_BREAK_HYPHEN), kind)
                item.opens = f"{name} {range_id}" if name in _START_OF.values() else ""
                item.closes = f"{_START_OF[name]} {range_id}" if name in _START_OF else ""
                items.append(item)
            into.append(each.raw)
    return head, items


def _parse_paragraph(events: Sequence[XmlEvent | _Parts], escape: Callable[[str], str], document: Document) -> _Parts:
    """Returns a paragraph, as it is or with blocks, which are added to the document's."""
    raw = list(chain.from_iterable(each if isinstance(each, list) else [each.raw] for each in events))
    head, found = _parse_items(events[1:-1])
    largest = len(found) * max((len(each.run) for each in found), default=0)
    is_bounded = largest <= _MAX_GROWTH * sum(len(part) for part in raw if isinstance(part, str))
    items = _merge_fields(found) if is_bounded else []
    if not has_letter("".join(each.text for each in items)):
        return raw
    items.append(_Item([]))
    fields = {each.closes for each in items if each.closes.startswith("field ")}
    pairs = nested_pairs([(each.opens, each.closes) for each in items], {*_CONTAINERS, *fields})
    main_formatting, formatting_of = _formatting(items)
    run = next(each.run for each in items if each.text and each.formatting == main_formatting)
    hyphens = {each.name for each in items if "-" in each.text}
    following = [""]
    for each in reversed(items[1:]):
        following.append(each.text[:1] or following[-1])
    paragraph = _Paragraph(
        items,
        following[::-1],
        main_formatting,
        _RunTag(run),
        formatting_of,
        pairs,
        hyphens == {_NO_BREAK_HYPHEN},
        escape,
    )
    parts = [raw[0], *head]
    first = -1
    for index in _block_ends(paragraph):
        parts += [*_parse_between(paragraph, first, index, document), *items[index].markup]
        first = index
    return [*parts, raw[-1]]


def _block_ends(paragraph: "_Paragraph") -> list[int]:
    """Returns which items part two blocks: tabs, breaks that no small letter follows, and the end.

    So do both ends of a link, field or the like with one of these in it. Those of a bookmark with one are no pair then.
    """
    found, open_, newest, last = {len(paragraph.items) - 1}, list[int](), -1, ""
    for index, each in enumerate(paragraph.items):
        last = each.text or last
        goes_on = (
            each.name != "w:tab" and paragraph.following[index].islower() and not last.endswith((".", "!", "?", ":"))
        )
        if each.name in _TABS_AND_BREAKS and not goes_on:
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
    """Returns what stands between two items of a paragraph, as a block if it has letters."""
    build = Builder(partial(_write_runs, paragraph))
    inside: str | None = None  # the look of the element that is open
    outside, now, last = paragraph.run, paragraph.run, ""  # runs, and the character of the text so far
    for index, each in enumerate(paragraph.items[first + 1 : end], start=first + 1):
        formatting = paragraph.formatting_of.get(index, each.formatting)
        if inside is not None and formatting != inside:
            build.close_element("formatting", outside)
            inside, now = None, outside
        if index in paragraph.formatting_of:
            if formatting != paragraph.main_formatting and inside is None:
                inside, now = formatting, _RunTag(each.run)
                build.open_element("formatting", now)
            elif each.run != now:  # in another language, or a sign that looks otherwise
                now = (_RunTag if any(map(is_word, each.text)) else _SignRunTag)(each.run)
                build.add_proportional(now)
            outside = now if inside is None and not isinstance(now, _SignRunTag) else outside
            build.add_text("".join(map(str, each.markup)), each.text)
            last = each.text[-1]
        elif each.opens and index in paragraph.pairs:
            build.open_element(each.opens, *each.markup)
        elif each.closes and index in paragraph.pairs:
            build.close_element(each.closes, "".join(map(str, each.markup)))
        elif each.name in _TABS_AND_BREAKS:
            space = " " if last.strip() and paragraph.following[index].strip() else ""
            build.add_proportional(*each.markup, space=space)
            last = space or last
        else:
            build.add_standalone(*each.markup)
    if inside is not None:
        build.close_element("formatting", outside)
    build.end_block()
    if len(build.document.blocks) == len(build.document.parts) == 1:
        document.blocks += build.document.blocks
        return build.document.parts  # else there is no letter, or it is nested too deeply
    return [part for each in paragraph.items[first + 1 : end] for part in each.markup]


@dataclass(frozen=True)
class _Paragraph:
    """A paragraph."""

    items: Sequence[_Item]
    """the last one is its end"""
    following: Sequence[str]
    """the first character of text behind each item"""
    main_formatting: str
    """the look of most of its characters"""
    run: _RunTag
    """the first run that has it"""
    formatting_of: dict[int, str]
    """of its texts"""
    pairs: set[int]
    """the items that open and close something"""
    has_no_break_hyphens: bool
    """whether all hyphens are those at which no line is broken; those of a translation are then, too"""
    escape: Callable[[str], str]


def _formatting(items: Sequence[_Item]) -> tuple[str, dict[int, str]]:
    """Returns the look that most characters have, and that of each text.

    A text without a letter or a digit that looks otherwise has the look of the text before it.
    """
    own = {index: each.formatting or "" for index, each in enumerate(items) if each.text}
    counts: Counter[str] = Counter()
    for index, formatting in own.items():
        counts[formatting] += len(items[index].text)
    main_formatting = max(counts, key=lambda formatting: counts[formatting])
    last, formatting_of = main_formatting, dict[int, str]()
    for index, formatting in own.items():
        last = formatting_of[index] = (
            formatting if formatting == main_formatting or any(map(is_word, items[index].text)) else last
        )
    return main_formatting, formatting_of


def _merge_fields(items: Sequence[_Item]) -> list[_Item]:
    """Returns the items of a paragraph in which a field is what goes round its result, if both ends are there.

    From its beginning to its separator it is one item, with all fields in it. There are no items if only one of these
    is in a link or the like, or too many fields are inside each other: such a paragraph is kept.
    """
    found: list[_Item] = []
    begun: list[tuple[int, int]] = []  # where fields begin that have not ended, and in which container
    containers = [-1]  # that are open
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
            raw = [part for one in [*found[start:], each] for part in one.markup]
            opens = f"field {number}" if each.name == "separate" else ""
            found[start:] = [replace(first, raw=raw, run="", name="field", opens=opens)]
        else:
            return []
        if first.name == "field" or each.name == "end":
            begun.pop()
    for start, _ in begun:
        found[start].opens = ""
    return found


def _write_runs(paragraph: _Paragraph, parts: Sequence[str]) -> str:
    """Returns a translation, in which words have the look that stands before them, and equal neighbours are one run."""
    found = list[tuple[_RunTag | None, str]]()
    formatting = sign = paragraph.run
    for part in parts:
        if isinstance(part, _RunTag):
            sign, formatting = part, formatting if isinstance(part, _SignRunTag) else part
        elif isinstance(part, Unescaped) and part:
            found.append((formatting if any(map(is_word, part)) else sign, part))
        elif part:
            found.append((None, part))
    joined = (
        (formatting, "".join(part for _, part in group)) for formatting, group in groupby(found, key=itemgetter(0))
    )
    return "".join(_write_run(paragraph, formatting, text) if formatting else text for formatting, text in joined)


def _write_run(paragraph: _Paragraph, formatting: _RunTag, words: str) -> str:
    prefix = _prefix(formatting)
    texts = words.split("-") if paragraph.has_no_break_hyphens else [words]
    tagged = [f'<{prefix}t xml:space="preserve">{paragraph.escape(text)}</{prefix}t>' if text else "" for text in texts]
    return f"{formatting}{f'<{prefix}{_NO_BREAK_HYPHEN[2:]}/>'.join(tagged)}</{prefix}r>"


def _prefix(run: str) -> str:
    """Returns the prefix of names, with its colon, as the tag of a run has it."""
    return tag_name(run).removesuffix("r")
