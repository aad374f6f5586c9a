"""HTML → blocks of plain text, and back with the translation of each. Knows characters and tokens, but no models.

What is not translated stays as it was written, byte by byte, however broken it is. So HTML is cut into tags and text
as the HTML standard says (13.2.5), but no tree is made of it, from which it would have to be written anew. Each step is
linear in the length of the document, and nothing recurses.
"""

import codecs
import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from transformer_cli.documents.blocks import DEEPEST, Block, Document, Element, escaping
from transformer_cli.documents.held import Span
from transformer_cli.text.lines import has_letter
from transformer_cli.text.reading import Held, gap, is_word, main_code


def _names(of_elements: str) -> frozenset[str]:
    return frozenset(of_elements.split())


# What elements mean.
RAW = _names("script style textarea xmp iframe noembed noframes")
"""in them, < begins no other tag"""
BLOCKS = RAW | _names(
    "address article aside audio base basefont blockquote body br button canvas caption center col colgroup datalist "
    "dd details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head "
    "header hgroup hr html legend li link main math menu meta nav noscript object ol optgroup option p param pre rtc "
    "search section select summary svg table tbody td template tfoot th thead title tr track ul video"
)
"""they begin and end blocks; so do those of unknown names that hold one of them"""
INLINE = _names(
    "a abbr acronym area b bdi bdo big cite code data del dfn em embed font i img input ins kbd label map mark meter "
    "nobr output picture progress q rb ruby s samp slot small source span strike strong sub sup time tt u var wbr"
)
"""they go round words, also where they hold a block; so do those of unknown names that hold none"""
VOID = _names("area base br col embed hr img input link meta param source track wbr")
"""they have no end"""
RUBY_NOTES = _names("rp rt")
"""how the words before them are read; their ends may be left out"""
KEPT = RAW | RUBY_NOTES | _names("code kbd pre samp svg math var")
"""what is inside them is not translated"""
BETWEEN_WORDS = RUBY_NOTES | _names("svg math script style")
"""of those that are kept: a sentence goes on there, though most of them begin blocks"""
TEXTS = _names("alt title")
"""attributes that are translated"""
LANGUAGES = _names("lang xml:lang")
"""attributes that name the language"""
SPACE = " \t\n\f\r"  # what HTML shows as one space; a no-break space is none of it

# No alternative can fail far behind the place where it has begun, so nothing is read twice.
_MARKUP = re.compile(
    r"<(?:!--(?:-?>|.*?(?:--!?>|\Z))"  # a comment; what is not closed goes on to the end
    r"|(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*|\d{1,9}(?=/?>))"  # also <0>, as catalogues of programs have it
    r"(?:[^>=]*>)?"  # all of a tag, or what stands before its first value
    r"|(?:[!?]|/[^a-zA-Z>])[^>]*(?:>|\Z)|/>)",  # a doctype, and what browsers take for a comment
    re.DOTALL,
)
_IN_TAG = re.compile(r"""(?P<end>>)|={2,}|=[ \t\n\f\r]*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))?""")
_ATTRIBUTE = re.compile(r"([^\s/>=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>][^\s>]*)))?")
_SPACES = re.compile(f"[{SPACE}]+")


LOOKED_AT = 1 << 10  # bytes of a page in which its encoding stands (HTML standard, 4.2.5.4)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_XML_ENCODING = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([\w.:-]+)")
_META_CHARSET = re.compile(rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_AS_BROWSERS = {  # what browsers take a name for (WHATWG's Encoding Standard, 4.2)
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"), "iso8859-9": "cp1254", "gb2312": "gbk", "euc_kr": "cp949",
    "shift_jis": "cp932", **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be"), "utf-8"),
}  # fmt: skip

_TEXT = escaping(partial(html.escape, quote=False))
_ATTRIBUTE_TEXT = escaping(html.escape)


def encoding_of(content: bytes) -> str:
    """Returns the encoding that a page says it is in, at its beginning; UTF-8 if it says none that Python knows."""
    head = _COMMENT.sub(b"", content[:LOOKED_AT])
    of_xml = _XML_ENCODING.match(head)
    named = of_xml or _META_CHARSET.search(head)
    try:
        found = codecs.lookup(named[1].decode()).name if named else "utf-8"
    except LookupError:
        return "utf-8"
    return found if of_xml else _AS_BROWSERS.get(found, found)


def parse_html(source: str, languages: tuple[str, str] = ("", "")) -> Document:
    """Cut a page or a fragment into blocks. Takes whatever there is: nothing is wrong with HTML.

    languages: the codes of the source and of the target; what is marked as the one will be marked as the other.
    """
    parser = _Parser(languages)
    parser.parse(source)
    parser.end()
    return parser.document


@dataclass(frozen=True)
class _Settled:
    """Which elements stand between two parts of a text, some points among them; the places are known by the second."""

    first: int
    last: int
    place: int
    """where the first part ends"""
    n_spaces: int
    """between the parts"""
    leans: bool
    """whether points without white space before them lean on the first part's last word"""


@dataclass(frozen=True)
class _Mark:
    """What a parser has known of a block where an element begins."""

    n_texts: int
    length: int
    space: str
    n_raw: int
    first_point: Element | None
    is_white: bool
    n_placed: int
    n_settled: int


class _Parser:
    """What is known at a place of the document."""

    def __init__(self, languages: tuple[str, str]) -> None:
        self.document = Document([], [])
        self.languages = languages
        self.depth = 0  # of what is translated inside what is not
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
        self.n_placed = len(self.elements)  # how many have begun before the end of the text so far
        self.first_point: Element | None = None  # of those that stand behind the text so far
        self.is_white = False  # whether there is white space behind it
        self.settled: list[_Settled] = []
        self.marks: dict[int, _Mark] = {}  # of the open elements that have begun in this block

    def element(self, opening: list[str | Block], name: str) -> Element:
        place = self.length + bool(self.space)  # a space before it belongs to the text before it
        self.open.append(len(self.elements))
        element = Element(place, -1, self.open[-2], len(self.open) - 1, opening, "", name)
        self.elements.append(element)
        return element

    def end(self) -> None:
        """End the block at something that does not go round words."""
        if not self.raw:
            return
        if self.n_outer and self.elements[self.n_outer].opening:  # white space of this block
            self.n_outer -= 1
        self.place_settled()
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
        if self.is_behind_point:
            self.space, self.elements[-1].after = self.elements[-1].after + self.space, ""
        behind = next((each for each in elements if each.start > len(text) and not each.is_point), None)
        if behind:
            behind.opening.insert(0, self.space)
        else:
            elements[0].closing = self.space
        for each in elements[1:]:
            each.start, each.end = min(each.start, len(text)), min(each.end, len(text))
            each.parent = max(0, each.parent - self.n_outer)
        return Block(text, elements, _TEXT)

    def close(self, tag: str) -> None:
        """End the innermost element. One that has content, but no letter in it, becomes a point."""
        index = self.open.pop()
        element, mark = self.elements[index], self.marks.pop(index, None)
        element.end, element.closing = max(element.start, self.length), tag
        self.n_outer = min(self.n_outer, len(self.open) - 1)
        if not mark or not tag or any(map(has_letter, self.text[mark.n_texts :])):
            return
        markup = self.raw[mark.n_raw :]
        edges = "".join(str(each) for each in (markup[len(element.opening)], markup[-2]) if isinstance(each, str))
        has_content = len(self.text) > mark.n_texts or any(each.is_point for each in self.elements[index:])
        if has_content and edges[:1] not in SPACE and edges[-1:] not in SPACE:
            del self.elements[index:], self.text[mark.n_texts :], self.settled[mark.n_settled :]
            self.length, self.space, self.n_placed = mark.length, mark.space, mark.n_placed
            self.first_point, self.is_white = mark.first_point, mark.is_white
            self.point(markup)

    def parse(self, source: str) -> None:
        """Add a document, or a part of one; see `parse_html`."""
        place, holding = 0, _holding_blocks(source)
        while token := _MARKUP.search(source, place):
            self.add(source[place : token.start()])
            start, place = token.start(), _end_of_tag(source, token)
            tag, name = source[start:place], (token["name"] or "").lower()
            if not name:
                self.raw.append(tag)
                self.point([tag])
                continue
            if token["slash"]:
                self.end_tag(tag, name)
                continue
            attributes = _attributes(tag, token)
            wish = _wish(attributes)
            is_kept = name in RAW or wish is False or (name in KEPT and wish is None)
            if is_kept and name not in VOID and (name in RAW or not tag.endswith("/>")):
                inside, place = place, _end_of_element(source, place, name)
                is_read = self.depth < DEEPEST and name not in RAW
                translated = [*_translated(source, inside, place)] if is_read else []
                is_inline = name in BETWEEN_WORDS or name not in BLOCKS
                if is_inline and start not in holding and not translated:
                    self.raw.append(source[start:place])
                    self.point([source[start:place]])
                else:
                    self.end()
                    self.keep(source, (start, place), translated)
            else:
                markup = self.with_texts(tag, {} if is_kept else attributes)
                self.start_tag(tag, name, markup, is_block=name in BLOCKS or start in holding)
        self.add(source[place:])

    def keep(self, source: str, span: Span, translated: Sequence[Span]) -> None:
        """Add what is not translated, but for elements in it that are."""
        place, last = span
        self.depth += 1
        for start, end in translated:
            self.document.parts.append(source[place:start])
            self.parse(source[start:end])
            self.end()
            place = end
        self.depth -= 1
        self.document.parts.append(source[place:last])

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
            space = self.settle(self.first_point, text[start]) if self.first_point else self.space
            words = _SPACES.sub(" ", space + text[start:end])
            self.n_placed = len(self.elements)
            self.text.append(words)
            self.length += len(words)
            self.space = ""
            if end < len(text):
                self.white(text[end:])

    def settle(self, first: Element, following: str) -> str:
        """Returns the space between the text so far and what follows some points. So it is known where these stand."""
        text = self.text[-1] if self.text else ""
        space = self.space or gap(text, Held(0, "", first.before, " " * self.is_white), following)
        leans = not self.space and is_word(text[-1:])
        self.settled.append(_Settled(self.n_placed, len(self.elements), self.length, len(space[:1]), leans))
        self.first_point, self.is_white = None, False
        return space

    def place_settled(self) -> None:
        """Say where elements stand, once it is known which texts are there: a point may still take in others."""
        for settled in self.settled:
            leans = settled.leans
            for each in self.elements[settled.first : settled.last]:
                leans = leans and each.is_point and not each.before
                each.start = settled.place + (0 if leans else settled.n_spaces)
                each.end = max(each.end, each.start) if each.end >= 0 else -1

    @property
    def is_behind_point(self) -> bool:
        """Whether the last element is a point, and no text has followed."""
        return len(self.elements) > self.n_placed and self.elements[-1].is_point

    def white(self, space: str) -> None:
        """Add white space, which belongs to an element where it stands beside it, before all words or the next one."""
        element = self.elements[-1]
        if self.is_behind_point:
            element.after += space
            self.is_white = True
        elif self.length and (not self.space or len(self.elements) == 1 or element.start <= self.length):
            self.space += space
        elif self.open[-1] == len(self.elements) - 1:
            element.opening.append(space)
        else:
            element.closing += space

    def with_texts(self, tag: str, attributes: "dict[str, re.Match[str]]") -> list[str | Block]:
        """Returns a tag whose texts are blocks."""
        parts: list[str | Block] = []
        texts = [each for name, each in attributes.items() if name in TEXTS | LANGUAGES and each.lastindex != 1]
        last = 0
        for each in sorted(texts, key=lambda each: each.start()):
            start, end = each.span(each.lastindex or 0)
            text = " ".join(html.unescape(tag[start:end]).split())
            if each[1].lower() in LANGUAGES:
                if main_code(text) == main_code(self.languages[0]):
                    parts += [tag[last:start], self.languages[1]]
                    last = end
            elif has_letter(text):
                is_quoted = tag[start - 1] in "\"'"
                block = Block(text, [Element(0, len(text), -1, 0, ['"'], '"')], _ATTRIBUTE_TEXT)
                self.document.blocks.append(block)
                parts += [tag[last : start - is_quoted], block]
                last = end + is_quoted
        return [*parts, tag[last:]]

    def point(self, markup: list[str | Block]) -> None:
        """Add what stands between words. The white space before it is its own, if no tag stands between them."""
        is_beside = len(self.elements) == self.n_placed or self.elements[-1].is_point
        before, self.space = (self.space, "") if is_beside else ("", self.space)
        point = self.element(markup, "")
        point.start, point.is_point, point.before = self.length, True, before
        self.is_white = self.is_white or bool(self.first_point and before)
        self.first_point = self.first_point or point
        self.close("")

    def start_tag(self, tag: str, name: str, markup: list[str | Block], *, is_block: bool) -> None:
        is_void = name in VOID or tag.endswith("/>")
        if is_block or (len(self.open) > DEEPEST and not is_void):
            self.end()
            self.document.parts.extend(markup)
            return
        n_texts, n_raw, n_settled = len(self.text), len(self.raw), len(self.settled)
        behind = self.first_point, self.is_white, self.n_placed
        mark = _Mark(n_texts, self.length, self.space, n_raw, *behind, n_settled)
        self.raw.extend(markup)
        if is_void:
            self.point(markup)
        else:
            self.marks[len(self.elements)] = mark
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


def _attributes(tag: str, token: re.Match[str]) -> dict[str, re.Match[str]]:
    """Returns the attributes of a tag with values; of two with one name, the first one counts."""
    found = _ATTRIBUTE.finditer(tag, token.end("name") - token.start()) if not token[0].endswith(">") else ()
    return {each[1].lower(): each for each in reversed([*found])}


def _wish(attributes: "dict[str, re.Match[str]]") -> bool | None:
    """Returns whether an author wants an element translated; None if nothing says so."""

    def value(name: str) -> str | None:
        found = attributes.get(name)
        return found and (found[2] or found[3] or found[4] or "").lower()

    if (wish := value("translate")) in ("yes", "", "no"):
        return wish != "no"
    return False if "notranslate" in (value("class") or "").split() else None


def _holding_blocks(source: str) -> set[int]:
    """Returns where elements of unknown names begin that hold a block."""
    holding: set[int] = set()
    open_: list[tuple[str, int]] = []  # those that have begun in the innermost block
    n_open: Counter[str] = Counter()
    place = 0
    while token := _MARKUP.search(source, place):
        start, place, name = token.start(), _end_of_tag(source, token), (token["name"] or "").lower()
        if not name or name in INLINE or name in VOID:
            continue
        if name in KEPT and not token["slash"]:
            place = _end_of_element(source, place, name)
        if name in BETWEEN_WORDS:
            continue
        if token["slash"] and n_open[name]:
            while open_[-1][0] != name:
                n_open[open_.pop()[0]] -= 1
            n_open[open_.pop()[0]] -= 1
        elif token["slash"] or name in BLOCKS:  # what has begun before the end of a block does not hold the next one
            holding.update(start for _, start in open_ if not token["slash"])
            open_.clear()
            n_open.clear()
        elif not source.endswith("/>", start, place):
            open_.append((name, start))
            n_open[name] += 1
    return holding


def _translated(source: str, place: int, end: int) -> Iterator[Span]:
    """Yield where elements stand that are to be translated, within one that is not."""
    while place < end and (token := _MARKUP.search(source, place, end)):
        start, place, name = token.start(), _end_of_tag(source, token), (token["name"] or "").lower()
        if not name or token["slash"]:
            continue
        if name in RAW:
            place = _end_of_element(source, place, name)
        elif name not in VOID and _wish(_attributes(source[start:place], token)):
            place = min(end, _end_of_element(source, place, name))
            yield start, place


def _end_of_tag(source: str, token: re.Match[str]) -> int:
    """Returns where a tag or a comment ends; in a tag, a > between quotation marks behind a "=" does not end it."""
    if not token["name"] or token[0].endswith(">"):
        return token.end()
    return next((part.end() for part in _IN_TAG.finditer(source, token.end()) if part["end"]), len(source))


def _end_of_element(source: str, place: int, name: str) -> int:
    """Returns where an element ends whose inside is kept; one that is not closed goes on to the end."""
    if name in RAW:
        found = re.compile(rf"</{name}(?=[\s/>])[^>]*(?:>|\Z)", re.IGNORECASE).search(source, place)
        return found.end() if found else len(source)
    if name in RUBY_NOTES:
        found = re.compile(rf"</{name}\s*>|(?=<(?:/ruby|r[bpt])\b)", re.IGNORECASE).search(source, place)
        return found.end() if found else len(source)
    n_open = 1
    while n_open and (token := _MARKUP.search(source, place)):
        place, inner = _end_of_tag(source, token), (token["name"] or "").lower()
        if inner in RAW and not token["slash"]:
            place = _end_of_element(source, place, inner)
        elif inner == name:
            n_open += -1 if token["slash"] else 1
    return len(source) if n_open else place
