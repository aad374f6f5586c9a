"""HTML → blocks of plain text, and back with the translation of each. Knows characters and tokens, but no models.

What is not translated stays as it was written, byte by byte, however broken it is. So HTML is cut into tags and text
as the HTML standard says (13.2.5), but no tree is made of it, from which it would have to be written anew. Each step is
linear in the length of the document, and nothing recurses.
"""

import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from transformer_cli.data.lines import INVISIBLE, has_letter

Span = tuple[int, int]
"""Where something begins in a text and where it ends, in characters"""
Link = tuple[Span, Span]
"""Where a word of the source stands, and where one of its translation that belongs to it"""


def _names(of_elements: str) -> frozenset[str]:
    return frozenset(of_elements.split())


INLINE = _names(  # they go round words; all others begin and end blocks
    "a abbr acronym b bdi bdo big cite data del dfn em font i img ins kbd label mark nobr output q s samp small span "
    "strike strong sub sup time tt u var wbr"
)
VOID = _names("area base br col embed hr img input link meta param source track wbr")
RAW = _names("script style textarea xmp iframe noembed noframes")  # there, < begins no other tag
KEPT = RAW | _names("code pre svg math")  # what is inside is not translated
BETWEEN_WORDS = INLINE | _names("code svg math script style")  # of what is kept; a sentence goes on there
SPACE = " \t\n\f\r"  # what HTML shows as one space; a no-break space is none of it
NEAR = 40  # characters within which the next token is looked for
DEEPEST = 16  # elements inside each other that go round words; an inner one begins and ends a block

# No alternative can fail far behind the place where it has begun, so nothing is read twice.
_MARKUP = re.compile(
    r"<(?:!--(?:-?>|.*?(?:--!?>|\Z))"  # a comment; what is not closed goes on to the end
    r"|(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*)(?:[^>=]*>)?"  # all of a tag, or what stands before its first value
    r"|(?:[!?]|/[^a-zA-Z>])[^>]*(?:>|\Z)|/>)",  # a doctype, and what browsers take for a comment
    re.DOTALL,
)
_IN_TAG = re.compile(r"""(?P<end>>)|={2,}|=[ \t\n\f\r]*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))?""")
_ATTRIBUTE = re.compile(r"([^\s/>=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>][^\s>]*)))?")
_SPACES = re.compile(f"[{SPACE}]+")


def word_links(
    source: str, source_tokens: Sequence[str], text: str, tokens: Sequence[str], alignment: Sequence[int]
) -> list[Link]:
    """Returns which characters of a sentence and of its translation belong to each other, in the latter's order.

    alignment: for each token of the translation, the index of the one of the source that it belongs to. Tokens are
    looked for in the text, without case; one that is not written there, such as <unk>, has no link.
    """
    if text == source:  # a name, a number, or what was copied
        return [(each.span(), each.span()) for each in re.finditer(r"\S+", text)]
    sources, targets = _spans(source, source_tokens), _spans(text, tokens)
    pairs = ((sources[index], target) for index, target in zip(alignment, targets, strict=False))
    return [(one, other) for one, other in pairs if one and other]


def _spans(text: str, tokens: Sequence[str]) -> list[Span | None]:
    """Returns where each token stands in a text; None for one that is not found."""
    text, places = _as_read(text)
    lower = text.lower() if len(text.lower()) == len(text) else text
    found: list[Span | None] = []
    place = 0
    for token in tokens:
        word = token.strip() if lower is text else token.strip().lower()
        start = lower.find(word, place, place + len(word) + NEAR) if word else -1
        found.append((places[start], places[start + len(word)]) if start >= 0 else None)
        place = place if start < 0 else start + len(word)
    return found


def _as_read(text: str) -> tuple[str, Sequence[int]]:
    """Returns a text as `fitting.read` may have put it, and where each of its characters begins; then where it ends."""
    if text.isascii():
        return text, range(len(text) + 1)
    characters: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        if characters and len(composed := unicodedata.normalize("NFC", characters[-1] + char)) == 1:
            characters[-1] = composed
        elif char not in INVISIBLE:
            characters.append(char)
            places.append(place)
    return "".join(characters), [*places, len(text)]


@dataclass(slots=True)
class Element:
    """An inline element of a block, or (of no length) something that stands between words."""

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


@dataclass(slots=True)
class Block:
    """Text that is translated by itself: a paragraph, a cell, an attribute."""

    text: str
    """without markup, on one line"""
    elements: list[Element]
    """in the order in which they begin; the first one is around all of it"""
    is_attribute: bool = False
    translation: str = ""
    """as HTML: what `Document.render` has found"""


@dataclass
class Document:
    """HTML, cut into what is translated and what is not."""

    parts: list[str | Block]
    """in their order; elements of blocks hold further blocks"""
    blocks: list[Block]
    """all blocks; those in the attributes of a block's elements come before it"""

    @staticmethod
    def parse(source: str) -> "Document":
        """Cut a page or a fragment into blocks. Takes whatever there is: nothing is wrong with HTML."""
        return _Parser().parse(source)

    def render(self, translations: Sequence[tuple[str, Sequence[Link]]]) -> str:
        """Returns the document with the translation of each block, and its inline elements round the linked words.

        translations: for each block, its text, and which words belong to each other, in the order of the translation.
        """
        for block, (text, links) in zip(self.blocks, translations, strict=True):
            block.translation = _filled(block, text, _places(block, text, links))
        return "".join(_written(self.parts))


class _Parser:
    """What is known at a place of the document."""

    def __init__(self) -> None:
        self.document = Document([], [])
        self.begin([])

    def begin(self, outer: list[Element]) -> None:
        """Begin a block inside elements that have begun before it."""
        self.text: list[str] = []
        self.length = 0
        self.raw: list[str | Block] = []  # what the block is made from
        self.space = ""  # white space after the text
        self.elements = [Element(0, -1, -1, 0), *outer]
        self.open = [*range(len(self.elements))]  # those that are open, from the first to the innermost
        self.n_outer = len(outer)  # how many of them have begun before the block, and are as they were

    def element(self, opening: list[str | Block], name: str) -> None:
        place = self.length + bool(self.space)  # a space before it belongs to the text before it
        self.open.append(len(self.elements))
        self.elements.append(Element(place, -1, self.open[-2], len(self.open) - 1, opening, "", name))

    def end(self) -> None:
        """End the block at something that does not go round words."""
        if not self.raw:
            return
        if self.n_outer and self.elements[self.n_outer].opening:  # white space of this block
            self.n_outer -= 1
        outer = self.elements[1 : self.n_outer + 1]
        for each in [self.elements[index] for index in self.open[self.n_outer + 1 :]]:
            each.end = max(each.start, self.length)
            outer.append(Element(0, -1, len(outer), len(outer) + 1, name=each.name))
        text = "".join(self.text)
        if has_letter(text):
            block = self.block(text)
            self.document.blocks.append(block)
            self.document.parts.append(block)
        else:
            self.document.parts.extend(self.raw)
        self.begin(outer)

    def block(self, text: str) -> Block:
        """Returns the block, without the elements that begin before it and end behind it: they move nothing."""
        elements = [self.elements[0], *self.elements[self.n_outer + 1 :]]
        elements[0].end = len(text)
        behind = next((each for each in elements if each.start > len(text)), None)
        if behind:
            behind.opening.insert(0, self.space)
        else:
            elements[0].closing = self.space
        for each in elements[1:]:
            each.start, each.end = min(each.start, len(text)), min(each.end, len(text))
            each.parent = max(0, each.parent - self.n_outer)
        return Block(text, elements)

    def close(self, tag: str) -> None:
        """End the innermost element."""
        element = self.elements[self.open.pop()]
        element.end, element.closing = max(element.start, self.length), tag
        self.n_outer = min(self.n_outer, len(self.open) - 1)

    def parse(self, source: str) -> Document:
        """See `Document.parse`."""
        place = 0
        while token := _MARKUP.search(source, place):
            self.add(source[place : token.start()])
            start, place = token.span()
            if not token["name"]:
                self.point([token[0]])
                continue
            has_values = not token[0].endswith(">")
            if has_values:
                place = _end_of_tag(source, place)
            tag, name = source[start:place], token["name"].lower()
            if token["slash"]:
                self.end_tag(tag, name)
                continue
            attributes: dict[str, re.Match[str]] = {}
            if has_values:
                found = _ATTRIBUTE.finditer(tag, token.end("name") - start)
                attributes = {each[1].lower(): each for each in reversed([*found])}
            no = attributes.get("translate")  # of two with one name, the first one counts
            is_kept = name in KEPT or bool(no and (no[2] or no[3] or no[4] or "").lower() == "no")
            if is_kept and name not in VOID and (name in RAW or not tag.endswith("/>")):
                place = _end_of_element(source, place, name)
                if name in BETWEEN_WORDS:
                    self.point([source[start:place]])
                else:
                    self.end()
                    self.document.parts.append(source[start:place])
            else:
                self.start_tag(tag, name, self.with_texts(tag, attributes) if attributes and not is_kept else [tag])
        self.add(source[place:])
        self.end()
        return self.document

    def add(self, source: str) -> None:
        """Add text to the block; white space becomes one space between words."""
        if not source:
            return
        self.raw.append(source)
        text = html.unescape(source)
        start = len(text) - len(text.lstrip(SPACE))
        end = len(text.rstrip(SPACE))
        if start:
            self.white(text[:start])
        if start < end:
            words = _SPACES.sub(" ", self.space + text[start:end])
            self.text.append(words)
            self.length += len(words)
            self.space = ""
            if end < len(text):
                self.white(text[end:])

    def white(self, space: str) -> None:
        """Add white space, which belongs to an element where it stands beside it, before all words or the next one."""
        element = self.elements[-1]
        if self.length and (not self.space or len(self.elements) == 1 or element.start <= self.length):
            self.space += space
        elif self.open[-1] == len(self.elements) - 1:
            element.opening.append(space)
        else:
            element.closing += space

    def with_texts(self, tag: str, attributes: "dict[str, re.Match[str]]") -> list[str | Block]:
        """Returns a tag whose texts are blocks."""
        parts: list[str | Block] = []
        texts = [each for name, each in attributes.items() if name in ("alt", "title") and each.lastindex != 1]
        last = 0
        for each in sorted(texts, key=lambda each: each.start()):
            start, end = each.span(each.lastindex or 0)
            text = " ".join(html.unescape(tag[start:end]).split())
            if has_letter(text):
                is_quoted = tag[start - 1] in "\"'"
                block = Block(text, [Element(0, len(text), -1, 0, ['"'], '"')], is_attribute=True)
                self.document.blocks.append(block)
                parts += [tag[last : start - is_quoted], block]
                last = end + is_quoted
        return [*parts, tag[last:]]

    def point(self, markup: list[str | Block]) -> None:
        """Add what stands between words."""
        self.raw.extend(markup)
        self.element(markup, "")
        self.close("")

    def start_tag(self, tag: str, name: str, markup: list[str | Block]) -> None:
        is_void = name in VOID or tag.endswith("/>")
        if name not in INLINE or (len(self.open) > DEEPEST and not is_void):
            self.end()
            self.document.parts.extend(markup)
        elif is_void:
            self.point(markup)
        else:
            self.raw.extend(markup)
            self.element(markup, name)

    def end_tag(self, tag: str, name: str) -> None:
        """Close the innermost element of this name, and those in it; a tag without such an element ends the block."""
        if any(self.elements[index].name == name for index in self.open[1:]):
            self.raw.append(tag)
            while self.elements[self.open[-1]].name != name:
                self.close("")
            self.close(tag)
        else:
            self.end()
            self.document.parts.append(tag)


def _end_of_tag(source: str, place: int) -> int:
    """Returns where a tag ends; a > between quotation marks does not end it, if these stand behind a "="."""
    return next((part.end() for part in _IN_TAG.finditer(source, place) if part["end"]), len(source))


def _end_of_element(source: str, place: int, name: str) -> int:
    """Returns where an element ends whose inside is kept; one that is not closed goes on to the end."""
    if name in RAW:
        found = re.compile(rf"</{name}(?=[\s/>])[^>]*(?:>|\Z)", re.IGNORECASE).search(source, place)
        return found.end() if found else len(source)
    n_open = 1
    while n_open and (token := _MARKUP.search(source, place)):
        place = token.end()
        if token["name"]:
            if not token[0].endswith(">"):
                place = _end_of_tag(source, place)
            inner = token["name"].lower()
            if not token["slash"] and inner in RAW:
                place = _end_of_element(source, place, inner)
            elif inner == name:
                n_open += -1 if token["slash"] else 1
    return len(source) if n_open else place


def _places(block: Block, text: str, links: Sequence[Link]) -> list[Span]:
    """Returns where each element stands in a translation: round the longest run of words that are linked to its own.

    What has no such words stands beside a word that is linked to a neighbour of it. For example, "<b>rotes</b> Auto"
    with "voiture rouge", and links from rotes to rouge and from Auto to voiture: b is at (8, 13).
    """
    if len(block.elements) == 1:  # as in most blocks
        return [(0, len(text))]
    runs = _runs(block, links)
    links = sorted(links)
    places: list[Span] = []
    for index, each in enumerate(block.elements):
        if each.parent < 0:
            places.append((0, len(text)))
            continue
        parent, (first, last) = block.elements[each.parent], places[each.parent]
        start, end = max(first, runs[index][0]), min(last, runs[index][1])
        if each.start < each.end and (each.start, each.end) == (parent.start, parent.end):
            start, end = first, last  # around all that its parent is around
        elif start >= end:
            if each.start in (parent.start, parent.end):
                start = first if each.start == parent.start else last
            else:
                start = min(max(_beside(block.text, each.start, links), first), last)
            end = start
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


def _beside(source: str, place: int, links: Sequence[Link]) -> int:
    """Returns where what stands at a place of the source comes to stand. links: in the order of the source."""
    after = bisect_left(links, ((place, 0), (0, 0)))
    if after and (source[place - 1] != " " or after == len(links)):
        return links[after - 1][1][1]
    return links[after][1][0] if links else 0


def _filled(block: Block, text: str, places: Sequence[Span]) -> str:
    """Returns a translation as HTML, with the elements at their places: the inner ones are written before the outer."""
    children: list[list[int]] = [[] for _ in places]
    for index, each in enumerate(block.elements[1:], start=1):
        children[each.parent].append(index)
    written = [""] * len(places)
    for index in reversed(range(len(places))):
        place, end = places[index]
        inside = []
        for child in sorted(children[index], key=lambda child: (places[child], child)):
            start = max(place, places[child][0])  # one that would stand inside its sister stands behind her
            inside += [html.escape(text[place:start], quote=block.is_attribute), written[child]]
            place = max(start, places[child][1])
        inside.append(html.escape(text[place:end], quote=block.is_attribute))
        each = block.elements[index]
        written[index] = "".join([*_written(each.opening), *inside, each.closing])
    return written[0]


def _written(parts: Sequence[str | Block]) -> Iterator[str]:
    for part in parts:
        yield part if isinstance(part, str) else part.translation
