"""Blocks of text in a document, what stands in and between them, and the document again with their translations.

A format says from the beginning of a file to its end what it finds: see `Builder`. Everything else stays as it was
written. Knows characters and tokens, but no formats, no files and no models.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Literal, NamedTuple

from transformer_cli.text.alignment import (
    CLOSING_MARKS,
    Link,
    Placement,
    Span,
    boundary_after,
    boundary_before,
    spaces_around,
    word_boundaries,
)
from transformer_cli.text.lines import has_letter
from transformer_cli.text.normalization import Placeholder, is_spaceless, is_word

MAX_DISTANCE_WORDS = 40  # words within which a free one is looked for
MAX_INLINE_DEPTH = 16  # elements inside each other that go round words; an inner one begins and ends a block
MAX_SPACE_CHARS = 100  # characters of white space that go with a point; many points may stand in more
_WHITESPACE = re.compile(r"\s+")
_COLLAPSIBLE = re.compile(r"[ \t\n\r\f\v]{2,}|[\t\n\r\f\v]")  # white space that is read as one space


@dataclass(slots=True)
class InlineElement:
    """An inline element of a block that goes round words, or a point: something that stands between them."""

    start: int
    """where it begins in the text of its block"""
    end: int
    parent: int
    """the index of the one that it is in; that of the first one, which is around all of the block, is -1"""
    depth: int
    opening: list["str | Block"] = field(default_factory=list)
    """its tag; texts in attributes are blocks"""
    closing: str = ""
    name: str = ""
    is_standalone: bool = False
    """whether it is kept as it is: a picture, a comment, or an element whose text has no letter"""
    is_proportional: bool = False
    """whether it is a point that stands where as much of the text is before it as in the source, such as the end of a
    line; it may stand for a space, from `start` to `end`"""
    before: str = ""
    """the white space before a point"""
    after: str = ""
    """likewise after it"""

    @property
    def placeholder(self) -> Placeholder:
        return Placeholder(self.start, "", self.before, self.after)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Text that is translated by itself: a paragraph, a cell, an attribute."""

    source: str
    """as it is in the file, without markup"""
    elements: list[InlineElement]
    """in the order in which they begin; the first one is around all of it"""
    write: "Writer"

    @property
    def text(self) -> str:
        """What is translated: the source on one line, with one space between words, and none at its ends."""
        return _COLLAPSIBLE.sub(" ", self.source.strip())

    def restore_whitespace(self, text: str, links: Sequence[Link]) -> tuple[str, Sequence[Link]]:
        """Returns a translation of `text`, and its links, as one of the source: with the white space at its ends."""
        inside = self.source.strip()
        start = self.source.index(inside)
        end = start + len(inside)
        dropped = {place for found in _COLLAPSIBLE.finditer(inside) for place in range(found.start() + 1, found.end())}
        places = [start + place for place in range(len(inside)) if place not in dropped] + [end]
        if len(text) == len(places) - 1 and text.lower() == self.text.lower():  # a copy: no space changes
            written = list(self.source)
            for place, char in zip(places, text, strict=False):
                written[place] = written[place] if char.isspace() else char
            return "".join(written), ()
        moved = [
            ((places[one], places[last - 1] + 1 if last else start), (start + other, start + other_last))
            for (one, last), (other, other_last) in links
        ]
        return f"{self.source[:start]}{text}{self.source[end:]}", moved

    def has_unplaced_element(self, text: str, links: Sequence[Link]) -> bool:
        """Whether an element keeps its words of the source, since no word of a translation is left for it."""
        text, links = self.restore_whitespace(text, links)
        return any(_elements_without_words(self, _place_elements(self, text, links)))


class Unescaped(str):
    """A part of a translation among markup, which is still to be written as the format writes text."""

    __slots__ = ()


Writer = Callable[[Sequence[str]], str]
"""Returns what stands in the file for the markup of a block, as it is, and `Unescaped` between it"""


def escaping_writer(escape: Callable[[str], str]) -> Writer:
    """Returns what joins markup and words that are written so."""
    return lambda parts: "".join(escape(each) if isinstance(each, Unescaped) else each for each in parts)


@dataclass
class Document:
    """What is translated of a file, or of a part of one, and what is not."""

    parts: list[str | Block]
    """in their order; elements of blocks hold further blocks"""
    blocks: list[Block]
    """all blocks; those in the attributes of a block's elements come before it"""

    def render(self, translations: Sequence[tuple[str, Sequence[Link]]]) -> str:
        """Returns the document with the translation of each block, and its inline elements round the linked words.

        Changes nothing in the document, so that several threads may render one.

        translations: for each block, its text, and which words belong to each other, in the order of the translation.
        """
        written: dict[Block, str] = {}
        for block, (text, links) in zip(self.blocks, translations, strict=True):
            text, links = block.restore_whitespace(text, links)
            written[block] = block.write(_insert_elements(block, text, _place_elements(block, text, links), written))
        return "".join(_fill_blocks(self.parts, written))


class Builder:
    """Makes a document of what a format finds in a file, from its beginning to its end.

    Each call brings what is written at that place of the file, which stays as it is where nothing is translated. White
    space is part of the text.
    """

    def __init__(self, write: Writer) -> None:
        self.document = Document([], [])
        self._write = write
        self._start_block([])

    def _start_block(self, inherited: Sequence[InlineElement]) -> None:
        """Begin a block in elements that have begun before it."""
        self._texts: list[str] = []
        self._length = 0
        self._raw: list[str | Block] = []
        self._raw_end_of_text = 0  # where the last text ends in it
        self._elements = [InlineElement(0, -1, -1, 0), *inherited]
        self._n_inherited = len(inherited)
        self._open = [(index, 0, 0) for index in range(len(self._elements))]  # and how much stood before them

    def add_text(self, raw: str, text: str | None = None) -> None:
        """Add text. raw: how it is written, if not as it is.

        White space between words and a point that a mark follows goes with the point: "Hund <x/>." is read as "Hund.".
        """
        text, point = raw if text is None else text, self._elements[-1]
        is_behind_text = point.is_standalone and 0 < self._raw_end_of_text == len(self._raw) - len(point.opening)
        is_behind_proportional = (
            is_behind_text and self._elements[-2].is_proportional and self._elements[-2].end == self._length
        )
        if (
            is_behind_text
            and not (point.is_proportional or is_behind_proportional)
            and text
            and text[0] in CLOSING_MARKS
        ):
            words = self._texts[-1].rstrip()
            point.opening.insert(0, Unescaped(self._texts[-1][len(words) :]))
            self._length -= len(self._texts[-1]) - len(words)
            self._texts[-1], point.start, point.end = words, self._length, self._length
        self._raw.append(raw)
        self._texts.append(text)
        self._length += len(text)
        self._raw_end_of_text = len(self._raw)

    def open_element(self, name: str, *markup: str | Block) -> None:
        """Begin an element that goes round words."""
        if len(self._open) > MAX_INLINE_DEPTH:
            self.end_block(*markup)
            return
        self._open.append((len(self._elements), len(self._texts), len(self._raw)))
        self._raw.extend(markup)
        self._add_element(markup, name)

    def has_open(self, name: str) -> bool:
        """Whether an element of this name is open."""
        return any(self._elements[index].name == name for index, _, _ in self._open[1:])

    def close_element(self, name: str, markup: str) -> None:
        """End the innermost element of this name, and those in it. One with content, but no letter becomes a point."""
        if not self.has_open(name):
            self.add_standalone(markup)
            return
        self._raw.append(markup)
        while self._elements[self._open[-1][0]].name != name:
            self._elements[self._open.pop()[0]].end = self._length
        index, n_texts, n_raw = self._open.pop()
        element, inside = self._elements[index], "".join(self._texts[n_texts:])
        element.end, element.closing = self._length, markup
        has_content = inside or len(self._elements) > index + 1
        if element.opening and has_content and inside == inside.strip() and not has_letter(inside):
            del self._elements[index:], self._texts[n_texts:]
            self._length = element.start
            self._add_element(self._raw[n_raw:], is_standalone=True)

    def add_standalone(self, *markup: str | Block) -> None:
        """Add what stands between words, and beside the same words in a translation."""
        self._raw.extend(markup)
        self._add_element(markup, is_standalone=True)

    def add_proportional(self, *markup: str | Block, space: str = "") -> None:
        """Add what stands where as much of the text is before it as in the source. space: what it stands for."""
        self._raw.extend(markup)
        self._add_element(markup, is_standalone=True, is_proportional=True)
        self.add_text("", space)
        self._elements[-1].end = self._length

    def add_inlines(self, inlines: Sequence["Inline"], fixed: Collection[str] = ()) -> bool:
        """Add text and what stands in it; returns whether there is a letter. fixed: see `nested_pairs`.

        The end of a line is a seam of a sentence that goes on in a small letter, else a boundary.
        """
        pairs = nested_pairs([(each.opens, each.closes) for each in inlines], fixed)
        texts = ["", *(each.text for each in inlines), ""]
        for number, (each, before, after) in enumerate(zip(inlines, texts, texts[2:], strict=False)):
            if each.text:
                self.add_text(each.raw, each.text)
            elif each.kind == "proportional":
                self.add_proportional(each.raw)
            elif each.kind == "line_end" and after[:1].islower() and before[-1:] not in (*".!?:", ""):
                self.add_proportional(each.raw, space=" " * (before[-1] != " "))
            elif each.kind:
                self.end_block(each.raw)
            elif number in pairs:
                (self.open_element if each.opens else self.close_element)(each.opens or each.closes, each.raw)
            else:
                self.add_standalone(each.raw)
        return has_letter("".join(texts))

    def end_block(self, *markup: str | Block) -> None:
        """End the block. markup: what stands behind it."""
        if (
            len(self._elements) == len(self._open) == self._n_inherited + 1 and not self._texts
        ):  # nothing has begun in it
            self.document.parts += markup
            return
        text, n_around = "".join(self._texts), sum(0 < index <= self._n_inherited for index, _, _ in self._open)
        inherited = self._elements[1 : n_around + 1]  # they begin before the block and end behind it: they move nothing
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
            self.document.blocks.append(Block(text, self._elements, self._write))
            self._raw = [self.document.blocks[-1]]
        self.document.parts += [*self._raw, *markup]
        self._start_block(inherited)

    def _add_element(
        self,
        markup: Sequence[str | Block],
        name: str = "",
        *,
        is_standalone: bool = False,
        is_proportional: bool = False,
    ) -> None:
        inside = self._open[-2 if name else -1][0]
        last = self._elements[-1]
        are_standalone = (
            is_standalone
            and last.is_standalone
            and not (is_proportional or last.is_proportional)
            and last.parent == inside
        )
        if are_standalone and self._raw_end_of_text <= len(self._raw) - len(last.opening) - len(
            markup
        ):  # nothing is between them
            last.opening.extend(markup)
            return
        element = InlineElement(
            self._length, self._length, inside, 1, [*markup], "", name, is_standalone, is_proportional
        )
        element.depth += self._elements[inside].depth
        self._elements.append(element)


class Inline(NamedTuple):
    """Text, or what stands in it: the end of a line that is kept, a boundary, a seam, or else a tag or a point."""

    raw: str
    text: str = ""
    opens: str = ""
    closes: str = ""
    kind: Literal["", "line_end", "block_end", "proportional"] = ""


def nested_pairs(inlines: Sequence[tuple[str, str]], fixed: Collection[str]) -> set[int]:
    """Returns which of several marks, in their order, are pairs that open and close something, one inside the other.

    marks: the names of what each one opens and closes ("": nothing). fixed: the names of those that are pairs anyway;
    whatever crosses one of them is none, nor are two others that cross.
    """
    found, alive, open_ = set[int](), set[int](), list[int]()
    last_of: dict[str, int] = {}  # where the last of a name has begun
    for index, (opens, closes) in enumerate(inlines):
        if opens:
            open_.append(index)
            alive.add(index)
            last_of[opens] = index
        elif closes:
            while open_ and (open_[-1] not in alive or (closes in fixed and inlines[open_[-1]][0] != closes)):
                alive.discard(open_.pop())
            if open_ and inlines[open_[-1]][0] == closes:
                found |= {open_.pop(), index}
            else:
                alive.discard(last_of.pop(closes, -1))
    return found


def _space_at(spaces: Sequence[Span], place: int) -> Span:
    """Returns the white space in or beside which a place is. spaces: of a text, from left to right."""
    found = bisect_right(spaces, (place, place + 1)) - 1
    following = spaces[found + 1 : found + 2]
    if following and following[0][0] == place:
        return following[0]
    return spaces[found] if found >= 0 and place <= spaces[found][1] else (place, place)


def _place_elements(block: Block, text: str, links: Sequence[Link]) -> list[Span]:
    """Returns where each element stands in a translation: round the longest run of words that are linked to its own.

    What has no such words, or none of its own, stands round the nearest word that no other element has; a point stands
    beside a word that is linked to a neighbour of it. No place is within a word. For example, "<b>rotes</b> Auto" with
    "voiture rouge", and links from rotes to rouge and from Auto to voiture: b is at (8, 13).
    """
    if len(block.elements) == 1:  # as in most blocks
        return [(0, len(text))]
    if _is_copy(block, text):
        return [(each.start, max(each.start, each.end)) for each in block.elements]
    of_source, of_text = ([match.span() for match in _WHITESPACE.finditer(each)] for each in (block.source, text))
    begin, finish = len(block.source) - len(block.source.lstrip()), len(block.source.rstrip())  # but for white space
    longer = len(text) - len(block.source)
    runs, edges = _longest_linked_spans(block, links), word_boundaries(text)
    placement = Placement(block.source[:finish], text[: finish + longer], links)
    words = [(start, end) for start, end in pairwise(edges) if is_word(text[start])]
    starts = [start for start, _ in words]
    cuts = sorted({*of_text, *((place, place) for place in edges[1:] if _is_spaceless_at(text, place))})
    places: list[Span] = []
    taken: list[set[int]] = [set() for _ in block.elements]  # of the words inside each one, those of elements in it
    for index, each in enumerate(block.elements):
        if each.parent < 0:
            places.append((0, len(text)))
            continue
        parent, (first, last) = block.elements[each.parent], places[each.parent]
        around = parent.start, parent.end
        if not each.parent:
            around, (first, last) = (begin, finish), (begin, finish + longer)
        if each.is_proportional:
            share = (each.start - around[0]) / max(1, around[1] - around[0])
            cut = _nearest_cut(cuts, (first, last), first + share * (last - first))
            if each.start <= around[0]:  # perhaps in the white space before all words
                cut = first - around[0] + each.start, first - around[0] + min(each.end, around[0])
            places.append(cut if each.start < each.end else (cut[0], cut[0]))
            continue
        if each.start <= around[0]:
            beside = first - around[0] + each.start
        elif each.start > around[1] or each.start == parent.end:
            beside = last - around[1] + each.start
        else:
            beside = min(max(placement.offset_of(each.placeholder), first), last)
        if each.is_standalone or not _has_word(block, each):
            leans_right = each.before and block.source[each.start : each.start + 1] not in CLOSING_MARKS
            number = bisect_left(starts, beside) - 1
            if leans_right and text[beside : beside + 1] in CLOSING_MARKS and number >= 0:
                beside = max(first, starts[number])  # a mark has no space before it
            places.append((beside, beside))
            continue
        start, end = (
            max(first, boundary_before(edges, runs[index][0])),
            min(last, boundary_after(edges, runs[index][1])),
        )
        if each.start <= around[0] and each.end >= around[1]:
            start, end = first, last  # around all that its parent is around
        found = {*range(bisect_left(starts, start), bisect_left(starts, end))}
        own = found - taken[each.parent]
        if not own:
            near, inside = bisect_left(starts, beside), range(bisect_left(starts, first), bisect_left(starts, last))
            free = {
                *range(max(near - MAX_DISTANCE_WORDS, inside.start), min(near + MAX_DISTANCE_WORDS, inside.stop))
            } - taken[each.parent]
            own = {*sorted(free, key=lambda number: (abs(number - near), number))[:1]}
        if found and not own:
            start, end = beside, beside
        elif own != found:  # of 4, 5 and 7, it goes round 4 and 5
            last_own = next(number for number in count(min(own)) if number + 1 not in own)
            start, end = words[min(own)][0], words[last_own][1]
        taken[each.parent].update(range(bisect_left(starts, start), bisect_left(starts, end)))
        places.append((start, end))
    behind: dict[int, int] = {}  # the last seam in each element: they stay in their order
    for index, each in enumerate(block.elements[1:], start=1):
        (first, last), (start, end) = places[each.parent], places[index]
        is_placed = start < end or not _has_word(block, each)
        if is_placed and not (each.is_proportional and each.start < each.end):  # white space stays on its side
            start, end = (
                _shift_with_space(_space_at(of_source, place), place, _space_at(of_text, now), now)
                for place, now in ((each.start, start), (each.end, end))
            )
            places[index] = (min(max(start, first), last), min(max(end, first), last))
        if each.is_proportional:
            start = max(places[index][0], behind.get(each.parent, 0))
            places[index] = start, max(start, places[index][1])
            behind[each.parent] = places[index][1]
    return places


def _is_spaceless_at(text: str, place: int) -> bool:
    return is_spaceless(text[place - 1]) and is_spaceless(text[place : place + 1])


def _shift_with_space(space: Span, place: int, new_space: Span, now: int) -> int:
    """Returns where a place comes to stand in or beside white space that is as wide as that in the source."""
    is_equal = space[1] - space[0] == new_space[1] - new_space[0]
    return new_space[0] + place - space[0] if is_equal else now


def _nearest_cut(cuts: Sequence[Span], within: Span, wanted: float) -> Span:
    """Returns the one of several places, from left to right, that is the nearest, or else the end."""
    if wanted >= within[1]:
        return within[1], within[1]
    behind = bisect_left(cuts, (wanted, wanted))
    near = [each for each in cuts[max(0, behind - 1) : behind + 1] if within[0] < each[0] and each[1] < within[1]]
    return min(near, key=lambda each: abs(sum(each) / 2 - wanted), default=(within[1], within[1]))


def _longest_linked_spans(block: Block, links: Sequence[Link]) -> list[Span]:
    """Returns the longest run of linked words of each element, as characters of the translation; (0, 0) for none."""
    owners = [0] * (len(block.source) + 1)  # the innermost element at each character
    for index, each in enumerate(block.elements):
        owners[each.start : each.end] = [index] * (each.end - each.start)
    best = [(0, -1)] * len(block.elements)  # of links, the first and the last
    now = [(0, -1)] * len(block.elements)
    for number, ((start, end), _) in enumerate(links):
        owner = max(owners[start], owners[max(start, end - 1)], key=lambda index: block.elements[index].depth)
        while owner > 0:
            first, last = now[owner]
            now[owner] = (first if 0 <= last == number - 1 else number, number)
            best[owner] = max(best[owner], now[owner], key=lambda run: run[1] - run[0])
            owner = block.elements[owner].parent
    return [(links[first][1][0], links[last][1][1]) if first <= last else (0, 0) for first, last in best]


def _insert_elements(block: Block, text: str, places: Sequence[Span], others: Mapping[Block, str]) -> list[str]:
    """Returns a translation with the elements at their places: the inner ones are written before the outer.

    others: what has been written for the blocks in elements of this one.
    """
    children: list[list[int]] = [[] for _ in places]
    for index, each in enumerate(block.elements[1:], start=1):
        children[each.parent].append(index)
    is_own, places = _elements_without_words(block, places), [*places]  # whether the text in it stays as it was
    for index, each in enumerate(block.elements):
        if each.parent >= 0 and is_own[each.parent]:
            places[index] = (each.start, each.end)
    written: list[list[str]] = [[] for _ in places]
    is_copy = _is_copy(block, text)
    for index in reversed(range(len(places))):
        each, inside, is_behind_standalone = block.elements[index], list[str](), False
        if each.is_proportional:
            written[index] = [*_fill_blocks(each.opening, others)]
            continue
        here = block.source if is_own[index] else text
        place, end = (each.start, each.end) if is_own[index] else places[index]
        for child in sorted(children[index], key=lambda child: (places[child], child)):
            start = max(place, places[child][0])  # one that would stand inside its sister stands behind her
            left, right = "", ""
            element = block.elements[child]
            is_standalone = element.is_standalone and not element.is_proportional
            if not is_own[index] and (is_standalone or is_own[child]):
                beside = text[start - 1 : start] if start else "", text[start : start + 1]
                placeholder = element.placeholder if element.is_standalone else Placeholder(element.start, "", " ", " ")
                left, right = spaces_around(placeholder, block.source, *beside)
                left = "" if (is_behind_standalone and place == start) or (is_copy and not placeholder.before) else left
                right = "" if is_copy and not placeholder.after else right
            inside += [Unescaped(here[place:start] + left), *written[child], Unescaped(right)]
            place, is_behind_standalone = max(start, places[child][1]), is_standalone
        inside.append(Unescaped(here[place:end]))
        written[index] = [*_fill_blocks(each.opening, others), *inside, each.closing]
    return written[0]


def _is_copy(block: Block, text: str) -> bool:
    """Whether a translation is its source, perhaps in other capitals, such as a name: then no place changes."""
    return len(text) == len(block.source) and text.lower() == block.source.lower()


def _has_word(block: Block, element: InlineElement) -> bool:
    return any(map(is_word, block.source[element.start : element.end]))


def _elements_without_words(block: Block, places: Sequence[Span]) -> list[bool]:
    """Returns for each element whether no word of the translation is left for it, or for one that it is in."""
    found: list[bool] = []
    for each, (start, end) in zip(block.elements, places, strict=True):
        has_none = start == end and each.parent >= 0 and _has_word(block, each)
        found.append(has_none or (each.parent >= 0 and found[each.parent]))
    return found


def _fill_blocks(parts: Sequence[str | Block], written: Mapping[Block, str]) -> Iterator[str]:
    """Yield parts of a file, with what has been written for its blocks."""
    for part in parts:
        yield part if isinstance(part, str) else written[part]
