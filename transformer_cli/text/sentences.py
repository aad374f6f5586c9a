"""Splits a line into sentences, and joins their translations again. The only module that imports sentencex.

sentencex knows the marks and abbreviations of many languages, and needs no further package for any of them. Rules here
correct its most frequent mistakes; docs/decisions/text.md has the measurements. Knows no models.
"""

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import sentencex

from transformer_cli.text.alignment import Span

# languages with a stop after ordinal numbers, as in "am 3. Oktober"
ORDINAL_LANGUAGES = re.compile("cs|da|de|et|fi|hr|hsb|hu|is|lb|lv|nb|nn|no|pl|sk|sl|sr|tr")
TITLES = re.compile("dr|mr|mrs|ms|prof")
NUMBER_ABBREVIATIONS = re.compile("abs|art|fig|no|nr|pag|pp|vol|рис|стр")
SENTENCE_OPENERS = "\"'„“”«»‹›‘’([{（「『【¿¡*–—-"  # may stand before the first word of a sentence
WINDOW_CHARS = 5_000  # given to sentencex at a time, since its time may grow with the square of the length
TRY_WHOLE_CHARS = 500  # shorter sentences are first tried as a whole
FIRST_STEP = 64  # possible cuts in the first step of `_first_not_fitting`
CONTEXT_CHARS = 20  # looked at on either side of an end

# Ends that sentencex misses: "(Like this.) And then", "What follows… And then", 他走了……天黑了, "weil er Hunde mag."
_EXTRA_ENDS = re.compile(r"(?<=[.!?…])[)\]»”“\"']+(?=\s)|…(?=\s)|(?:[。！？｡]|……)(?=\w)|\b(?:art|mag)\.(?=\s)")
_ENDS_WITHOUT_SPACE = re.compile(r"(?:[。！？｡]|……)[”’」』）)】\"']*$")  # no space follows these ends
_SPACE_BEFORE_STOP = re.compile(r"\s(?=\.)")  # after a capital, sentencex panics if this is not " "
_CLAUSE_ENDS = (re.compile(r"[;:,](?=\s)|[；：，、،؛]"), re.compile(r"(?<!\s)(?=\s)"))  # preferred ones first


def sentence_spans(line: str, language: str, borders: Sequence[int] = ()) -> list[Span]:
    """Returns the spans of a line's sentences, without the white space around them; a blank line has none.

    language: a code such as de; for one that sentencex does not know, common rules are used. borders: offsets, from
    left to right, at which a sentence may end without white space.
    """
    if borders:  # read as spaces
        spaced = " ".join(line[start:end] for start, end in pairwise((0, *borders, len(line))))
        spaces = [border + number for number, border in enumerate(borders)]
        return [
            (start - bisect_left(spaces, start), end - bisect_left(spaces, end))
            for start, end in sentence_spans(spaced, language)
        ]
    last = len(line.rstrip())
    found = {match.end() for match in _EXTRA_ENDS.finditer(line)}
    readable, start = _SPACE_BEFORE_STOP.sub(" ", line), 0
    while start < len(line):
        window = readable[start : start + WINDOW_CHARS]
        ends = [start + each["end_index"] for each in sentencex.get_sentence_boundaries(language, window)]
        if start + WINDOW_CHARS < len(line):
            ends = ends[:-2] or ends[:1]  # the last two may depend on the text after the window
        found.update(ends)
        start = ends[-1] if ends else start + WINDOW_CHARS
    trimmed, before = {last}, 0  # the ends, moved before any white space
    for end in sorted(found):
        if text := line[before:end].rstrip():
            trimmed.add(before + len(text))
        before = end
    spans, start = [], 0
    for end in sorted(trimmed):
        if end == last or _is_sentence_end(line, end, language):
            begin = end - len(line[start:end].lstrip())
            if begin < end:
                spans.append((begin, end))
            start = end
    return spans


def mask_spans(text: str, protected: Sequence[Span]) -> str:
    """Returns a text of the same length, in which protected spans contain no end of a sentence."""
    characters = list(text)
    for start, end in protected:
        entity = html.unescape(text[start:end]) if text[start] == "&" else "X"
        characters[start:end] = (entity or "X")[0] * (end - start)  # &#1; is unescaped to ""
    return "".join(characters)


def _is_sentence_end(line: str, end: int, language: str) -> bool:
    """Whether a possible end ends a sentence; false after an abbreviation, for example."""
    before, after = line[max(0, end - CONTEXT_CHARS) : end], line[end : end + CONTEXT_CHARS]
    if not after[0].isspace() and not _ENDS_WITHOUT_SPACE.search(before):
        return False
    first = after.lstrip(f"{SENTENCE_OPENERS} \t")[:1]
    if first.islower() or before[-1:] != ".":
        return not first.islower()
    word = before[:-1].split(" ")[-1].lstrip(SENTENCE_OPENERS)
    letters = re.split(r"[.-]+", word)
    if all(len(letter) == 1 and letter.isalpha() for letter in letters) and (len(letters) == 1 or word.isupper()):
        return False  # J. R. R. Tolkien, J.-P. Martin
    is_ordinal = word.isdecimal() and len(word) < 3 and ORDINAL_LANGUAGES.fullmatch(language)
    is_counted = first.isdecimal() and NUMBER_ABBREVIATIONS.fullmatch(word.lower())
    return not (is_ordinal or is_counted or TITLES.fullmatch(word.lower()))


def split_long_sentence(line: str, span: Span, fits: Callable[[int, int], bool]) -> Iterator[Span]:
    """Yield the longest pieces of a sentence that fit: cut after a ; : or , if possible, or else before a space.

    fits: whether a piece from start to end is short enough. If no place to cut is early enough, the rest is one piece.
    """
    start, end = span
    if 0 < end - start < TRY_WHOLE_CHARS and fits(start, end):  # most sentences
        yield span
        return
    ends = [[match.end() for match in marks.finditer(line, start, end)] for marks in _CLAUSE_ENDS]
    places = sorted({end, *(place for each in ends for place in each if place < end)})
    while start < end:
        first, cut = bisect_right(places, start), end
        if (last := places[_first_not_fitting(places, first, partial(fits, start)) - 1]) != end:
            behind = ((cuts, bisect_right(cuts, last)) for cuts in ends)
            cut = next((cuts[n - 1] for cuts, n in behind if n and cuts[n - 1] > start), end)
        yield start, cut
        start = cut
        while start < end and line[start].isspace():
            start += 1


def _first_not_fitting(places: Sequence[int], first: int, fits: Callable[[int], bool]) -> int:
    """Returns the index of the first of the sorted places, from `first` on, that does not fit.

    The steps double (galloping search), so that `fits` is not called on much more text than fits.
    """
    step = FIRST_STEP
    while (last := min(first + step, len(places)) - 1) >= first and fits(places[last]):
        first, step = last + 1, 2 * step
    return bisect_left(places, True, first, last + 1, key=lambda place: not fits(place))


def join_translations(line: str, spans: Sequence[Span], translations: Sequence[str]) -> str:
    """Returns translations joined by the white space before, between and after the sentences of their line.

    If the line has none between two sentences, as in Chinese, their translations are joined by a space, or by nothing
    after a mark such as 。.
    """
    text, place = "", 0
    for (start, end), translation in zip(spans, translations, strict=True):
        gap = line[place:start]
        text += (gap if gap or not place or _ENDS_WITHOUT_SPACE.search(text[-CONTEXT_CHARS:]) else " ") + translation
        place = end
    return text + line[place:]
