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
from transformer_cli.text.lines import has_letter

ORDINAL_LANGUAGES = re.compile("de|gsw|lb|nds|tr")  # with ordinals before capital letters too, as in "am 3. Oktober"
NUMBER_ORDINAL_LANGUAGES = re.compile("(?!(?:en|es|fr|it|nl|pt|ru|uk)$).*")  # as in "3. 5. 2020"
INFORMAL_LANGUAGES = re.compile("en|et")  # in which a word in lower case often begins a sentence
ABBREVIATIONS = re.compile("approx|aprox|dr|forts|gen|im|incl|mrs?|ms|prof|st|sv|v|vs|św")
CLIPPED = re.compile("avg|chap|dept|est|etc|excl|govt|max|min|misc|orig|sect|tel")  # before a small letter
NUMBER_ABBREVIATIONS = re.compile(
    r"abb|abk|\w*abs|abschn|abt|abzgl|allg|anh|anl|anm|art|aufg|aufl|ausg|bde?|betr|bj|bl|bsp|bspw|ca|cap|de[ckz]|einschl|"
    r"exkl|febr?|fig|fn|ft|fußn|geb|gem|gest|gln?|godz|gr|halbs|hrsg|hs|inkl|insg|janv|jg|jhd?t?|joh|kap|kl|klo|kor|ks|lb|"
    r"lit|lk|lkm|m[aà]x|mill|mind?|mk|mos|mtl|no|[\w.-]*nr|nrn|nro|núm|obr|odst|okt?|oz|p[aáà]g|par|pers|pkt|pl|pos|pp|puh|"
    r"písm|příl|resp|r[nz]|roč|sp|srov|ss|stk|\w*str|ta?bl?|tel|tgl|tlf|ts|tsd|tz|ust|vast|vgl|vol|vrt|yht|ziff|zzgl|čís|čl|"
    r"št|мал|ок|рис|род|стр|чел|чл"
)
STOPS = ".!?…"
SENTENCE_OPENERS = "\"'`„“”«»‹›‘’([{（「『【¿¡*,–—-"  # may stand before the first word of a sentence
WINDOW_CHARS = 5_000  # given to sentencex at a time, since its time may grow with the square of the length
TRY_WHOLE_CHARS = 500  # shorter sentences are first tried as a whole
FIRST_STEP = 64  # possible cuts in the first step of `_first_not_fitting`
CONTEXT_CHARS = 20  # looked at on either side of an end
OBJECT = "\ufffc"  # stands for a protected character

# What sentencex misreads: it finds no end between quotation marks or brackets, nor before a symbol or a number, and it
# panics at any space but " " between a capital letter and a full stop.
_MISREAD = re.compile(
    r"\[\d+\]|[\"`„“”‚‘«»‹›()\[\]{}（）「」『』【】〈〉《》]+|(?<!\w)'|['’](?!\w)|,,|"
    r"(?<=[.!?…])(?:[:;]-?[()DP]|[^\w\s.,;:!?…/–—-]+)(?=\s)|\s(?=\.)|(?<=[.!?…)\]»”“\"'’]\s)\d"
)
# Ends that it misses: "What follows… And then", "Stop!Who", 他走了……天黑了, and words that it takes for abbreviations
_EXTRA_ENDS = re.compile(
    rf"…(?=\s)|[!?](?=[^\W\d_]|[¿¡])|[.!?](?={OBJECT}+[^\W\d_])|(?:[。！？｡]|……)(?=\w)|"
    r"\b(?<!\. )(?:art|bien|dat|det|etc|mag|me|med|min|no|ok|ord|para|sobre|ut|var)\.(?=[»”]?\s)"
)
# What belongs to a sentence after its stop: closing marks, symbols, marks of footnotes, emoticons
_CLOSERS = re.compile(
    r"(?:[“‘](?!\w)|[^\w\s.,;:!?…、，；：。！？｡/„“‚‘¿¡([{（「『【〈《–—-]|[²³¹⁰-⁹]|\s?\[\d+\]|"
    r"\s?[:;]-?[()DP](?!\S)|\s(?:[»”)\]]|'')(?!\S))*"
)
_ENDS_WITHOUT_SPACE = re.compile(r"(?:[。！？｡]|……)[”’」』）)】\"']*$")  # no space follows these ends
_CLAUSE_ENDS = (re.compile(r"[;:,](?=\s)|[；：，、،؛]"), re.compile(r"(?<!\s)(?=\s)"))  # preferred ones first


def sentence_spans(line: str, language: str, borders: Sequence[int] = ()) -> list[Span]:
    """Returns the spans of a line's sentences, without the white space around them; a blank line has none.

    language: a code such as de; for one that sentencex does not know, common rules are used. borders: offsets, from
    left to right, at which a sentence may end without white space.
    """
    if borders:  # read as spaces
        spaced = " ".join(line[start:end] for start, end in pairwise((0, *borders, len(line))))
        spaces = [border + number for number, border in enumerate(borders)]
        spans = sentence_spans(spaced, language)
        return [(start - bisect_left(spaces, start), end - bisect_left(spaces, end)) for start, end in spans]
    last = len(line.rstrip())
    places = {last, *(match.end() for match in _EXTRA_ENDS.finditer(line))}
    readable, start = _MISREAD.sub(_readable, line), 0
    while start < len(line):
        window = readable[start : start + WINDOW_CHARS]
        ends = [start + each["end_index"] for each in sentencex.get_sentence_boundaries(language, window)]
        if start + WINDOW_CHARS < len(line):
            ends = ends[:-2] or ends[:-1]  # the last is the window's; the one before may depend on what follows
        places.update(ends)
        start = ends[-1] if ends else start + WINDOW_CHARS
    closing = {match.start() for match in [*re.finditer('"', line)][1::2]}
    spans, start, before = [], 0, 0
    for place in sorted(places):
        stop, before = before + len(readable[before:place].rstrip()), place
        closers = _CLOSERS.match(line, stop)
        end = closers.end() if closers and place < last else last
        if end + 1 in closing and not line[end : end + 3].strip(' "'):
            end += 2  # in: She said " Stop. " And then
        if end == last or (stop > start and _is_sentence_end(line, start, stop, end, language)):
            begin = end - len(line[start:end].lstrip())
            if begin < end:
                spans.append((begin, end))
            start = end
    return spans


def _readable(misread: re.Match[str]) -> str:
    """Returns what sentencex reads instead of a match of `_MISREAD`; it has the same length."""
    is_in_word = misread.string[misread.end() : misread.end() + 1] in {*STOPS} and not misread[0].isspace()
    return ("Ω" if misread[0].isdecimal() else "0" if is_in_word else " ") * len(misread[0])


def mask_spans(text: str, protected: Sequence[Span]) -> str:
    """Returns a text of the same length, in which protected spans contain no end of a sentence."""
    characters = list(text)
    for start, end in protected:
        entity = html.unescape(text[start:end]) if text[start] == "&" else OBJECT
        characters[start:end] = (entity or OBJECT)[0] * (end - start)  # &#1; is unescaped to ""
    return "".join(characters)


def _is_sentence_end(line: str, start: int, stop: int, end: int, language: str) -> bool:
    """Whether a possible end ends a sentence; false after an abbreviation, for example.

    start: of the sentence. stop: the end of its last mark. end: after what follows that, such as a quotation mark.
    """
    before, after = line[max(start, stop - CONTEXT_CHARS) : stop], line[end : end + CONTEXT_CHARS]
    mark, first = ("…" if before.endswith("..") else before[-1]), after.lstrip(f"{SENTENCE_OPENERS} \t\u00a0\u202f")[:1]
    _, opening, word = re.split(r"\s", before.rstrip(STOPS))[-1].rpartition("(")
    word = word.lstrip(SENTENCE_OPENERS)
    if after[0] in f"{STOPS}。！？｡" or (line[end - 1] in "」』”）)" and after[0] in "がっでとなにのはへもやらを"):
        return False  # 「行く。」と言った
    is_after_object = line[end - 1] == OBJECT and after[0].isupper() and not before[-2:-1].isdecimal()
    if not (after[0].isspace() or is_after_object or _ENDS_WITHOUT_SPACE.search(before)):
        is_glued = end == stop and mark in "!?" and (after[0].isalpha() or after[0] in "¿¡") and not after[0].islower()
        is_code = not before.strip(STOPS) or {*word} & {*"/:@=&#."} or re.match(r"\w+(?:=|:\w)", after)
        return is_glued and not is_code
    is_opened = opening and end == stop and (word.isalpha() if mark == "." else not word)
    if is_opened or (mark == "." and ABBREVIATIONS.fullmatch(word.lower())):
        return False  # (?), (lat. Zenon), Dr. Zenon
    if first.islower():
        is_informal = INFORMAL_LANGUAGES.fullmatch(language) is not None
        if end > stop or mark not in ".!?" or before[-2:-1] in {*STOPS} or after.lstrip()[0] in SENTENCE_OPENERS:
            return False
        word = re.sub("['’\"”»)-]", "", word)
        is_word = word.isalpha() and not CLIPPED.fullmatch(word.lower()) and not word.isupper()
        is_word &= len(word) >= (2 if is_informal else 5)
        return is_word if mark == "." else is_informal
    is_before_number = first.isdecimal() or first == OBJECT
    is_number = not has_letter(word) and before.lstrip(f"{SENTENCE_OPENERS} \t") == f"{word}."  # 1. A paragraph
    if mark != "." or is_number:
        return not is_number
    if len(word) == 1 and word.islower() and language != "de":
        return not is_before_number and not re.match(r"\W*\w\.", after)
    if all(len(letter) == 1 and letter.isalpha() for letter in re.split("[.-]+", word)) and word not in ("a.m", "p.m"):
        return False  # J. R. R. Tolkien, J.-P. Martin
    has_ordinals = (NUMBER_ORDINAL_LANGUAGES if is_before_number else ORDINAL_LANGUAGES).fullmatch(language)
    is_ordinal = has_ordinals and end == stop and word.isdecimal() and len(word) < 3
    return not (is_ordinal or (is_before_number and NUMBER_ABBREVIATIONS.fullmatch(word.lower())))


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
