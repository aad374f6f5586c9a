"""Word documents (.docx): the paragraphs of their parts are blocks. Knows what runs are, and nothing of how they look.

A paragraph is a row of items: texts, what stands in a run between them (a tab, a picture), and what stands between runs
(a bookmark, the ends of a link). Two items that follow one another as in the file have between them what stands there,
tags of runs and all; others get the tags of the run that they were in. Runs of the same properties are one text,
however Word cut it, and the properties that most of a paragraph's characters have are those of what no other run is
linked to.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from transformer_cli.adapters.documents.archive import Archive
from transformer_cli.adapters.documents.blocks import Block, Builder, Document, Words, nested, written_parts
from transformer_cli.adapters.documents.opened import Languages, Opened
from transformer_cli.adapters.documents.xmltext import Token, cut_xml, decoded_xml, escaping_like, name_in
from transformer_cli.errors import DataError
from transformer_cli.text.lines import has_letter
from transformer_cli.text.reading import is_word

_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w:",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w:",
    "http://schemas.openxmlformats.org/package/2006/content-types": "",
}
_PARTS = re.compile(  # by their types
    r"application/vnd\.(?:openxmlformats-officedocument\.wordprocessingml|ms-word)\."
    r"(?:(?:document|template)(?:\.macroEnabled(?:Template)?)?\.main|header|footer|footnotes|endnotes|comments)\+xml"
)
_CONTAINERS = (
    *("w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:sdt", "w:sdtContent", "w:fldSimple", "w:customXml"),
    *("w:dir", "w:bdo"),
)
_PAIRS = {"w:bookmarkEnd": "w:bookmarkStart", "w:commentRangeEnd": "w:commentRangeStart"}
_SPACES = ("w:tab", "w:br", "w:cr", "w:ptab")
_HYPHEN = "w:noBreakHyphen"  # a text, but not in one
_DEEPEST = 50  # fields inside each other: what is in the innermost is copied for each
_UNSEEN = ("w:proofErr", "w:lastRenderedPageBreak")
_SAME = re.compile(r"<\w+:(?:lang|noProof)\b[^>]*>")  # of a run's properties, what nobody sees


@dataclass(frozen=True)
class _Run:
    opening: str
    """its tag, and its properties"""
    look: str = ""
    """its properties, as far as they are seen"""


@dataclass(slots=True)
class _Item:
    """A text, or what else stands in a paragraph and is kept."""

    before: str
    """what stands between it and the item before it"""
    raw: list[str | Block]
    run: int = -1
    """the run that it is in, or begins in; -1 if it stands between runs"""
    last_run: int = -1
    """the one that it ends in"""
    text: str = ""
    name: str = ""
    opens: str = ""
    """the name of the element that begins with it"""
    closes: str = ""
    """the name of the one that ends with it"""

    @property
    def is_tagged(self) -> bool:
        """Whether it stands between tags of a text."""
        return bool(self.text) and self.name != _HYPHEN


@dataclass
class _Kept:
    """An element that is kept, but for paragraphs in it."""

    into: list[str | Block]
    depth: int = 0
    has_paragraphs: bool = True
    is_of_run: bool = False
    """whether they are the properties of the run"""


@dataclass
class _Paragraph:
    head: list[str | Block]
    """its tag, and its properties"""
    items: list[_Item] = field(default_factory=list)
    between: list[str | Block] = field(default_factory=list)
    """what stands behind the last item"""
    runs: list[_Run] = field(default_factory=list)
    is_in_run: bool = False
    is_in_text: bool = False


def open_word(content: bytes, languages: Languages) -> Opened:
    """Cut a document into its parts: text, headers, footers, notes, comments. Raises DataError if it is none."""
    archive = Archive(content)
    types = archive.read("[Content_Types].xml")
    if types is None:
        raise DataError("no Word document (DOCX); name one that Word or another program has saved as such")
    names = [
        token.attributes.get("PartName", "").removeprefix("/")
        for token in cut_xml(decoded_xml(types)[0], _PREFIXES)
        if token.kind == "start" and _PARTS.fullmatch(token.attributes.get("ContentType", ""))
    ]
    texts = {name: decoded_xml(part) for name in dict.fromkeys(names) if (part := archive.read(name)) is not None}
    if not texts:
        raise DataError("an archive without a Word document (DOCX); name one")

    def write(parts: Sequence[str]) -> bytes:
        new = {name: encode(part) for (name, (_, encode)), part in zip(texts.items(), parts, strict=True)}
        return archive.with_members({name: part for name, part in new.items() if part != archive.read(name)})

    return Opened([parse_part(text) for text, _ in texts.values()], write)


def parse_part(source: str) -> Document:
    """Cut a part of a document, which is XML, into paragraphs. Raises DataError if it is not whole."""
    document, escape = Document([], []), escaping_like(source)
    outside = _Kept(document.parts)
    open_: list[_Kept | _Paragraph] = [outside]
    for token in cut_xml(source, _PREFIXES):
        top = open_[-1]
        if isinstance(top, _Paragraph):
            if token.kind == "end" and token.name == "w:p":
                open_.pop()
                into = open_[-1]
                assert isinstance(into, _Kept)
                into.into += [*top.head, *_cut(top, escape, document), token.raw]
                into.depth -= 1
                if into.depth == 0 and into is not outside:
                    open_.pop()
                continue
            if not (kept := _read(top, token)):
                continue
            open_.append(top := kept)
        top.depth += {"start": 1, "end": -1}.get(token.kind, 0)
        if token.kind == "start" and token.name == "w:p" and top.has_paragraphs:
            open_.append(_Paragraph([token.raw]))
            continue
        top.into.append(token.raw)
        if top.depth == 0 and token.kind == "end" and top is not outside:
            open_.pop()
            if top.is_of_run and isinstance(around := open_[-1], _Paragraph):
                properties = "".join(map(str, top.into))
                around.between.append(properties)
                around.runs[-1] = _Run(around.runs[-1].opening + properties, _SAME.sub("", properties))
    return document


def _read(to: _Paragraph, token: Token) -> _Kept | None:
    """Add a token to a paragraph. Returns what the element that begins with it is added to, if that is kept."""
    name, run = token.name, len(to.runs) - 1 if to.is_in_run else -1

    def item(raw: list[str | Block], **about: str) -> list[str | Block]:
        to.items.append(_Item("".join(map(str, to.between)), raw, run, run, **about))
        to.between.clear()
        return raw

    if token.kind == "text" and to.is_in_text:
        item([token.raw], text=token.text)
    elif token.kind == "start" and name in _CONTAINERS and run < 0:
        item([token.raw], name=name, opens=name)
    elif token.kind == "end" and name in _CONTAINERS:
        item([token.raw], name=name, closes=name)
    elif token.kind == "start" and not to.is_in_text and (name, run < 0) not in (("w:r", True), ("w:t", False)):
        if name == "w:pPr" and not to.items and not to.between:
            return _Kept(to.head, has_paragraphs=False)
        if name == "w:rPr" and run >= 0:
            return _Kept([], has_paragraphs=False, is_of_run=True)
        if name in ("w:sdtPr", "w:sdtEndPr") and to.items and not to.between:
            return _Kept(to.items[-1].raw, has_paragraphs=False)
        if name in _UNSEEN:
            return _Kept(to.between, has_paragraphs=False)
        identity, kind = token.attributes.get("w:id"), token.attributes.get("w:fldCharType", name)
        opens = f"{name} {identity}" if name in _PAIRS.values() else ""
        closes = f"{_PAIRS[name]} {identity}" if name in _PAIRS else ""
        return _Kept(item([], name=kind, opens=opens, closes=closes, text="-" * (name == _HYPHEN and run >= 0)))
    else:
        to.between.append(token.raw)
        if token.kind == "start" and name == "w:r":
            to.is_in_run = True
            to.runs.append(_Run(token.raw))
        elif token.kind != "text" and name in ("w:r", "w:t"):
            to.is_in_text = token.kind == "start" and name == "w:t"
            to.is_in_run = token.kind == "start" or name == "w:t"
    return None


def _cut(paragraph: _Paragraph, escape: Callable[[str], str], document: Document) -> Iterator[str | Block]:
    """Yield what stands in a paragraph, between its properties and its end. Its blocks are added to the document's."""
    items = [*_with_fields(paragraph.items), _Item("".join(map(str, paragraph.between)), [])]
    if not has_letter("".join(each.text for each in items)):
        yield from (part for each in items for part in (each.before, *each.raw))
        return
    fields = {each.closes for each in items if each.closes.startswith("field ")}
    pairs = nested([(each.opens, each.closes) for each in items], {*_CONTAINERS, *fields})
    hyphens = {each.name for each in items if "-" in each.text}
    row = _Row(items, paragraph.runs, *_looks(items, paragraph.runs), pairs, hyphens == {_HYPHEN}, escape)
    first = -1
    for index in _parting(row):
        yield from _cut_between(row, first, index, document)
        yield from items[index].raw
        first = index


def _parting(row: "_Row") -> list[int]:
    """Returns which items part two blocks: tabs, breaks that no small letter follows, and the end.

    So do both ends of a link, field or the like with one of these in it. Those of a bookmark with one are no pair then.
    """
    found, open_, newest, last = {len(row.items) - 1}, list[int](), -1, ""
    for index, each in enumerate(row.items):
        last = each.text or last
        goes_on = each.name != "w:tab" and row.following(index).islower() and not last.endswith((".", "!", "?", ":"))
        if each.name in _SPACES and not goes_on:
            found.add(newest := index)
            last = ""
        elif each.opens and index in row.pairs:
            open_.append(index)
        elif index in row.pairs and (start := open_.pop()) < newest:
            ends = {start, index}
            if each.closes.partition(" ")[0] in _PAIRS.values():
                row.pairs.difference_update(ends)
            else:
                found |= ends
    return sorted(found)


def _cut_between(row: "_Row", first: int, end: int, document: Document) -> Iterator[str | Block]:
    """Yield what stands between two items of a paragraph, as a block if it has letters."""
    items, groups = row.items[first + 1 : end], dict[int, list[int]]()
    groups[-1] = []  # the texts of no element of a look; others have the index of their first one
    raw = [part for each in items for part in (each.before, *each.raw)] + [row.items[end].before]
    build = Builder(partial(_written, row, first, end, groups))
    now, group, last = "", -1, ""  # character of the text so far
    for index, each in enumerate(items, start=first + 1):
        look = row.looks.get(index, row.runs[each.run].look if each.run >= 0 else None)
        if group >= 0 and look != now:
            build.close("look", "/")
            group = -1
        if index in row.looks:
            if look != row.common and group < 0:
                group, now = index, row.looks[index]
                build.open("look", f"look {index}")
            elif groups[group][-1:] == [index - 1]:
                build.seam("|")
            groups.setdefault(group, []).append(index)
            build.text(f"text {index}", each.text)
            last = each.text[-1]
        elif each.opens and index in row.pairs:
            build.open(each.opens, str(index))
        elif each.closes and index in row.pairs:
            build.close(each.closes, str(index))
        elif each.name in _SPACES:
            space = " " if last.strip() and row.following(index).strip() else ""
            build.seam(str(index), space)
            last = space or last
        else:
            build.point(str(index))
    build.boundary()
    if len(build.document.blocks) == len(build.document.parts) == 1:
        document.blocks += build.document.blocks
        yield from build.document.parts
    else:  # there is no letter, or it is nested too deeply
        yield from raw


@dataclass(frozen=True)
class _Row:
    """A paragraph."""

    items: Sequence[_Item]
    """the last one is its end"""
    runs: Sequence[_Run]
    common: str
    """the look of most of its characters"""
    looks: dict[int, str]
    """of its texts"""
    pairs: set[int]
    """the items that open and close something"""
    breaks_no_hyphen: bool
    """whether all hyphens are those at which no line is broken; those of a translation are then, too"""
    escape: Callable[[str], str]

    @cached_property
    def _following(self) -> list[str]:
        found = [""] * len(self.items)
        for index in reversed(range(len(self.items) - 1)):
            found[index] = self.items[index + 1].text[:1] or found[index + 1]
        return found

    def following(self, index: int) -> str:
        """Returns the first character of text behind an item."""
        return self._following[index]


def _looks(items: Sequence[_Item], runs: Sequence[_Run]) -> tuple[str, dict[int, str]]:
    """Returns the look that most characters have, and that of each text.

    A text without a letter or a digit that looks otherwise has the look of the text before it.
    """
    own = {index: runs[each.run].look for index, each in enumerate(items) if each.text}
    counts: Counter[str] = Counter()
    for index, look in own.items():
        counts[look] += len(items[index].text)
    common = max(counts, key=lambda look: counts[look])
    last, looks = common, dict[int, str]()
    for index, look in own.items():
        last = looks[index] = look if look == common or any(map(is_word, items[index].text)) else last
    return common, looks


def _with_fields(items: Sequence[_Item]) -> list[_Item]:
    """Returns the items of a paragraph in which a field is what goes round its result, if both ends are there.

    From its beginning to its separator it is one item, with all fields in it. If only one of these is in a link or the
    like, or too many fields are inside each other, all of the paragraph is one item.
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
        elif is_inside and len(begun) <= _DEEPEST:
            raw = [part for one in [*found[start + 1 :], each] for part in (one.before, *one.raw)]
            opens = f"field {number}" if each.name == "separate" else ""
            found[start:] = [replace(first, raw=first.raw + raw, last_run=each.last_run, name="field", opens=opens)]
        else:
            return [_Item("", [part for one in items for part in (one.before, *one.raw)])]
        if first.name == "field" or each.name == "end":
            begun.pop()
    for start, _ in begun:
        found[start].opens = ""
    return found


def _written(row: _Row, first: int, end: int, groups: dict[int, list[int]], parts: Sequence[str]) -> str:
    """Returns a translation with what stands between two items. parts: words, and which item stands where."""
    kept = {int(part[5:]) for part in parts if not isinstance(part, Words) and part.startswith("text ")}
    left = {key: [index for index in group if index not in kept] or group for key, group in groups.items()}
    used: Counter[int] = Counter()
    found: list[tuple[int, str | None]] = []
    group, words = -1, ""
    for part in [*parts, "|"]:
        if isinstance(part, Words) or not part.strip():
            words += part
            continue
        if words:
            slots = left[group] or left[min(left, key=lambda key: -len(left[key]))]
            found.append((slots[min(used[group], len(slots) - 1)], words))
            used[group] += 1
            words = ""
        if part.startswith("look "):
            group = int(part[5:])
        elif part == "/":
            group = -1
        elif part.startswith("text "):
            found.append((int(part[5:]), None))
        elif part != "|":
            found.append((int(part), None))
    written, last = list[str](), first
    for index, chunk in [*found, (end, None)]:
        each = row.items[index]
        before = each.before if index == last + 1 else _closing(row, last) + _opening(row, each)
        if chunk is None or (each.name == _HYPHEN and chunk == "-"):
            written += [before, *(written_parts(each.raw) if index != end else [])]
        else:
            written += _written_text(row, each, before, chunk)
        last = index
    return "".join(written)


def _written_text(row: _Row, item: _Item, before: str, words: str) -> list[str]:
    """Returns words in the place of a text, and what stands before it."""
    prefix, text = _prefix(row.runs[item.run].opening), row.escape(words)
    start, end = f'<{prefix}t xml:space="preserve">', f"</{prefix}t>"
    if row.breaks_no_hyphen:
        words, text = words.partition("-")[0], text.replace("-", f"{end}<{prefix}{_HYPHEN[2:]}/>{start}")
    if item.name == _HYPHEN:
        return [before, start, text, end]
    is_edged = words != words.strip() and item.text == item.text.strip()
    if is_edged and "xml:space" not in before[before.rfind("<") :]:
        before = before[:-1] + ' xml:space="preserve">'
    return [before, text]


def _opening(row: _Row, item: _Item) -> str:
    if item.run < 0:
        return ""
    run = row.runs[item.run].opening
    return run + f'<{_prefix(run)}t xml:space="preserve">' * item.is_tagged


def _closing(row: _Row, index: int) -> str:
    if index < 0 or row.items[index].last_run < 0:
        return ""
    prefix = _prefix(row.runs[row.items[index].last_run].opening)
    return f"</{prefix}t>" * row.items[index].is_tagged + f"</{prefix}r>"


def _prefix(run: str) -> str:
    """Returns the prefix of names, with its colon, as the tag of a run has it."""
    return name_in(run).removesuffix("r")
