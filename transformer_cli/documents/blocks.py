"""Blocks of text in a document, what stands in and between them, and the document again with their translations.

A format says from the beginning of a file to its end what it finds: see `Builder`. Everything else stays as it was
written. Knows characters and tokens, but no formats, no files and no models.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

from transformer_cli.documents.held import Link, Placing, Span, edge_after, edge_before, spaces, word_edges
from transformer_cli.text.reading import Held, is_word

NEAR = 40  # words within which a free one is looked for
DEEPEST = 16  # elements inside each other that go round words; an inner one begins and ends a block


@dataclass(slots=True)
class Element:
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
    is_point: bool = False
    """whether it is kept as it is: a picture, a comment, or an element whose text has no letter"""
    before: str = ""
    """the white space before a point"""
    after: str = ""
    """likewise after it"""

    @property
    def held(self) -> Held:
        return Held(self.start, "", self.before, self.after)


@dataclass(slots=True)
class Block:
    """Text that is translated by itself: a paragraph, a cell, an attribute."""

    text: str
    """without markup, on one line"""
    elements: list[Element]
    """in the order in which they begin; the first one is around all of it"""
    write: "Write"
    translation: str = ""
    """as it is written in the file: what `Document.render` has found"""


class Words(str):
    """A part of a translation among markup, which is still to be written as the format writes text."""

    __slots__ = ()


Write = Callable[[Sequence[str]], str]
"""Returns what stands in the file for the markup of a block, as it is, and `Words` between it"""


def escaping(escape: Callable[[str], str]) -> Write:
    """Returns what joins markup and words that are written so."""
    return lambda parts: "".join(escape(each) if isinstance(each, Words) else each for each in parts)


@dataclass
class Document:
    """What is translated of a file, or of a part of one, and what is not."""

    parts: list[str | Block]
    """in their order; elements of blocks hold further blocks"""
    blocks: list[Block]
    """all blocks; those in the attributes of a block's elements come before it"""

    def render(self, translations: Sequence[tuple[str, Sequence[Link]]]) -> str:
        """Returns the document with the translation of each block, and its inline elements round the linked words.

        translations: for each block, its text, and which words belong to each other, in the order of the translation.
        """
        for block, (text, links) in zip(self.blocks, translations, strict=True):
            block.translation = block.write(_filled(block, text, _places(block, text, links)))
        return "".join(written_parts(self.parts))


def _places(block: Block, text: str, links: Sequence[Link]) -> list[Span]:
    """Returns where each element stands in a translation: round the longest run of words that are linked to its own.

    What has no such words, or none of its own, stands round the nearest word that no other element has; a point stands
    beside a word that is linked to a neighbour of it. No place is within a word. For example, "<b>rotes</b> Auto" with
    "voiture rouge", and links from rotes to rouge and from Auto to voiture: b is at (8, 13).
    """
    if len(block.elements) == 1:  # as in most blocks
        return [(0, len(text))]
    runs, edges, placing = _runs(block, links), word_edges(text), Placing(block.text, text, links)
    words = [(start, end) for start, end in pairwise(edges) if is_word(text[start])]
    starts = [start for start, _ in words]
    places: list[Span] = []
    taken: list[set[int]] = [set() for _ in block.elements]  # of the words inside each one, those of elements in it
    for index, each in enumerate(block.elements):
        if each.parent < 0:
            places.append((0, len(text)))
            continue
        parent, (first, last) = block.elements[each.parent], places[each.parent]
        if each.start in (parent.start, parent.end):
            beside = first if each.start == parent.start else last
        else:
            beside = min(max(placing.place(each.held), first), last)
        if each.is_point or each.start == each.end:
            places.append((beside, beside))
            continue
        start, end = max(first, edge_before(edges, runs[index][0])), min(last, edge_after(edges, runs[index][1]))
        if (each.start, each.end) == (parent.start, parent.end):
            start, end = first, last  # around all that its parent is around
        found = {*range(bisect_left(starts, start), bisect_left(starts, end))}
        own = found - taken[each.parent]
        if not own:
            near, inside = bisect_left(starts, beside), range(bisect_left(starts, first), bisect_left(starts, last))
            free = {*range(max(near - NEAR, inside.start), min(near + NEAR, inside.stop))} - taken[each.parent]
            own = {*sorted(free, key=lambda number: (abs(number - near), number))[:1]}
        if found and not own:
            start, end = beside, beside
        elif own != found:  # of 4, 5 and 7, it goes round 4 and 5
            last_own = next(number for number in count(min(own)) if number + 1 not in own)
            start, end = words[min(own)][0], words[last_own][1]
        taken[each.parent].update(range(bisect_left(starts, start), bisect_left(starts, end)))
        places.append((start, end))
    return places


def _runs(block: Block, links: Sequence[Link]) -> list[Span]:
    """Returns the longest run of linked words of each element, as characters of the translation; (0, 0) for none."""
    owners = [0] * (len(block.text) + 1)  # the innermost element at each character
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


def _filled(block: Block, text: str, places: Sequence[Span]) -> list[str]:
    """Returns a translation with the elements at their places: the inner ones are written before the outer."""
    children: list[list[int]] = [[] for _ in places]
    for index, each in enumerate(block.elements[1:], start=1):
        children[each.parent].append(index)
    written: list[list[str]] = [[] for _ in places]
    for index in reversed(range(len(places))):
        place, end = places[index]
        each, inside, is_behind_point = block.elements[index], list[str](), False
        if place == end and each.start < each.end:  # no word is left for it: its text stays as it was
            inside.append(Words(block.text[each.start : each.end]))
            children[index] = []
        for child in sorted(children[index], key=lambda child: (places[child], child)):
            start = max(place, places[child][0])  # one that would stand inside its sister stands behind her
            left, right = "", ""
            element = block.elements[child]
            if element.is_point or (element.start < element.end and places[child][0] == places[child][1]):
                beside = text[start - 1 : start] if start else "", text[start : start + 1]
                held = element.held if element.is_point else Held(element.start, "", " ", " ")
                left, right = spaces(held, block.text, *beside)
                left = "" if is_behind_point and place == start else left
            inside += [Words(text[place:start]), left, *written[child], right]
            place, is_behind_point = max(start, places[child][1]), element.is_point
        inside.append(Words(text[place:end]))
        written[index] = [*written_parts(each.opening), *inside, each.closing]
    return written[0]


def written_parts(parts: Sequence[str | Block]) -> Iterator[str]:
    """Yield parts of a file whose blocks have been translated."""
    for part in parts:
        yield part if isinstance(part, str) else part.translation
