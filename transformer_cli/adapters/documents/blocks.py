"""The blocks of text in a document and their inline elements, and how to write the document with translated blocks.

The parser of a format calls a `Builder` from the beginning of a file to its end. All that is not text stays byte for
byte. Knows characters and tokens, but no formats, files or models.
"""

import html
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, count, pairwise
from typing import Literal

from transformer_cli.adapters.terminology.conversions import Conversions
from transformer_cli.text.alignment import (
    CLOSING_MARKS,
    Link,
    Placement,
    Span,
    TakenSpans,
    boundary_after,
    boundary_before,
    spaces_around,
    word_boundaries,
)
from transformer_cli.text.lines import has_letter
from transformer_cli.text.normalization import Placeholder, is_spaceless, is_word
from transformer_cli.text.sentences import SENTENCE_OPENERS

MAX_DISTANCE_WORDS = 40  # from where an element is expected to the word that it gets
MAX_INLINE_DEPTH = 16  # of nested elements around words; the tags of deeper ones end a block
MAX_WORD_CHARS = 50  # with marks, at the end of a sentence that no space follows
MAX_SPACE_CHARS = 100  # of white space on each side of a standalone element
_WHITESPACE = re.compile(r"\s+")
_COLLAPSIBLE = re.compile(r"[ \t\n\r\f\v]{2,}|[\t\n\r\f\v]")  # translated as one space
_STOP = re.compile(  # before an element, no space must follow it; not that of gnu.gettext.<a>Resource</a>
    r"(?:(?:\A|\s)[^\s.]*\.|[!?…。！？])[\"'”’“»«)\]]{0,9}\Z"
)
_WORD_BREAKS = ["<wbr>"], ["<wbr/>"], ["<wbr />"]  # System.<wbr>Out
_SENTENCE_END = re.compile(r"[.!?…:;。！？][\"'”’»)\]]{0,9}\s*\Z")


@dataclass(slots=True)
class InlineElement:
    """An inline element of a block: around words, or standalone between words."""

    start: int
    """its offset in the source of its block"""
    end: int
    parent: int
    """the index of the element around it; -1 for the first one, which is the whole block"""
    depth: int
    opening: list["str | Block"] = field(default_factory=list)
    """its start tag, in which texts of attributes are blocks"""
    closing: list["str | Block"] = field(default_factory=list)
    name: str = ""
    is_standalone: bool = False
    """whether it is copied as it is: a picture, a comment, or an element whose text has no letter"""
    is_proportional: bool = False
    """whether it is standalone and keeps its relative position in the text, as a line break does; a line break that
    separates words is read as a space, which is the source text from `start` to `end`"""
    before: str = ""
    """the white space before it"""
    after: str = ""
    """the white space after it"""

    @property
    def is_break(self) -> bool:
        """Whether it is the end of a line or cue, which is read as a space. Neither may become empty."""
        return self.is_proportional and self.start < self.end

    @property
    def placeholder(self) -> Placeholder:
        return Placeholder(self.start, "", self.before, self.after)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text is in its file, for people who check its translation."""

    unit: str = ""
    """such as "line 12" or "unit 7" """
    part: str = ""
    """of the unit, such as ", segment 2" """
    max_chars: int | None = None
    """how long the translation of the unit may be"""
    replaced: str = ""
    """the translation that the file has"""
    flags: Collection[str] = ()
    """gettext's, such as c-format"""


OF_TAG = Place("tag")
"""of a text in a tag, until the tag is added to a `Builder`"""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Text that is translated on its own: a paragraph, a table cell, an attribute."""

    source: str
    """the text in the file, without markup"""
    elements: list[InlineElement]
    """in the order of their starts; the first one is the whole block"""
    write: "Writer"
    place: Place = Place()
    has_branch: bool = False
    """whether the code of a template chooses among parts of its sentence"""

    @property
    def text(self) -> str:
        """The text to translate: the source on one line, with single spaces, and none at its ends."""
        return _COLLAPSIBLE.sub(" ", self.source.strip())

    @property
    def borders(self) -> list[int]:
        """The offsets in `text` at which an element, or its end, touches a possible end of a sentence and a word."""
        source, found, length = self.source, list[int](), 0
        last = len(source) - len(source.lstrip())
        elements = (each for each in self.elements[1:] if each.opening[:1] not in _WORD_BREAKS)
        for edge in sorted({edge for each in elements for edge in (each.start, each.end)}):
            first = source[edge : edge + 2].lstrip(SENTENCE_OPENERS)[:1]
            is_number = first.isdecimal() and source[edge - 2 : edge - 1].isdecimal()  # 1.<b>2</b>
            word = source[max(last, edge - MAX_WORD_CHARS) : edge]
            if first.isalnum() and not (first.islower() or is_number) and _STOP.search(word):
                length += len(_COLLAPSIBLE.sub(" ", source[last:edge]))
                found.append(length)
                last = edge
        return found

    def restore_whitespace(self, text: str, links: Sequence[Link]) -> tuple[str, Sequence[Link]]:
        """Returns a translation of `text` with the outer white space of `source`, and its links to `source`."""
        inside = self.source.strip()
        start = self.source.index(inside)
        end = start + len(inside)
        dropped = {index for found in _COLLAPSIBLE.finditer(inside) for index in range(found.start() + 1, found.end())}
        offsets = [start + index for index in range(len(inside)) if index not in dropped] + [end]
        if len(text) == len(offsets) - 1 and text.lower() == self.text.lower():  # a copy: no space changes
            written = list(self.source)
            for offset, char in zip(offsets, text, strict=False):
                written[offset] = written[offset] if char.isspace() else char
            return "".join(written), ()
        moved = [
            ((offsets[one], offsets[last - 1] + 1 if last else start), (start + other, start + other_last))
            for (one, last), (other, other_last) in links
        ]
        return f"{self.source[:start]}{text}{self.source[end:]}", moved

    def find_gaps(self, text: str, links: Sequence[Link]) -> tuple[bool, bool]:
        """Returns whether an element keeps its source words, and whether the last lines or cues are empty."""
        text, links = self.restore_whitespace(text, links)
        spans, last = _place_elements(self, text, links), len(text.rstrip())
        has_empty_line = any(
            each.is_break and each.end < self.elements[each.parent].end and start >= min(last, spans[each.parent][1])
            for each, (start, _) in zip(self.elements, spans, strict=True)
        )
        return any(_elements_without_words(self, spans)), has_empty_line


class Unescaped(str):
    """Text of a translation that is not yet escaped for the file format."""


Writer = Callable[[Sequence[str]], str]
"""Joins the markup and the `Unescaped` text of a block into text of the file"""


def escaping_writer(escape: Callable[[str], str]) -> Writer:
    """Returns a writer that escapes text and copies markup."""
    return lambda parts: "".join(escape(each) if isinstance(each, Unescaped) else each for each in parts)


@dataclass
class Document:
    """A file, or a part of one, as blocks and the markup between them."""

    parts: list[str | Block]
    """markup and blocks in order; blocks of attributes are inside the elements of other blocks"""
    blocks: list[Block]
    """all blocks; those of attributes come before the block that contains them"""
    conversions: Conversions = field(default_factory=Conversions)
    """of printf, for which stand-ins are in the blocks"""
    n_other_language: int = 0
    """how many texts are kept because they are marked as another language than the source"""
    is_mostly_other: bool = False
    """whether over half of the file's text is so marked, and is therefore translated"""
    place: str = ""
    """the part of the file, in front of the places of its texts, as in "slide3, " """

    def next_place(self) -> Place:
        """Returns the place of the block that comes next, if the file has no lines."""
        return Place(f"{self.place}text {len(self.blocks) + 1}")

    def add_text(self, raw: str, escape: Callable[[str], str]) -> str | Block:
        """Returns a new block for a text of XML that has no markup, or the text itself if it has no letter."""
        text = html.unescape(raw)
        block = Block(text, [InlineElement(0, len(text), -1, 0)], escaping_writer(escape), self.next_place())
        self.blocks += [block] * has_letter(text)
        return block if has_letter(text) else raw

    def render(self, translations: Sequence[tuple[str, Sequence[Link]]]) -> str:
        """Returns the document with translated blocks, their inline elements around the linked words.

        translations: the text of each block, and its links in the order of the translation. Several threads may render
        one document.
        """
        written: dict[Block, str] = {}
        for block, (text, links) in zip(self.blocks, translations, strict=True):
            text, links = block.restore_whitespace(text, links)
            written[block] = block.write(_insert_elements(block, text, _place_elements(block, text, links), written))
        return self.conversions.restore("".join(_fill_blocks(self.parts, written)))


InlineKind = Literal["", "line_end", "cue", "block_end", "branch_end", "inline_choice", "proportional"]
"""cue: the end of one in subtitles; branch_end: code of a template that ends a block; inline_choice: code inside a
word, which contains text; proportional: keeps its relative position, and stands for `text`, "" or a space"""


@dataclass(slots=True)
class Inline:
    """A piece of a document: text, markup in it, or what ends a line or block."""

    raw: str
    """as the file has it"""
    text: str = ""
    opens: str = ""
    """the name of the element around words that it starts; of one without a `closes`, see `Builder.add_inlines`"""
    closes: str = ""
    kind: InlineKind = ""
    tail: Sequence["str | Block"] = ()
    """further markup, in which texts of attributes are blocks"""

    @property
    def markup(self) -> list["str | Block"]:
        return [self.raw, *self.tail]


class Builder:
    """Builds a document. A parser adds everything in a file, in order; white space is part of the text."""

    def __init__(self, write: Writer, line: int = 1) -> None:
        self.document = Document([], [])
        self.place = Place()
        """of the text that comes next; a parser sets it, unless the line is enough"""
        self.parse_text: Callable[[Sequence[Inline]], list[Inline]] = list
        """finds markup in text that is markup of another format, too; a parser sets and calls it"""
        self.write = write
        """of the block that ends next; a parser may change it"""
        self._line = line  # after the parts that are counted
        self._start_block([])

    def _start_block(self, inherited: Sequence[InlineElement]) -> None:
        """Start a block inside elements that are still open."""
        self._texts: list[str] = []
        self._length = 0
        self._place = Place()  # of its first text
        self._raw: list[str | Block] = []
        self._n_counted = 0  # parts of `_raw` whose lines are counted
        self._raw_end_of_text = 0  # the length of `_raw` after the last text
        self._elements = [InlineElement(0, -1, -1, 0), *inherited]
        self._n_inherited = len(inherited)
        self._has_branch = False
        self._open = [(index, 0, 0) for index in range(len(self._elements))]  # index, lengths of `_texts` and `_raw`

    def _here(self, raw: str = "") -> Place:
        """Returns the place that the parser has set, or the line in which the next text begins, written as `raw`."""
        self._line += _count_lines(self._raw[self._n_counted :])
        self._n_counted = len(self._raw)
        leading = raw[: len(raw) - len(raw.lstrip())]
        in_line = Place(f"{self.document.place}line {self._line + _count_lines([leading])}")
        return self.place if self.place.unit else in_line

    def add(self, inline: Inline) -> None:
        """Add text, markup, or what ends the block."""
        markup = [
            replace(each, place=self._here()) if isinstance(each, Block) and each.place is OF_TAG else each
            for each in inline.markup
        ]
        if inline.kind == "proportional":
            self._raw.extend(markup)
            self._add_element(markup, is_proportional=True)
            self._add_text("", inline.text)
            self._elements[-1].end = self._length
        elif inline.text:
            self._add_text(inline.raw, inline.text)
        elif inline.kind in ("line_end", "block_end", "branch_end"):
            text = "".join(self._texts)
            self.end_block(*markup)
            self._has_branch = inline.kind == "branch_end" and has_letter(text) and not _SENTENCE_END.search(text)
        elif inline.opens and len(self._open) > MAX_INLINE_DEPTH:
            self.end_block(*markup)
        elif inline.opens:
            self._open.append((len(self._elements), len(self._texts), len(self._raw)))
            self._raw.extend(markup)
            self._add_element(markup, inline.opens)
        elif inline.closes and self.has_open(inline.closes):
            self._close_element(inline.closes, markup)
        else:  # it stays next to the same words
            self._raw.extend(markup)
            self._add_element(markup)
            self._has_branch |= inline.kind == "inline_choice"

    def _add_text(self, raw: str, text: str) -> None:
        """Add text, written as `raw` in the file.

        If white space, a standalone element and a punctuation mark follow each other, the element gets the white space:
        "Hund <x/>." is translated as "Hund.".
        """
        last = self._elements[-1]
        follows_text = last.is_standalone and 0 < self._raw_end_of_text == len(self._raw) - len(last.opening)
        is_movable = follows_text and not last.is_proportional and self._raw[-1] == last.opening[-1]
        is_movable = is_movable and not (self._elements[-2].is_proportional and self._elements[-2].end == self._length)
        if is_movable and text and text[0] in CLOSING_MARKS:
            words = self._texts[-1].rstrip()
            last.opening.insert(0, Unescaped(self._texts[-1][len(words) :]))
            self._length -= len(self._texts[-1]) - len(words)
            self._texts[-1], last.start, last.end = words, self._length, self._length
        if not self._place.unit and text.strip():
            self._place = self._here(raw)
        self._raw.append(raw)
        self._texts.append(text)
        self._length += len(text)
        self._raw_end_of_text = len(self._raw)

    def has_open(self, name: str) -> bool:
        return any(self._elements[index].name == name for index, _, _ in self._open[1:])

    def _close_element(self, name: str, markup: list[str | Block]) -> None:
        """End the innermost element of this name and those in it. With content but no letter, it becomes standalone."""
        self._raw.extend(markup)
        while self._elements[self._open[-1][0]].name != name:
            self._elements[self._open.pop()[0]].end = self._length
        index, n_texts, n_raw = self._open.pop()
        element, inside = self._elements[index], "".join(self._texts[n_texts:])
        element.end, element.closing = self._length, markup
        has_content = inside or len(self._elements) > index + 1
        if element.opening and has_content and inside == inside.strip() and not has_letter(inside):
            del self._elements[index:], self._texts[n_texts:]
            self._length = element.start
            self._add_element(self._raw[n_raw:])

    def add_inlines(self, inlines: Sequence[Inline], fixed: Collection[str] = ()) -> bool:
        """Add what may be in any order, such as tags that are never closed; returns whether any is translated.

        What opens or closes an element without the other end becomes standalone. The end of a line ends the block,
        unless the sentence goes on in lower case. fixed: see `nested_pairs`.
        """
        pairs = nested_pairs(inlines, fixed)
        texts = ["\n" if each.kind in ("line_end", "block_end", "branch_end") else each.text for each in inlines]
        befores = [*accumulate(texts, _nearest_text, initial="\n")]
        afters = [*accumulate(texts[::-1], _nearest_text, initial="\n")][-2::-1]
        for number, (each, before, after) in enumerate(zip(inlines, befores, afters, strict=False)):
            if each.kind == "line_end" and after.removeprefix(" ")[:1].islower() and before[-1] not in ".!?:\n":
                self.add(replace(each, text=" " * (" " not in (before[-1], after[0])), kind="proportional"))
            else:
                self.add(each if number in pairs else replace(each, opens="", closes=""))
        return has_letter("".join(texts)) or any(isinstance(part, Block) for each in inlines for part in each.tail)

    def end_block(self, *markup: str | Block) -> None:
        """End the block. markup: what follows it."""
        self._here()
        self._line += _count_lines(markup)
        text, n_around = "".join(self._texts), sum(0 < index <= self._n_inherited for index, _, _ in self._open)
        inherited = self._elements[1 : n_around + 1]  # those around the whole block do not move in it
        self._elements[0].end = self._length
        for number, (index, _, _) in enumerate(self._open[n_around + 1 :], start=n_around):
            self._elements[index].end = self._length
            inherited.append(InlineElement(0, -1, number, number + 1, name=self._elements[index].name))
        if has_letter(text):
            del self._elements[1 : n_around + 1]
            spaces = [match.span() for match in _WHITESPACE.finditer(text)]
            for each in self._elements:
                each.parent -= min(n_around, max(0, each.parent))
                start, end = _space_at(spaces, each.start)
                each.before = text[max(start, each.start - MAX_SPACE_CHARS) : each.start]
                each.after = text[each.start : min(end, each.start + MAX_SPACE_CHARS)]
            self.document.blocks += (part for part in self._raw if isinstance(part, Block))
            self._raw = [Block(text, self._elements, self.write, self._place, self._has_branch)]
        parts = [*self._raw, *markup]
        self.document.parts += parts
        self.document.blocks += (part for part in parts if isinstance(part, Block))
        self._start_block(inherited)

    def _add_element(self, markup: Sequence[str | Block], name: str = "", is_proportional: bool = False) -> None:
        """Add an element around words or, without a name, a standalone one."""
        parent, last = self._open[-2 if name else -1][0], self._elements[-1]
        are_alike = not name and last.is_standalone and not (is_proportional or last.is_proportional)
        is_adjacent = self._raw_end_of_text <= len(self._raw) - len(last.opening) - len(markup)  # no text between them
        if are_alike and last.parent == parent and is_adjacent:
            last.opening.extend(markup)
            return
        start, depth = self._length, self._elements[parent].depth + 1
        element = InlineElement(start, start, parent, depth, [*markup], [], name, not name, is_proportional)
        self._elements.append(element)


def _nearest_text(last: str, text: str) -> str:
    """Returns a text beside an inline, or the one before it if it is empty or a space."""
    return text if text.strip(" ") else last


def nested_pairs(inlines: Sequence[Inline], fixed: Collection[str]) -> set[int]:
    """Returns the indices of inlines that form pairs of start and end, properly nested.

    fixed: names of elements that always form pairs. Others form none if they cross a fixed pair or each other.
    """
    found, alive, open_ = set[int](), set[int](), list[int]()
    last_of: dict[str, int] = {}  # the last start of each name
    for index, each in enumerate(inlines):
        if each.opens:
            open_.append(index)
            alive.add(index)
            last_of[each.opens] = index
        elif each.closes:
            while open_ and (
                open_[-1] not in alive or (each.closes in fixed and inlines[open_[-1]].opens != each.closes)
            ):
                alive.discard(open_.pop())
            if open_ and inlines[open_[-1]].opens == each.closes:
                found |= {open_.pop(), index}
            else:
                alive.discard(last_of.pop(each.closes, -1))
    return found


def _count_lines(parts: Sequence[str | Block]) -> int:
    return sum(part.count("\n") for part in parts if isinstance(part, str))


def _space_at(spaces: Sequence[Span], offset: int) -> Span:
    """Returns the white space around or next to an offset. spaces: all white space of the text, from left to right."""
    found = bisect_right(spaces, (offset, offset + 1)) - 1
    following = spaces[found + 1 : found + 2]
    if following and following[0][0] == offset:
        return following[0]
    return spaces[found] if found >= 0 and offset <= spaces[found][1] else (offset, offset)


def _place_elements(block: Block, text: str, links: Sequence[Link]) -> list[Span]:
    """Returns the span of each element in a translation: around the longest sequence of words linked to its own words.

    An element without such words gets the nearest word that no other element has. A standalone element stands next to
    a word that is linked to its neighbour. No span begins or ends inside a word. For example, "<b>rotes</b> Auto" with
    "voiture rouge", and links from rotes to rouge and from Auto to voiture: b is at (8, 13).
    """
    if len(block.elements) == 1:  # as in most blocks
        return [(0, len(text))]
    if _is_copy(block, text):
        return [(each.start, max(each.start, each.end)) for each in block.elements]
    source_spaces = [match.span() for match in _WHITESPACE.finditer(block.source)]
    text_spaces = [match.span() for match in _WHITESPACE.finditer(text)]
    begin, finish = len(block.source) - len(block.source.lstrip()), len(block.source.rstrip())  # without outer space
    growth = len(text) - len(block.source)
    copied = TakenSpans(text)  # but for the first character of each span, before which an element may begin or end
    for (one, last), (start, end) in links:
        if block.source[one:last] == text[start:end]:
            copied.take((start + 1, end))
    linked = _longest_linked_spans(block, links)
    edges = [edge for edge in word_boundaries(text) if copied.is_free((edge, edge + 1))]
    placement = Placement(block.source[:finish], text[: finish + growth], links, edges)
    words = [(start, end) for start, end in pairwise(edges) if any(map(is_word, text[start:end]))]
    starts = [start for start, _ in words]
    spaceless = ((offset, offset) for offset in edges[1:] if _is_spaceless_at(text, offset))
    cuts = sorted({*filter(copied.is_free, text_spaces), *spaceless})
    spans = [(0, len(text))]
    taken: list[set[int]] = [set() for _ in block.elements]  # words of each element that its children have
    n_breaks = Counter(each.parent for each in block.elements if each.is_break)  # in each element; those to come
    last_breaks: dict[int, int] = {}  # the end of the last one in each element
    for index, each in enumerate(block.elements[1:], start=1):
        parent, (first, last) = block.elements[each.parent], spans[each.parent]
        outer = parent.start, parent.end  # in the source; first, last: in the translation
        if not each.parent:
            outer, (first, last) = (begin, finish), (begin, finish + growth)
        if each.is_proportional:
            share = (each.start - outer[0]) / max(1, outer[1] - outer[0])
            wanted = first + share * (last - first)
            if each.start <= outer[0]:  # it may be in the white space before all words
                cut = first - outer[0] + each.start, first - outer[0] + min(each.end, outer[0])
            elif each.is_break:
                n_breaks[each.parent] -= 1
                within = last_breaks.get(each.parent, first), last
                cut = _nearest_cut(cuts, within, wanted, n_breaks[each.parent])
                last_breaks[each.parent] = cut[1]
            else:
                cut = _nearest_cut(cuts, (first, last), wanted)
            spans.append(cut if each.is_break else (cut[0], cut[0]))
            continue
        if each.start <= outer[0]:
            target = first - outer[0] + each.start
        elif each.start > outer[1] or each.start == parent.end:
            target = last - outer[1] + each.start
        else:
            target = min(max(placement.offset_of(each.placeholder), first), last)
        if each.is_standalone or not _has_word(block, each):
            leans_right = each.before and block.source[each.start : each.start + 1] not in CLOSING_MARKS
            number = bisect_left(starts, target) - 1
            if leans_right and text[target : target + 1] in CLOSING_MARKS and number >= 0:
                target = max(first, starts[number])  # no space is written before a punctuation mark
            spans.append((target, target))
            continue
        linked_start, linked_end = linked[index]
        start, end = max(first, boundary_before(edges, linked_start)), min(last, boundary_after(edges, linked_end))
        if each.start <= outer[0] and each.end >= outer[1]:
            start, end = first, last  # the whole content of its parent
        found = {*range(bisect_left(starts, start), bisect_left(starts, end))}
        own = found - taken[each.parent]
        if not own:
            near = bisect_left(starts, target)
            nearest = max(near - MAX_DISTANCE_WORDS, bisect_left(starts, first))
            free = {*range(nearest, min(near + MAX_DISTANCE_WORDS, bisect_left(starts, last)))} - taken[each.parent]
            free = {number for number in free if is_word(text[starts[number]])}  # no placeholder such as {% x %}
            own = {*sorted(free, key=lambda number: (abs(number - near), number))[:1]}
        if not own and (found or start >= end):
            start, end = target, target
        elif own != found:  # of words 4, 5 and 7, it gets 4 and 5
            last_own = next(number for number in count(min(own)) if number + 1 not in own)
            start, end = words[min(own)][0], words[last_own][1]
        taken[each.parent].update(range(bisect_left(starts, start), bisect_left(starts, end)))
        spans.append((start, end))
    last_ends: dict[int, int] = {}  # the end of each element's last proportional child; these stay in order
    earliest, ended = [0], [(0, 0)]  # first offsets of elements; ends, old and new, of those from before the block
    for index, each in enumerate(block.elements[1:], start=1):
        (first, last), (start, end) = spans[each.parent], spans[index]
        is_placed = start < end or not _has_word(block, each)
        if is_placed and not (each.is_proportional and each.start < each.end):  # keep white space on the same side
            start, end = (
                _shift_with_space(_space_at(source_spaces, offset), offset, _space_at(text_spaces, now), now)
                for offset, now in ((each.start, start), (each.end, end))
            )
            spans[index] = (min(max(start, first), last), min(max(end, first), last))
        if each.is_proportional:
            start = max(spans[index][0], last_ends.get(each.parent, 0))
            spans[index] = start, max(start, spans[index][1])
            last_ends[each.parent] = spans[index][1]
        goes_on = each.name and each.opening and not each.closing  # into the next block, so nothing may end in it
        earliest.append(max(new for old, new in ended if old <= each.start) if goes_on else earliest[each.parent])
        spans[index] = max(spans[index][0], earliest[index]), max(spans[index][1], earliest[index])
        if each.closing and not each.opening:
            ended.append((each.end, spans[index][1]))
    return spans


def _is_spaceless_at(text: str, offset: int) -> bool:
    following = text[offset : offset + 1]
    return is_spaceless(text[offset - 1]) and is_spaceless(following) and following not in CLOSING_MARKS


def _shift_with_space(space: Span, offset: int, new_space: Span, now: int) -> int:
    """Returns an offset as far into the new white space as `offset` is into the old; `now` if their widths differ."""
    is_equal = space[1] - space[0] == new_space[1] - new_space[0]
    return new_space[0] + offset - space[0] if is_equal else now


def _nearest_cut(cuts: Sequence[Span], within: Span, wanted: float, n_after: int = 0) -> Span:
    """Returns the cut (a place for a line break) in a span nearest to an offset, or else the end. cuts: sorted.

    n_after: how many cuts it leaves after it, if there are enough.
    """
    first, stop = bisect_left(cuts, (within[0] + 1, 0)), bisect_left(cuts, within[1], key=lambda cut: cut[1])
    if wanted >= within[1] or first >= stop:
        return within[1], within[1]
    last, after = max(first, stop - 1 - n_after), bisect_left(cuts, (wanted, wanted))
    near = [cuts[min(max(first, index), last)] for index in (after - 1, after)]
    return min(near, key=lambda each: abs(sum(each) / 2 - wanted))


def _longest_linked_spans(block: Block, links: Sequence[Link]) -> list[Span]:
    """Returns for each element the longest span of the translation whose words are all linked to it; (0, 0): none."""
    owners = [0] * (len(block.source) + 1)  # the innermost element at each character
    for index, each in enumerate(block.elements):
        owners[each.start : each.end] = [index] * (each.end - each.start)
    best = [(0, -1)] * len(block.elements)  # the indices of the first and the last link
    now = [(0, -1)] * len(block.elements)
    for number, ((start, end), _) in enumerate(links):
        owner = max(owners[start], owners[max(start, end - 1)], key=lambda index: block.elements[index].depth)
        while owner > 0:
            first, last = now[owner]
            now[owner] = (first if 0 <= last == number - 1 else number, number)
            best[owner] = max(best[owner], now[owner], key=lambda span: span[1] - span[0])
            owner = block.elements[owner].parent
    return [(links[first][1][0], links[last][1][1]) if first <= last else (0, 0) for first, last in best]


def _insert_elements(block: Block, text: str, spans: Sequence[Span], others: Mapping[Block, str]) -> list[str]:
    """Returns a translation with its elements in their spans, inner ones first. others: rendered attributes."""
    children: list[list[int]] = [[] for _ in spans]
    for index, each in enumerate(block.elements[1:], start=1):
        children[each.parent].append(index)
    keeps_source, spans = _elements_without_words(block, spans), [*spans]
    for index, each in enumerate(block.elements):
        if each.parent >= 0 and keeps_source[each.parent]:
            spans[index] = (each.start, each.end)
    written: list[list[str]] = [[] for _ in spans]
    is_copy = _is_copy(block, text)
    for index in reversed(range(len(spans))):
        each, inside, follows_standalone = block.elements[index], list[str](), False
        if each.is_proportional:
            written[index] = [*_fill_blocks(each.opening, others)]
            continue
        here = block.source if keeps_source[index] else text
        offset, end = (each.start, each.end) if keeps_source[index] else spans[index]
        for child in sorted(children[index], key=lambda child: (spans[child], child)):
            start = max(offset, spans[child][0])  # never inside the sibling before it
            left, right = "", ""
            element = block.elements[child]
            is_standalone = element.is_standalone and not element.is_proportional
            if not keeps_source[index] and (is_standalone or keeps_source[child]):
                neighbours = text[start - 1 : start] if start else "", text[start : start + 1]
                placeholder = element.placeholder if element.is_standalone else Placeholder(element.start, "", " ", " ")
                left, right = spaces_around(placeholder, block.source, *neighbours)
                is_spaced = follows_standalone and offset == start
                left = "" if is_spaced or (is_copy and not placeholder.before) else left
                right = "" if is_copy and not placeholder.after else right
            inside += [Unescaped(here[offset:start] + left), *written[child], Unescaped(right)]
            offset, follows_standalone = max(start, spans[child][1]), is_standalone
        inside.append(Unescaped(here[offset:end]))
        written[index] = [*_fill_blocks(each.opening, others), *inside, *_fill_blocks(each.closing, others)]
    return written[0]


def _is_copy(block: Block, text: str) -> bool:
    """Whether a translation equals its source but for case, such as a name; then no element moves."""
    return len(text) == len(block.source) and text.lower() == block.source.lower()


def _has_word(block: Block, element: InlineElement) -> bool:
    return any(map(is_word, block.source[element.start : element.end]))


def _elements_without_words(block: Block, spans: Sequence[Span]) -> list[bool]:
    """Returns for each element whether it, or one around it, has words in the source but none in the translation."""
    found = [False]
    for each, (start, end) in zip(block.elements[1:], spans[1:], strict=True):
        found.append(found[each.parent] or (start == end and _has_word(block, each)))
    return found


def _fill_blocks(parts: Sequence[str | Block], written: Mapping[Block, str]) -> Iterator[str]:
    """Yield parts of a file with its blocks rendered."""
    for part in parts:
        yield part if isinstance(part, str) else written[part]
