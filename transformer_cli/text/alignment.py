"""Which characters of a sentence and of its translation belong to each other, and where what was held out is put back.

Symbols, placeholders and addresses of plain text and elements of HTML are held out, and come back once, where the words
beside them went, between words. Knows characters and tokens, but no models and no markup.
"""

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from transformer_cli.text.normalization import Placeholder, is_ignored, is_spaceless, is_word

Span = tuple[int, int]
"""Where something begins in a text and where it ends, in characters"""
Link = tuple[Span, Span]
"""Where a word of the source stands, and where one of its translation that belongs to it"""

SEARCH_WINDOW = 40  # characters within which the next token is looked for
OPENING_MARKS = "([{«„“‚‘¿¡（「『【《〈"  # no space follows
CLOSING_MARKS = ".,;:!?…%)]}»”’。、，；：！？）」』】》〉"  # no space stands before


def word_links(
    source: str,
    source_tokens: Sequence[str],
    text: str,
    tokens: Sequence[str],
    alignment: Sequence[int],
    placeholders: Sequence[Link] = (),
) -> list[Link]:
    """Returns which characters of a sentence and of its translation belong to each other, in the latter's order.

    alignment: for each token of the translation, the index of the one of the source that it belongs to. Tokens are
    looked for in the text, without case; one that is not written there, such as <unk>, has no link. placeholders: their
    links, which are returned too, since they have no tokens.
    """
    if text == source:  # a name, a number, or what was copied
        return [(each.span(), each.span()) for each in re.finditer(r"\S+", text)]
    sources = token_spans(source, source_tokens, [one for one, _ in placeholders])
    targets = token_spans(text, tokens, [other for _, other in placeholders])
    pairs = ((sources[index], target) for index, target in zip(alignment, targets, strict=False))
    return sorted([*placeholders, *((one, other) for one, other in pairs if one and other)], key=lambda link: link[1])


class TakenSpans:
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


class Placement:
    """Where what is held out of a source comes to stand in its translation; see `offset_of`."""

    def __init__(self, source: str, text: str, links: Sequence[Link]) -> None:
        """links: which characters of the source and of its translation belong to each other, in any order."""
        self._source, self._text, self._links = source, text, sorted(links)
        self._edges = word_boundaries(text)
        self._closing = len(source.rstrip(CLOSING_MARKS))
        self._behind_words = len(text.rstrip(CLOSING_MARKS))

    def offset_of(self, placeholder: Placeholder) -> int:
        """Returns where a held span comes to stand: at the ends as in the source, else beside a linked word.

        What leans on a word stays with that word; what only closing marks follow stands before those of the
        translation.
        """
        if placeholder.offset <= 0:
            return 0
        if placeholder.offset >= self._closing and not _attaches_left(placeholder, self._source):
            return self._behind_words if placeholder.offset < len(self._source) else len(self._text)
        after = bisect_left(self._links, ((placeholder.offset, 0), (0, 0)))
        if after and (self._source[placeholder.offset - 1] != " " or after == len(self._links)):
            place = boundary_after(self._edges, self._links[after - 1][1][1])
        else:
            place = boundary_before(self._edges, self._links[after][1][0]) if self._links else len(self._text)
        return min(place, self._behind_words)


def insert_placeholders(
    text: str,
    source: str,
    placeholders: Sequence[Placeholder],
    links: Sequence[Link],
    cased: Callable[[str], str] = str,
) -> tuple[str, list[Link]]:
    """Returns a translation with the spans that were held out of its source, in their order where places are equal.

    cased: what becomes of the words around them. Returns also where the `spans` of each one stand, in the line and now.
    """
    if not placeholders:  # most sentences
        return cased(text), []
    placement = Placement(source, text, links)
    places = sorted((placement.offset_of(each), number) for number, each in enumerate(placeholders))
    written, length, last = list[str](), 0, 0
    now: list[Link] = []
    for index, (place, number) in enumerate(places):
        each = placeholders[number]
        left, right = spaces_around(each, source, text[place - 1 : place], text[place : place + 1])
        if index and places[index - 1][0] == place:  # right behind another one, which has its own space
            left = "" if written[-1][-1:].isspace() else each.before
        before = cased(text[last:place]) + left
        start = length + len(before)
        now += (((one, end), (start + at, start + at + end - one)) for one, end, at in each.spans)
        written += [before, each.text + right]
        is_space = html.unescape(each.text).isspace()  # 10&nbsp;km was read as "10 km"
        is_written = text[place : place + 1] in (" " if is_space else "", final_mark(each.text))
        length, last = start + len(written[-1]), place + (is_written and place < len(text))
    return "".join([*written, cased(text[last:])]), now


def spaces_around(placeholder: Placeholder, source: str, left: str, right: str) -> tuple[str, str]:
    """Returns the white space that a held span gets between two characters of a translation ("" at an end)."""
    before = after = ""
    if is_word(left) and not is_spaceless(left):
        before = "" if _attaches_left(placeholder, source) else placeholder.before or " "
    elif left and not left.isspace() and left not in OPENING_MARKS:
        before = placeholder.before
    if is_word(right) and not is_spaceless(right):
        leans = (
            not placeholder.after
            and not _attaches_left(placeholder, source)
            and is_word(source[placeholder.offset : placeholder.offset + 1])
        )
        after = "" if leans else placeholder.after or " "
    elif right and not right.isspace() and right not in CLOSING_MARKS:
        after = placeholder.after
    return before, after


def final_mark(text: str) -> str:
    """Returns the mark of a sentence's end that a text ends in, as "Inc." does, which stands for both; else ""."""
    return text[-1:] if text[-1:] in ".!?…。！？" else ""


def shift_span(span: Span, by: int) -> Span:
    """Returns a span of a part of a text as one of the text. by: where the part begins."""
    return span[0] + by, span[1] + by


def spans_overlap(one: Span, other: Span) -> bool:
    """Whether two spans of a text have a character in common."""
    return one[0] < other[1] and other[0] < one[1]


def word_boundaries(text: str) -> list[int]:
    """Returns the places of a text that are inside no word, from 0 to its length.

    Each sign and each space stands by itself, and so does each character of a script without spaces: of "ein Hund."
    the edges are 0, 3, 4, 8, 9.
    """
    goes_on = [is_word(char) and not is_spaceless(char) for char in text]
    inner = [place for place, (one, other) in enumerate(pairwise(goes_on), start=1) if not (one and other)]
    return [0, *inner, len(text)] if text else [0]


def boundary_before(edges: Sequence[int], place: int) -> int:
    """Returns where the word that a place is inside begins; the place itself if it is not inside a word."""
    return edges[bisect_right(edges, place) - 1]


def boundary_after(edges: Sequence[int], place: int) -> int:
    """Returns where the word that a place is inside ends; the place itself if it is not inside a word."""
    return edges[bisect_left(edges, place)]


def _attaches_left(placeholder: Placeholder, source: str) -> bool:
    return not placeholder.before and is_word(source[max(0, placeholder.offset - 1) : placeholder.offset])


def token_spans(text: str, tokens: Sequence[str], protected: Sequence[Span] = ()) -> list[Span | None]:
    """Returns the span of each token in a text; None for one that is not found. protected: spans without tokens."""
    text, own = _normalized_with_spans(text, protected)
    folds = len(text.lower()) == len(text)
    text = text.lower() if folds else text
    found: list[Span | None] = []
    place = 0
    for token in tokens:
        word = unicodedata.normalize("NFKC", token.strip())
        word = word.lower() if folds else word
        start = text.find(word, place, place + len(word) + SEARCH_WINDOW) if word else -1
        found.append((own[start][0], own[start + len(word) - 1][1]) if start >= 0 else None)
        place = place if start < 0 else start + len(word)
    return found


def original_spans(line: str, read: str, spans: Sequence[Span], protected: Sequence[Span]) -> list[Span]:
    """Returns where spans of what was read of a line stand in the line, as it was given.

    Words and signs are looked for as tokens are; (0, 0) stands for a span of which none is found. protected: spans of
    the line that were not read.
    """
    if not spans:
        return []
    words = [each for each in pairwise(word_boundaries(read)) if not read[each[0]].isspace()]
    places = token_spans(line, [read[start:end] for start, end in words], protected)
    placed = [(word, place) for word, place in zip(words, places, strict=True) if place]
    starts, ends = [word[0] for word, _ in placed], [word[1] for word, _ in placed]
    ranges = [(bisect_right(ends, start), bisect_left(starts, end)) for start, end in spans]  # of words that overlap
    return [(placed[first][1][0], placed[last - 1][1][1]) if first < last else (0, 0) for first, last in ranges]


def _normalized_with_spans(text: str, protected: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """Returns a text as it may have been read, and where each of its characters stands in it as it is."""
    if text.isascii() and not protected:
        return text, [(place, place + 1) for place in range(len(text))]
    taken = TakenSpans(text, protected)
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
