"""Held spans: what passes a translation untouched comes back once, where the words beside it went, between words.

Symbols, placeholders and addresses of plain text and elements of HTML are such spans. They are placed by links: which
characters of a sentence and of its translation belong to each other. Knows characters and tokens, but no models and no
markup.
"""

import html
import re
import unicodedata
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from transformer_cli.errors import ConfigError
from transformer_cli.text.reading import STAND_IN, Held, is_ignored, is_spaceless, is_word

Span = tuple[int, int]
"""Where something begins in a text and where it ends, in characters"""
Link = tuple[Span, Span]
"""Where a word of the source stands, and where one of its translation that belongs to it"""

NEAR = 40  # characters within which the next token is looked for
OPENING = "([{«„“‚‘¿¡（「『【《〈"  # no space follows
CLOSING = ".,;:!?…%)]}»”’。、，；：！？）」』】》〉"  # no space stands before
PAIRS = {"(": ")", "[": "]", "„": "“", "“": "”", "«": "»", "»": "«", "‚": "‘", "‘": "’", '"': '"', "'": "'"}

# No two neighbouring parts match the same character without a bound: the digits after flags do not begin with 0.
_NUMBERS = r"[-+0#,(']*(?:\*|(?!0)\d+)?(?:\.(?:\*|\d+))?(?:hh?|ll?|z)?"
_ITEM = r"(?:[*+\u2013\u2014-]|>{1,9}|#{1,6}|\d{1,3}\)|\[[ xX]\])"  # before that of a list, a heading, a quote
PLACEHOLDERS = re.compile(
    r"\{\{\{[^{}]{0,100}\}\}\}|\{\{[^{}]{0,100}\}\}|\{%[^{}]{0,100}%\}|<%[^<>]{0,100}%>"  # {{ x }}, {% x %}, <%= x %>
    r"|[$%#]?\{[ \t]{0,9}[^\s{}]{0,100}[ \t]{0,9}\}|\$t\([^()]{0,100}\)"  # ${x}, %{x}, {name}, { $n }, {0:.2f}, $t(key)
    rf"|%\(\w+\){_NUMBERS}[a-zA-Z]|%\d+\${_NUMBERS}[tT]?[a-zA-Z@]|%#@\w+@"  # %(n)s, %1$s, %2$,d, %1$tY, %#@n@
    rf"|(?<![\d%])(?:%{_NUMBERS}[sdiufFgGxXeEcrpn@])+(?:[A-Z]{{0,2}}|_\w{{0,50}})(?!\w)"  # %5.2f, %c%c, %sB, not 5%
    r"|(?<![\d%])%L?[1-9]\d?(?![\w$%]|[.,]\d)|(?<![\w%])%\w{1,50}%(?!\w)|(?<!%)%%(?!%)"  # %1, %L1, %name%, %%
    rf"|(?<!\S)(?<!\S\s){_ITEM}(?:\s{{1,9}}{_ITEM})*(?=\s+\S)"
    r"|\b(?:[a-zA-Z][a-zA-Z+.-]{1,20}://|www\.)(?:[^\s<>\"()]|\([^\s<>\"()]*\))*"  # a sentence's marks end no address
    r"(?:[^\s<>\"().,;:!?…'’”»\]}*]|\([^\s<>\"()]*\))"
    r"|(?:\bmailto:)?(?<![\w.+-])[\w.+-]+@\w[\w-]*(?:\.\w[\w-]*)+"
    r"|\{\w{1,9}>|<\w{1,9}\}"  # tags of Phrase, as .mxliff has them: {1>, <b}
    r"|(?<![\w&;])\w{1,20}&amp;\w{1,20}(?!\w)"  # H&amp;M
    r"|&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z][a-zA-Z\d]{1,31});"  # what may be a character of HTML
)
_MESSAGE = (
    re.compile(  # ICU's {n, plural, one {…} other {…}} and {d, date, short}, Fluent's { $n -> … } and { NUMBER($n) }
        r"\{\s{0,9}(?:\w{1,50}\s{0,9},\s{0,9}"
        r"(?:plural|select|selectordinal|choice|number|date|time|spellout|ordinal|duration)\b"
        r"|\$[\w-]{1,50}\s{0,9}->|[A-Z]{2,20}\()"
    )
)
_BRANCH = re.compile(  # of a message of which there is no more, before its {…}; not "one {a, b}"
    r"(?:=\d{1,9}|(?:\A|(?<=\})|(?<=\}\s))(?:zero|one|two|few|many|other))\s{0,9}\Z"
)


@dataclass(frozen=True)
class Holder:
    """Finds what is held out of a text."""

    placeholders: bool = True
    """whether to hold PLACEHOLDERS and messages: those of programs, and addresses of the web and of mail"""
    pattern: str = ""
    """a regular expression for what else is held"""

    def __post_init__(self) -> None:
        """Raises ConfigError if the pattern is none."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python's, of what later versions may read otherwise
                re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(f"--hold-pattern {self.pattern!r} is not a regular expression: {error}") from None

    def spans(self, text: str) -> list[Span]:
        """Returns where what is held begins and ends, without white space around it, from left to right.

        Brackets and quotes that enclose a placeholder go with it.
        """
        found = [_stripped(text, *each.span()) for each in re.finditer(self.pattern, text)] if self.pattern else []
        found = [each for each in found if each[0] < each[1]]
        taken = Taken(text, found)
        matches = (
            [each.span() for each in PLACEHOLDERS.finditer(text) if _is_held(each[0])] if self.placeholders else []
        )
        candidates = [[span] for span in sorted(messages(text))] if self.placeholders else []
        candidates += [[_bracketed(text, *span), span] for span in matches]
        for spans in (*candidates, *([each.span()] for each in re.finditer(STAND_IN, text))):
            if free := next(filter(taken.is_free, spans), None):
                found.append(taken.take(free))
        return sorted(found)

    def masked(self, text: str) -> str:
        """Returns a text of the same length, in which nothing that is held looks like the end of a sentence."""
        characters = list(text)
        for start, end in self.spans(text):
            entity = html.unescape(text[start:end]) if text[start] == "&" else "X"
            characters[start:end] = (entity or "X")[0] * (end - start)  # &#1; is nothing
        return "".join(characters)


BUILT_IN = Holder()


def word_links(
    source: str,
    source_tokens: Sequence[str],
    text: str,
    tokens: Sequence[str],
    alignment: Sequence[int],
    held: Sequence[Link] = (),
) -> list[Link]:
    """Returns which characters of a sentence and of its translation belong to each other, in the latter's order.

    alignment: for each token of the translation, the index of the one of the source that it belongs to. Tokens are
    looked for in the text, without case; one that is not written there, such as <unk>, has no link. held: links of what
    has no tokens, which are returned too.
    """
    if text == source:  # a name, a number, or what was copied
        return [(each.span(), each.span()) for each in re.finditer(r"\S+", text)]
    sources = token_spans(source, source_tokens, [one for one, _ in held])
    targets = token_spans(text, tokens, [other for _, other in held])
    pairs = ((sources[index], target) for index, target in zip(alignment, targets, strict=False))
    return sorted([*held, *((one, other) for one, other in pairs if one and other)], key=lambda link: link[1])


class Taken:
    """Which characters of a text are taken."""

    def __init__(self, text: str, spans: Sequence[Span] = ()) -> None:
        self._characters = bytearray(len(text))
        for span in spans:
            self.take(span)

    def is_free(self, span: Span) -> bool:
        """Whether none of a span is taken."""
        return self._characters.find(1, *span) < 0

    def take(self, span: Span) -> Span:
        """Returns the span, which is taken now."""
        self._characters[slice(*span)] = b"\1" * (span[1] - span[0])
        return span


class Placing:
    """Where what is held out of a source comes to stand in its translation; see `place`."""

    def __init__(self, source: str, text: str, links: Sequence[Link]) -> None:
        """links: which characters of the source and of its translation belong to each other, in any order."""
        self._source, self._text, self._links = source, text, sorted(links)
        self._edges = word_edges(text)
        self._closing = len(source.rstrip(CLOSING))
        self._behind_words = len(text.rstrip(CLOSING))

    def place(self, held: Held) -> int:
        """Returns where a held span comes to stand: at the ends as in the source, else beside a linked word.

        What leans on a word stays with that word; what only closing marks follow stands before those of the
        translation.
        """
        if held.place <= 0:
            return 0
        if held.place >= self._closing and not _leans_left(held, self._source):
            return self._behind_words if held.place < len(self._source) else len(self._text)
        after = bisect_left(self._links, ((held.place, 0), (0, 0)))
        if after and (self._source[held.place - 1] != " " or after == len(self._links)):
            place = edge_after(self._edges, self._links[after - 1][1][1])
        else:
            place = edge_before(self._edges, self._links[after][1][0]) if self._links else len(self._text)
        return min(place, self._behind_words)


def put_back(
    text: str, source: str, held: Sequence[Held], links: Sequence[Link], cased: Callable[[str], str] = str
) -> tuple[str, list[Link]]:
    """Returns a translation with the spans that were held out of its source, in their order where places are equal.

    cased: what becomes of the words around them. Returns also where the `spans` of each one stand, in the line and now.
    """
    if not held:  # most sentences
        return cased(text), []
    placing = Placing(source, text, links)
    places = sorted((placing.place(each), number) for number, each in enumerate(held))
    written, length, last = list[str](), 0, 0
    now: list[Link] = []
    for index, (place, number) in enumerate(places):
        each = held[number]
        left, right = spaces(each, source, text[place - 1 : place], text[place : place + 1])
        if index and places[index - 1][0] == place:  # right behind another one, which has its own space
            left = "" if written[-1][-1:].isspace() else each.before
        before = cased(text[last:place]) + left
        start = length + len(before)
        now += (((one, end), (start + at, start + at + end - one)) for one, end, at in each.spans)
        written += [before, each.text + right]
        is_space = html.unescape(each.text).isspace()  # 10&nbsp;km was read as "10 km"
        is_written = text[place : place + 1] in (" " if is_space else "", ends_in_mark(each.text))
        length, last = start + len(written[-1]), place + (is_written and place < len(text))
    return "".join([*written, cased(text[last:])]), now


def spaces(held: Held, source: str, left: str, right: str) -> tuple[str, str]:
    """Returns the white space that a held span gets between two characters of a translation ("" at an end)."""
    before = after = ""
    if is_word(left) and not is_spaceless(left):
        before = "" if _leans_left(held, source) else held.before or " "
    elif left and not left.isspace() and left not in OPENING:
        before = held.before
    if is_word(right) and not is_spaceless(right):
        leans = not held.after and not _leans_left(held, source) and is_word(source[held.place : held.place + 1])
        after = "" if leans else held.after or " "
    elif right and not right.isspace() and right not in CLOSING:
        after = held.after
    return before, after


def ends_in_mark(text: str) -> str:
    """Returns the mark of a sentence's end that a text ends in, as "Inc." does, which stands for both; else ""."""
    return text[-1:] if text[-1:] in ".!?…。！？" else ""


def overlap(one: Span, other: Span) -> bool:
    """Whether two spans of a text have a character in common."""
    return one[0] < other[1] and other[0] < one[1]


def word_edges(text: str) -> list[int]:
    """Returns the places of a text that are inside no word, from 0 to its length.

    Each sign and each space stands by itself, and so does each character of a script without spaces: of "ein Hund."
    the edges are 0, 3, 4, 8, 9.
    """
    goes_on = [is_word(char) and not is_spaceless(char) for char in text]
    inner = [place for place, (one, other) in enumerate(pairwise(goes_on), start=1) if not (one and other)]
    return [0, *inner, len(text)] if text else [0]


def edge_before(edges: Sequence[int], place: int) -> int:
    """Returns where the word that a place is inside begins; the place itself if it is not inside a word."""
    return edges[bisect_right(edges, place) - 1]


def edge_after(edges: Sequence[int], place: int) -> int:
    """Returns where the word that a place is inside ends; the place itself if it is not inside a word."""
    return edges[bisect_left(edges, place)]


def _leans_left(held: Held, source: str) -> bool:
    return not held.before and is_word(source[max(0, held.place - 1) : held.place])


def messages(text: str) -> Iterator[Span]:
    """Yield where the messages of ICU and of Fluent stand that choose among texts, or say how a value is written.

    One that is in another one comes before it.
    """
    opened: list[int] = []
    for found in re.finditer("[{}]", text):
        if found[0] == "{":
            opened.append(found.start())
        elif opened:
            start, end = opened.pop(), found.end()
            branch = _BRANCH.search(text, max(0, start - NEAR), start)
            if branch and not PLACEHOLDERS.fullmatch(text, start, end):
                yield branch.start(), end
            elif _MESSAGE.match(text, start):
                yield start, end


def has_branches(held: str) -> bool:
    """Whether what is held is a message that chooses among texts, which stay as they are."""
    return next(messages(held), None) is not None and (held.count("{") > 1 or held[0] != "{" or "->" in held)


def _is_held(found: str) -> bool:
    """Whether a match of PLACEHOLDERS is one: &amp; is, and neither is &x; nor a letter such as &uuml;."""
    return found[0] != "&" or not (is_word(html.unescape(found)[:1]) or html.unescape(found) == found)


def _bracketed(text: str, start: int, end: int) -> Span:
    """Returns a span with the brackets or quotes around it, if there are any: a model may write none of its own."""
    inside = PAIRS.get(text[start - 1 : start], "") == text[end : end + 1] != ""
    return (start - 1, end + 1) if inside else (start, end)


def _stripped(text: str, start: int, end: int) -> Span:
    found = text[start:end]
    return start + len(found) - len(found.lstrip()), start + len(found.rstrip())


def token_spans(text: str, tokens: Sequence[str], held: Sequence[Span] = ()) -> list[Span | None]:
    """Returns where each token stands in a text; None for one that is not found. held: where none is looked for."""
    text, own = _as_read(text, held)
    folds = len(text.lower()) == len(text)
    text = text.lower() if folds else text
    found: list[Span | None] = []
    place = 0
    for token in tokens:
        word = unicodedata.normalize("NFKC", token.strip())
        word = word.lower() if folds else word
        start = text.find(word, place, place + len(word) + NEAR) if word else -1
        found.append((own[start][0], own[start + len(word) - 1][1]) if start >= 0 else None)
        place = place if start < 0 else start + len(word)
    return found


def places_in(line: str, read: str, spans: Sequence[Span], held: Sequence[Span]) -> list[Span]:
    """Returns where spans of what was read of a line stand in the line, as it was given.

    Words and signs are looked for as tokens are; (0, 0) stands for a span of which none is found. held: what was not
    read.
    """
    if not spans:
        return []
    words = [each for each in pairwise(word_edges(read)) if not read[each[0]].isspace()]
    places = token_spans(line, [read[start:end] for start, end in words], held)
    placed = [(word, place) for word, place in zip(words, places, strict=True) if place]
    found = [[place for word, place in placed if overlap(word, span)] for span in spans]
    return [(each[0][0], each[-1][1]) if each else (0, 0) for each in found]


def _as_read(text: str, held: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """Returns a text as it may have been read, and where each of its characters stands in it as it is."""
    if text.isascii() and not held:
        return text, [(place, place + 1) for place in range(len(text))]
    taken = Taken(text, held)
    characters: list[str] = []
    own: list[Span] = []
    for place, char in enumerate(text):
        span = place, place + 1
        if not taken.is_free(span):
            continue
        composed = unicodedata.normalize("NFC", characters[-1] + char) if characters else ""
        if len(composed) == 1 or (is_ignored(char) and own and own[-1][1] == place):
            characters[-1] = composed if len(composed) == 1 else characters[-1]
            own[-1] = own[-1][0], place + 1
        elif not is_ignored(char):
            form = unicodedata.normalize("NFKC", char)  # as what is unknown is read
            characters += form
            own += [span] * len(form)
    return "".join(characters), own
