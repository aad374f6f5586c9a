"""Links the characters of a sentence to those of its translation, and inserts placeholders into translations.

A placeholder or an inline element is inserted once, between two words: next to the translation of its neighbours in
the source. Knows characters and tokens, but no models and no markup.
"""

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from transformer_cli.text.normalization import Placeholder, is_ignored, is_spaceless, is_word

Span = tuple[int, int]
"""start and end in a text, in characters"""
Link = tuple[Span, Span]
"""the span of a word in the source, and that of a word in the translation that belongs to it"""

SEARCH_WINDOW = 40  # characters within which the next token is looked for
OPENING_MARKS = "([{«„“‚‘¿¡（「『【《〈"  # no space after them
CLOSING_MARKS = ".,;:!?…%)]}»”’。、，；：！？）」』】》〉"  # no space before them


def word_links(
    source: str,
    source_tokens: Sequence[str],
    text: str,
    tokens: Sequence[str],
    alignment: Sequence[int],
    placeholders: Sequence[Link] = (),
) -> list[Link]:
    """Returns the links between a sentence and its translation, in the order of the translation.

    alignment: for each token of the translation, the index of the source token that it belongs to. Tokens are looked
    for in the text, ignoring case; a token that is not found, such as <unk>, has no link. placeholders: their links,
    which are returned, too; placeholders have no tokens.
    """
    if text == source:  # a name, a number, or a copied line
        return [(each.span(), each.span()) for each in re.finditer(r"\S+", text)]
    sources = token_spans(source, source_tokens, [one for one, _ in placeholders])
    targets = token_spans(text, tokens, [other for _, other in placeholders])
    pairs = ((sources[index], target) for index, target in zip(alignment, targets, strict=False))
    return sorted([*placeholders, *((one, other) for one, other in pairs if one and other)], key=lambda link: link[1])


class TakenSpans:
    """A set of spans of a text, none of which may overlap another."""

    def __init__(self, text: str, spans: Sequence[Span] = ()) -> None:
        self._characters = bytearray(len(text))
        for span in spans:
            self.take(span)

    def is_free(self, span: Span) -> bool:
        """Whether no taken span overlaps this one."""
        return self._characters.find(1, *span) < 0

    def take(self, span: Span) -> Span:
        """Add a span, and return it."""
        self._characters[slice(*span)] = b"\1" * (span[1] - span[0])
        return span


class Placement:
    """Decides where placeholders are inserted into a translation."""

    def __init__(self, source: str, text: str, links: Sequence[Link], boundaries: Sequence[int] = ()) -> None:
        """source: normalised. text: its translation, without placeholders. links: between the two, in any order.

        boundaries: offsets at which something may be inserted (default: word_boundaries).
        """
        self._source, self._text, self._links = source, text, sorted(links)
        self._boundaries = boundaries or word_boundaries(text)
        self._closing = len(source.rstrip(CLOSING_MARKS))
        self._words_end = boundary_after(self._boundaries, len(text.rstrip(CLOSING_MARKS)))  # not in {name}

    def offset_of(self, placeholder: Placeholder) -> int:
        """Returns the offset in the translation: at the same end as in the source, otherwise next to a linked word.

        A placeholder that is attached to a word stays with that word; one that only closing marks follow is inserted
        before those of the translation.
        """
        if placeholder.offset <= 0:
            return 0
        if placeholder.offset >= self._closing and not _attaches_left(placeholder, self._source):
            return self._words_end if placeholder.offset < len(self._source) else len(self._text)
        after = bisect_left(self._links, ((placeholder.offset, 0), (0, 0)))
        if after and (self._source[placeholder.offset - 1] != " " or after == len(self._links)):
            place = boundary_after(self._boundaries, self._links[after - 1][1][1])
        else:
            place = boundary_before(self._boundaries, self._links[after][1][0]) if self._links else len(self._text)
        return min(place, self._words_end)


def insert_placeholders(
    text: str,
    source: str,
    placeholders: Sequence[Placeholder],
    links: Sequence[Link],
    cased: Callable[[str], str] = str,
) -> tuple[str, list[Link]]:
    """Insert the placeholders of a source into its translation; those with the same offset keep their order.

    cased: applied to the text around them. Returns also a link for each of the placeholders' `spans`.
    """
    if not placeholders:  # most sentences
        return cased(text), []
    placement = Placement(source, text, links)
    places = sorted((placement.offset_of(each), number) for number, each in enumerate(placeholders))
    written, length, last = list[str](), 0, 0
    spans: list[Link] = []
    for index, (place, number) in enumerate(places):
        each = placeholders[number]
        left, right = spaces_around(each, source, text[place - 1 : place], text[place : place + 1])
        if index and places[index - 1][0] == place:  # right after another one, which has its own space
            left = "" if written[-1][-1:].isspace() else each.before
        before = cased(text[last:place]) + left
        start = length + len(before)
        spans += (((one, end), (start + at, start + at + end - one)) for one, end, at in each.spans)
        written += [before, each.text + right]
        is_space = html.unescape(each.text).isspace()  # 10&nbsp;km was normalised to "10 km"
        repeats_next = text[place : place + 1] in (" " if is_space else "", final_mark(each.text))
        length, last = start + len(written[-1]), place + (repeats_next and place < len(text))
    return "".join([*written, cased(text[last:])]), spans


def spaces_around(placeholder: Placeholder, source: str, left: str, right: str) -> tuple[str, str]:
    """Returns the white space before and after a placeholder between two characters of a translation ("" at an end)."""
    before = after = ""
    if is_word(left) and not is_spaceless(left):
        before = "" if _attaches_left(placeholder, source) else placeholder.before or " "
    elif left and not left.isspace() and left not in OPENING_MARKS:
        before = placeholder.before
    if is_word(right) and not is_spaceless(right):
        next_char = source[placeholder.offset : placeholder.offset + 1]
        attaches_right = not placeholder.after and not _attaches_left(placeholder, source) and is_word(next_char)
        after = "" if attaches_right else placeholder.after or " "
    elif right and not right.isspace() and right not in CLOSING_MARKS:
        after = placeholder.after
    return before, after


def final_mark(text: str) -> str:
    """Returns the last character of a text if it may end a sentence, such as the stop of "Inc."; else ""."""
    return text[-1:] if text[-1:] in ".!?…。！？" else ""


def shift_span(span: Span, by: int) -> Span:
    """Returns a span of a part of a text as a span of the text. by: the offset of the part."""
    return span[0] + by, span[1] + by


def spans_overlap(one: Span, other: Span) -> bool:
    """Whether two spans of a text have a character in common."""
    return one[0] < other[1] and other[0] < one[1]


def word_boundaries(text: str) -> list[int]:
    """Returns the offsets in a text that are not inside a word, from 0 to its length.

    Signs, spaces, and characters of a script without spaces count as words: of "ein Hund." it returns 0, 3, 4, 8, 9.
    """
    in_word = [is_word(char) and not is_spaceless(char) for char in text]
    inner = [place for place, (one, other) in enumerate(pairwise(in_word), start=1) if not (one and other)]
    return [0, *inner, len(text)] if text else [0]


def boundary_before(boundaries: Sequence[int], place: int) -> int:
    """Returns the last boundary at or before an offset."""
    return boundaries[bisect_right(boundaries, place) - 1]


def boundary_after(boundaries: Sequence[int], place: int) -> int:
    """Returns the first boundary at or after an offset."""
    return boundaries[bisect_left(boundaries, place)]


def _attaches_left(placeholder: Placeholder, source: str) -> bool:
    return not placeholder.before and is_word(source[max(0, placeholder.offset - 1) : placeholder.offset])


def token_spans(text: str, tokens: Sequence[str], protected: Sequence[Span] = ()) -> list[Span | None]:
    """Returns the span of each token in a text; None for one that is not found. protected: spans without tokens."""
    text, char_spans = _normalized_with_spans(text, protected)
    ignores_case = len(text.lower()) == len(text)
    text = text.lower() if ignores_case else text
    spans: list[Span | None] = []
    place = 0
    for token in tokens:
        word = unicodedata.normalize("NFKC", token.strip())
        word = word.lower() if ignores_case else word
        start = text.find(word, place, place + len(word) + SEARCH_WINDOW) if word else -1
        spans.append((char_spans[start][0], char_spans[start + len(word) - 1][1]) if start >= 0 else None)
        place = place if start < 0 else start + len(word)
    return spans


def original_spans(line: str, normalized: str, spans: Sequence[Span], protected: Sequence[Span]) -> list[Span]:
    """Returns spans of a normalised line as spans of the line itself; (0, 0) for one that is not found.

    The words of the normalised line are looked for as tokens are. protected: spans that only the line itself has.
    """
    if not spans:
        return []
    words = [each for each in pairwise(word_boundaries(normalized)) if not normalized[each[0]].isspace()]
    originals = token_spans(line, [normalized[start:end] for start, end in words], protected)
    found = [(word, original) for word, original in zip(words, originals, strict=True) if original]
    starts, ends = [word[0] for word, _ in found], [word[1] for word, _ in found]
    ranges = [(bisect_right(ends, start), bisect_left(starts, end)) for start, end in spans]  # of words that overlap
    return [(found[first][1][0], found[last - 1][1][1]) if first < last else (0, 0) for first, last in ranges]


def _normalized_with_spans(text: str, protected: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """Returns a text in NFKC without ignored characters and protected spans, and each character's original span."""
    if text.isascii() and not protected:
        return text, [(place, place + 1) for place in range(len(text))]
    taken = TakenSpans(text, protected)
    characters: list[str] = []
    spans: list[Span] = []
    for place, char in enumerate(text):
        span = place, place + 1
        if not taken.is_free(span):
            continue
        composed = unicodedata.normalize("NFC", characters[-1] + char) if characters else ""
        if len(composed) == 1 or (is_ignored(char) and spans and spans[-1][1] == place):
            characters[-1] = composed if len(composed) == 1 else characters[-1]
            spans[-1] = spans[-1][0], place + 1
        elif not is_ignored(char):
            form = unicodedata.normalize("NFKC", char)  # as unknown characters are normalised
            characters += form
            spans += [span] * len(form)
    return "".join(characters), spans
