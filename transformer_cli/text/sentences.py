"""Cuts a line into its sentences, and joins their translations again. The one owner of sentencex; knows no models.

sentencex knows the marks and the abbreviations of many languages, and needs no further package for any of them. Rules
put right what it gets wrong most often; docs/decisions/text.md has what was measured.
"""

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import sentencex

from transformer_cli.text.alignment import Span

ORDINAL_LANGUAGES = re.compile(
    "cs|da|de|et|fi|hr|hsb|hu|is|lb|lv|nb|nn|no|pl|sk|sl|sr|tr"
)  # they write "am 3. Oktober"
TITLES = re.compile("dr|mr|mrs|ms|prof")
NUMBER_ABBREVIATIONS = re.compile("abs|art|fig|no|nr|pag|pp|vol|рис|стр")
SENTENCE_OPENERS = "\"'„“”«»‹›‘’([{（「『【¿¡*–—-"  # what may stand before the first word of a sentence
WINDOW_CHARS = 5_000  # characters that sentencex reads at a time, whose square its time may grow with
TRY_WHOLE_CHARS = 500  # characters of a sentence that is first tried as a whole
FIRST_STEP = 64  # places where a long sentence may be cut, the last of which is tried first
CONTEXT_CHARS = 20  # characters on either side of an end that are looked at

# Ends that it leaves out: "(Like this.) And then", "What follows… And then", 他走了……天黑了, "weil er Hunde mag."
_EXTRA_ENDS = re.compile(r"(?<=[.!?…])[)\]»”“\"']+(?=\s)|…(?=\s)|(?:[。！？｡]|……)(?=\w)|\b(?:art|mag)\.(?=\s)")
_ENDS_WITHOUT_SPACE = re.compile(
    r"(?:[。！？｡]|……)[”’」』）)】\"']*$"
)  # ends after which the next sentence follows at once
_SPACE_BEFORE_STOP = re.compile(
    r"\s(?=\.)"
)  # sentencex panics if it is another one than " " and a capital stands before
_CLAUSE_ENDS = (re.compile(r"[;:,](?=\s)|[；：，、،؛]"), re.compile(r"(?<!\s)(?=\s)"))  # the better ones first


def sentence_spans(line: str, language: str) -> list[Span]:
    """Returns where the sentences of a line stand, without the white space around them; a blank line has none.

    language: a code such as de; one that sentencex does not know is cut by common rules.
    """
    last = len(line.rstrip())
    found = {match.end() for match in _EXTRA_ENDS.finditer(line)}
    readable, start = _SPACE_BEFORE_STOP.sub(" ", line), 0
    while start < len(line):
        window = readable[start : start + WINDOW_CHARS]
        ends = [start + each["end_index"] for each in sentencex.get_sentence_boundaries(language, window)]
        if start + WINDOW_CHARS < len(line):
            ends = ends[:-2] or ends[:1]  # what follows a window may move the last two
        found.update(ends)
        start = ends[-1] if ends else start + WINDOW_CHARS
    kept, before = {last}, 0  # without the white space before them
    for end in sorted(found):
        if text := line[before:end].rstrip():
            kept.add(before + len(text))
        before = end
    spans, start = [], 0
    for end in sorted(kept):
        if end == last or _is_sentence_end(line, end, language):
            begin = end - len(line[start:end].lstrip())
            if begin < end:
                spans.append((begin, end))
            start = end
    return spans


def mask_spans(text: str, protected: Sequence[Span]) -> str:
    """Returns a text of the same length, in which nothing in the protected spans looks like the end of a sentence."""
    characters = list(text)
    for start, end in protected:
        entity = html.unescape(text[start:end]) if text[start] == "&" else "X"
        characters[start:end] = (entity or "X")[0] * (end - start)  # &#1; is nothing
    return "".join(characters)


def _is_sentence_end(line: str, end: int, language: str) -> bool:
    """Whether a sentence ends at a place where there may be an end: what stands before it is not an abbreviation."""
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
    """Cut a sentence that is too long: after the last ; : or , up to which it fits, else before the last such space.

    fits: whether a piece between two places is short enough. What has no such place comes as it is, although it does
    not fit.
    """
    start, end = span
    if 0 < end - start < TRY_WHOLE_CHARS and fits(start, end):  # as most do
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
    """Returns the index of the first of some sorted places, from `first` on, that does not fit.

    It is looked for in steps that double, so that nothing is tried that is much longer than what fits.
    """
    step = FIRST_STEP
    while (last := min(first + step, len(places)) - 1) >= first and fits(places[last]):
        first, step = last + 1, 2 * step
    return bisect_left(places, True, first, last + 1, key=lambda place: not fits(place))


def join_translations(line: str, spans: Sequence[Span], translations: Sequence[str]) -> str:
    """Returns translations with the white space that stands before, between and after the sentences of their line.

    Where none stands between two of them, as in Chinese, a space does, unless the translation ends in such a mark too.
    """
    text, place = "", 0
    for (start, end), translation in zip(spans, translations, strict=True):
        gap = line[place:start]
        text += (gap if gap or not place or _ENDS_WITHOUT_SPACE.search(text[-CONTEXT_CHARS:]) else " ") + translation
        place = end
    return text + line[place:]
