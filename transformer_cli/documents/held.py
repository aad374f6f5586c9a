"""Held spans: what passes a translation untouched comes back once, where the words beside it went, between words.

Symbols of plain text and elements of HTML are such spans. They are placed by links: which characters of a sentence and
of its translation belong to each other. Knows characters and tokens, but no models and no markup.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from transformer_cli.data.reading import Held, is_ignored, is_inside_word, is_spaceless, is_word

Span = tuple[int, int]
"""Where something begins in a text and where it ends, in characters"""
Link = tuple[Span, Span]
"""Where a word of the source stands, and where one of its translation that belongs to it"""

NEAR = 40  # characters within which the next token is looked for
OPENING = "([{«„“‚‘¿¡（「『【《〈"  # no space follows
CLOSING = ".,;:!?…%)]}»”’。、，；：！？）」』】》〉"  # no space stands before


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


def place_of(held: Held, source: str, text: str, links: Sequence[Link]) -> int:
    """Returns where a held span comes to stand in a translation: at its ends as in the source, else beside a word.

    links: in the order of the source. What leans on a word stays with that word; what only closing marks follow stands
    before those of the translation.
    """
    if held.place <= 0:
        return 0
    following = source[held.place :]
    if not following.strip(CLOSING) and not _leans_left(held, source):
        return len(text.rstrip(CLOSING) if following else text)
    after = bisect_left(links, ((held.place, 0), (0, 0)))
    if after and (source[held.place - 1] != " " or after == len(links)):
        return word_end(text, links[after - 1][1][1])
    return word_start(text, links[after][1][0]) if links else len(text)


def put_back(text: str, source: str, held: Sequence[Held], links: Sequence[Link]) -> str:
    """Returns a translation with the spans that were held out of its source, in their order where places are equal."""
    links = sorted(links)
    places = sorted((place_of(each, source, text, links), number) for number, each in enumerate(held))
    parts, last = [], 0
    for index, (place, number) in enumerate(places):
        each = held[number]
        left, right = spaces(each, source, text[place - 1 : place], text[place : place + 1])
        if index and places[index - 1][0] == place:  # right behind another one, which has its own space
            left = ""
        parts += [text[last:place], left, each.text, right]
        last = place
    return "".join([*parts, text[last:]])


def spaces(held: Held, source: str, left: str, right: str) -> tuple[str, str]:
    """Returns the white space that a held span gets between two characters of a translation ("" at an end)."""
    before = after = ""
    if is_word(left) and not is_spaceless(left):
        before = "" if _leans_left(held, source) else held.before or " "
    elif left and not left.isspace() and left not in OPENING:
        before = held.before
    if is_word(right) and not is_spaceless(right):
        after = "" if _leans_right(held, source) else held.after or " "
    elif right and not right.isspace() and right not in CLOSING:
        after = held.after
    return before, after


def word_start(text: str, place: int) -> int:
    """Returns where the word that a place is inside begins; the place itself if it is not inside a word."""
    while is_inside_word(text, place):
        place -= 1
    return place


def word_end(text: str, place: int) -> int:
    """Returns where the word that a place is inside ends; the place itself if it is not inside a word."""
    while is_inside_word(text, place):
        place += 1
    return place


def words(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield where the words between two places stand; a sign between spaces is none."""
    while start < end:
        stop = start + 1
        while stop < end and is_inside_word(text, stop):
            stop += 1
        if is_word(text[start]):
            yield start, stop
        start = stop


def _leans_left(held: Held, source: str) -> bool:
    return not held.before and is_word(source[max(0, held.place - 1) : held.place])


def _leans_right(held: Held, source: str) -> bool:
    return not held.after and not _leans_left(held, source) and is_word(source[held.place : held.place + 1])


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
    """Returns a text as it may have been read, and where each of its characters begins; then where it ends."""
    if text.isascii():
        return text, range(len(text) + 1)
    characters: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        if characters and len(composed := unicodedata.normalize("NFC", characters[-1] + char)) == 1:
            characters[-1] = composed
        elif not is_ignored(char):
            characters.append(char)
            places.append(place)
    return "".join(characters), [*places, len(text)]
