"""Parses subtitles (.srt, .vtt). A block is a sentence, which may span cues; its translation is divided in proportion.

Cue numbers, times, positions, and marks of speakers and sounds stay where they are. A speaker's name is a block.
"""

import html
import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, chain, groupby, pairwise

from transformer_cli.adapters.documents.blocks import Builder, Document, Inline, InlineKind, Place, escaping_writer
from transformer_cli.adapters.documents.parsed_file import LINE, LanguagePair, ParsedFile, decode_text, parse_marked
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Span
from transformer_cli.text.languages import is_language_code, is_other_language
from transformer_cli.text.lines import has_letter
from transformer_cli.text.sentences import sentence_spans

MAX_GAP_S = 3.0  # between two cues of a sentence
MAX_ROLL_S = 0.05  # between two cues that may repeat a line
MAX_WORDS_OF_NAME = 2  # in brackets
MAX_CUES_PER_SENTENCE = 5  # in text without punctuation, more cues are translated one by one

_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s[^\n]*)?\s*")
_WORD_TIME = re.compile(r"<\d{1,4}:[\d:.]{4,12}>")  # <00:00:05.100>, before a word that is highlighted then
_START = re.compile(r"([\d:.,]{5,16})[ \t]*-->")
_INLINE_PART = re.compile(
    r"(?P<line><(?i:br)\s?/?>|\\N|&#(?:10|x0?[aA]);)|"
    r"<rt\b[^<>\n]{0,200}>[^<\n]{0,200}(?:</rt>)?|"  # the reading of ruby
    r"<(?P<slash>/?)(?P<name>[a-z]{0,8})[^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}|&(?:[a-zA-Z]{1,8}|#\w{1,7});|[^<{&\\]+|.",
    re.DOTALL,
)
_SPEAKER_DASH = re.compile(r"\s*(?:[-\u2013\u2014\u2010\u2011]|(?:>|&gt;){2,3})\s*(?=[^\s\d])")
_SPEAKER_NAME = re.compile(r"([^:()\[\]]{2,40}?)(?:\s[(\[][^()\[\]]{1,40}[)\]])?:(\s+|\Z)")
_BRACKETS = re.compile(  # around a speaker or a sound: [ANNA], (lacht):
    r"(?:(?<!\s)\s+)?(?P<open>[(\[（［【])(?P<inside>[^()\[\]（）［］【】]{1,60})(?P<close>[)\]）］】]:?)\s*"
)
_DATA = re.compile(  # a cue of thumbnails or of other files
    r".*#xywh=[a-z:]*[\d.,]+|(?:[a-z][a-z\d+.-]{1,20}://|data:[\w/+.-]+[;,])\S+"
    r"|[^\s?#]+\.(?:avif|bmp|gif|jpe?g|m3u8|mp4|png|svg|webp)(?:[?#]\S*)?",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")
_MARKUP_BEFORE = re.compile(rf"(?:\s|{_MARKUP.pattern})*")
_SOUND_STARTS = (*"♪♫♬[(［（【", "# ", "* ")  # lines of songs and sounds are sentences without full stops
_SOUND_ENDS = tuple("♪♫♬]］】")
_SOUND_MARKS = dict(zip("([（［【*#", ")]）］】*#", strict=True))  # around a line or several; they stay
_SOUND_BORDERS = (*".!?…。！？:♪", "")  # before a speaker or a sound inside a line
_CLAUSE_MARKS = tuple(".,;!?、，")  # behind other brackets
_BREAKS = ("line_end", "cue", "block_end")  # from weak to strong; a sentence may span the first two
_SPANNING = ("i", "b", "u", "font", "c", "ruby", "lang")  # elements around words


def parse_subtitles(content: bytes, languages: LanguagePair) -> ParsedFile:
    """Parse subtitles into sentences. Raises DataError if they have no times."""
    text, encode = decode_text(content)
    is_vtt = text.startswith("WEBVTT")
    entities = {"&": "&amp;", "<": "&lt;", ">": "&gt;"} if is_vtt else {}
    escapes = {ord(char): entity for char, entity in entities.items() if char == "<" or entity in text}
    kept, lines = Counter[str](), LINE.findall(text)
    repeated = _repeated_lines(lines)
    shown_once = [" " + line[len(line.rstrip()) :] if n in repeated else line for n, line in enumerate(lines)]
    parts = _merge_parts(_parse_parts(shown_once, is_vtt, kept))

    def parse(language: str) -> list[Document]:
        build = Builder(escaping_writer(lambda words: words.translate(escapes).replace("-->", arrow)))
        read = _keep_other_languages(parts, build.document, language)
        for are_ends, group in groupby(read, lambda part: part.kind == "block_end"):
            if not are_ends:
                _add_sentences(build, [*group], languages[0])
                continue
            for part in group:
                build.end_block(part.raw)
                build.place = _place_after(part.raw, build.place)
        return [build.document]

    (document,) = parse_marked(parse, languages[0])
    if not is_vtt and "-->" not in text and text.strip():
        raise DataError("not subtitles: no line has times, such as 00:00:01,000 --> 00:00:02,500")
    has_arrow = any("-->" in block.source for block in document.blocks)
    arrow = "--&gt;" if is_vtt and not has_arrow else "-->"  # from a glossary; it would begin a cue

    def assemble(translated: str) -> bytes:
        """Write each repeated line with the translation of the one that it repeats."""
        found = LINE.findall(translated)
        for n, origin in repeated.items():
            found[n] = lines[n].replace(lines[n].strip(), _MARKUP.sub("", found[origin]).strip())
        return encode("".join(found))

    return ParsedFile([document], assemble, kept)


def _keep_other_languages(parts: Sequence[Inline], document: Document, language: str) -> Iterator[Inline]:
    """Yield parts; what is in <lang fr> becomes standalone, unless that is `language`, the one of the source."""
    are_other = list[bool]()  # the open <lang>
    for part in parts:
        if part.opens == "lang":
            code = part.raw[1:-1].split()[-1]
            is_other = is_language_code(code) and is_other_language(code, language)
            are_other.append(is_other or any(are_other[-1:]))
        is_kept = any(are_other[-1:]) and not part.kind
        document.n_other_language += is_kept and part.text != ""
        yield Inline(part.raw) if is_kept else part
        if part.closes == "lang":
            del are_other[-1:]
        elif "-->" in part.raw:
            are_other.clear()


def _repeated_lines(lines: Sequence[str]) -> dict[int, int]:
    """Returns the lines that repeat a line of the cue just before, as captions that roll up do, and their originals.

    Both are indices; the original of a line that is repeated several times is the first one.
    """
    repeated, before, now, last_s = dict[int, int](), dict[str, int](), dict[str, int](), float("-inf")
    for n, line in enumerate(lines):
        text = _MARKUP.sub("", line).strip()
        if times := _TIMES.fullmatch(line):
            rolls = _seconds(*times.groups()[:4]) - last_s < MAX_ROLL_S
            before, now, last_s = now if rolls else {}, {}, _seconds(*times.groups()[4:])
        elif has_letter(text):
            if text in before and text == line.strip():
                repeated[n] = before[text]
            now[text] = repeated.get(n, n)
    return repeated


def _parse_parts(lines: Sequence[str], is_vtt: bool, kept: Counter[str]) -> Iterator[Inline]:
    """Yield the parts of subtitles, and count the cues that are kept because their times are malformed."""
    between, last_s, is_in_cue, is_separate = list[str](), float("-inf"), False, True  # between: lines between two cues
    open_mark = ""  # the closing mark of a sound that goes on in the next line
    data = _data_lines(lines, kept)
    for n, (before, line, following) in enumerate(zip(["", *lines], lines, [*lines[1:], ""], strict=False)):
        times, begins = _TIMES.fullmatch(line), not before.strip() or before.strip().isdecimal()
        is_cue_id = _TIMES.fullmatch(following) and (line.strip().isdecimal() or not before.strip())
        is_malformed = begins and not times and "-->" in line
        if times or not is_in_cue or not line.strip() or is_cue_id or is_malformed:
            between.append(line)
            kept["malformed times"] += is_malformed
            ends_cue = is_malformed or (is_vtt and not line.strip("\r\n"))  # cues of SRT may contain blank lines
            is_in_cue = bool(times) or (is_in_cue and not ends_cue)
            if times:
                is_separate |= _seconds(*times.groups()[:4]) - last_s > MAX_GAP_S
                last_s = _seconds(*times.groups()[4:])
            continue
        if n in data or not has_letter(line):  # music, or a number
            between.append(line)
            is_separate = True
            continue
        if speaker := _SPEAKER_DASH.match(line):
            between.append(speaker[0])
        inside = line[speaker.end() if speaker else 0 :]
        text = _MARKUP.sub("", inside).strip()
        was_open, (begins_sound, ends_sound, open_mark) = open_mark, _find_sound(text, open_mark)
        name = _speaker_name(text)
        is_separate |= bool(speaker or name or begins_sound or text.startswith(_SOUND_STARTS))
        if between:
            is_cue = any("-->" in each for each in between)
            yield Inline("".join(between), kind="block_end" if is_separate else "cue" if is_cue else "line_end")
        is_separate = ends_sound or text.endswith(_SOUND_ENDS) or is_speaker_name(text)
        first, end = _MARKUP_BEFORE.match(inside).end(), len(inside.rstrip())  # type: ignore[union-attr]
        between, start, has_word_times = [inside[end:]], 0, _WORD_TIME.search(inside) is not None
        pieces = [(first, first + 1)] * begins_sound + [(last := inside.rfind(text[-1:]), last + 1)] * ends_sound
        if name and inside.startswith(name[0], first):
            pieces.append((first + name.start(2), first + name.end(2)))
        brackets = [] if begins_sound or was_open or open_mark else [*_bracket_pieces(inside[:end])]
        is_separate |= bool(brackets) and brackets[-1][1] == end
        for piece_start, piece_end in sorted([*pieces, *brackets]):
            yield from _inline_parts(inside[start:piece_start], is_vtt, has_word_times)
            yield Inline(inside[piece_start:piece_end], kind="block_end" if name or brackets else "")
            start = piece_end
        yield from _inline_parts(inside[start:end], is_vtt, has_word_times)
    if between:
        yield Inline("".join(between), kind="block_end")


def _data_lines(lines: Sequence[str], kept: Counter[str]) -> set[int]:
    """Returns the indices of lines in cues of data, and counts these cues."""
    found = set[int]()
    for is_text, group in groupby(enumerate(lines), lambda each: bool(each[1].strip()) and not _TIMES.match(each[1])):
        cue = dict(group)
        if is_text and _is_data("".join(cue.values())):
            found |= cue.keys()
            kept["data"] += 1
    return found


def _is_data(text: str) -> bool:
    """Whether a text is JSON or addresses, as of thumbnails."""
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(text), dict | list)
    return all(_DATA.fullmatch(line.strip()) for line in LINE.findall(text))


def is_speaker_name(text: str) -> bool:
    """Whether a text is a name in capitals with a colon or in brackets: PETER:, PETER (leise):, or [PETER]."""
    found, bracketed = _speaker_name(text), _BRACKETS.fullmatch(text)
    if bracketed:  # more words in capitals are rather a sound: [EIN HUND BELLT]
        return bracketed["inside"].isupper() and len(bracketed["inside"].split()) <= MAX_WORDS_OF_NAME
    return found is not None and found[0] == text


def _speaker_name(text: str) -> re.Match[str] | None:
    found = _SPEAKER_NAME.match(text)
    return found if found and found[1].isupper() else None


def _find_sound(text: str, open_mark: str) -> tuple[bool, bool, str]:
    """Returns whether a line begins and ends a sound, such as (Ein Hund bellt), and the `open_mark` of the next line.

    open_mark: the closing mark of a sound that goes on, or "".
    """
    mark = _SOUND_MARKS.get(text[:1], "")
    closing = text.find(mark or open_mark or "\n", 1)
    ends = closing == len(text) - 1 > 0
    begins = mark != "" and (ends or (closing < 0 and text.startswith(_SOUND_STARTS)))
    return begins, ends, "" if ends else mark * begins or open_mark * (not mark)


def _bracket_pieces(text: str) -> Iterator[Span]:
    """Yield the spans that separate speakers and sounds in brackets from the words of a line.

    The brackets begin the line or follow a sentence, and no clause goes on behind them; others are part of a sentence.
    A name in capitals is translated with its brackets, so that `is_speaker_name` finds it.
    """
    last = 0  # the end of the last brackets
    masked = _MARKUP.sub(lambda markup: " " * len(markup[0]), text)
    for found in _BRACKETS.finditer(masked):
        (start, end), inside, (opening, closing) = found.span(), found["inside"], (found.span(1), found.span(3))
        before, after = masked[max(0, start - 3) : start].rstrip('"”“»')[-1:], masked[end : end + 1]
        is_name, is_square = is_speaker_name(found[0].strip()), found["open"] in "[［【"
        is_phrase = after.isalpha() and not (after.isupper() or is_square) and " " in inside  # of Japanese, Arabic …
        is_sound = not (after.islower() or is_phrase) or found["close"].endswith(":") or (is_name and is_square)
        is_item = len(inside) == 1 and inside.lower() != inside.upper()  # (a), but not （笑）
        is_border = start == last or before in _SOUND_BORDERS
        if is_border and is_sound and after not in _CLAUSE_MARKS and has_letter(inside) and not is_item:
            yield opening[:1] * 2 if is_name else opening  # an empty span is a border, too
            yield closing[1:] * 2 if is_name else closing
            last = end


def _inline_parts(text: str, is_vtt: bool, has_word_times: bool) -> Iterator[Inline]:
    for found in _INLINE_PART.finditer(text):
        raw, name = found[0], found["name"]
        if found["line"]:
            yield Inline(raw, kind="line_end")
        elif has_word_times and name in ("", "c"):
            yield Inline(raw, kind="proportional")
        elif name in _SPANNING:
            yield Inline(raw, closes=name) if found["slash"] else Inline(raw, opens=name)
        elif name == "v" and not found["slash"]:
            yield Inline(raw, kind="block_end")
        elif name is not None or raw.startswith(("{\\", "<rt")):
            yield Inline(raw)
        else:
            yield Inline(raw, html.unescape(raw) if is_vtt else raw)


def _seconds(hours: str | None, minutes: str, seconds: str, thousandths: str) -> float:
    return 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds) + int(thousandths) / 1000


def _place_after(raw: str, place: Place) -> Place:
    """Returns the cue that begins in a break; without one, the last place."""
    starts = _START.findall(raw)
    return Place(f"cue {starts[-1]}") if starts else place


def _merge_parts(parts: Iterator[Inline]) -> list[Inline]:
    """Returns parts; joins adjacent breaks, and elements that are closed before a break and reopened after it."""
    found: list[Inline] = []
    for part in parts:
        last = found[-1] if found else Inline("")
        is_after_break, is_standalone = last.kind in _BREAKS, part == Inline(part.raw)
        if is_after_break and (part.kind in _BREAKS or is_standalone):
            kind: InlineKind = max(last.kind, part.kind or last.kind, key=_BREAKS.index)
            found[-1] = Inline(last.raw + part.raw, kind=kind)
        elif is_after_break and part.opens not in ("", "lang") and found[:-1] and found[-2].closes == part.opens:
            found[-2:] = [Inline(found[-2].raw + last.raw + part.raw, kind=last.kind)]
        else:
            found.append(part)
    return found


def _add_sentences(build: Builder, parts: list[Inline], language: str) -> None:
    """Add the parts between two block ends, sentence by sentence."""
    texts = [" " if each.kind in _BREAKS else each.text for each in parts]
    offsets = [0, *accumulate(map(len, texts))]
    spans = sentence_spans("".join(texts), language)
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    adjacent = {*starts} & {*ends}  # offsets of sentences that follow another one without a space
    cues = [offset for offset, each in zip(offsets, parts, strict=False) if each.kind == "cue"]
    across = _elements_across_cues(parts)
    for index, (each, (offset, last)) in enumerate(zip(parts, pairwise(offsets), strict=True)):
        number = bisect_right(starts, offset) - 1
        is_inside = number >= 0 and offset < ends[number]
        if each.text:
            inner_cuts = (cuts[bisect_right(cuts, offset) : bisect_left(cuts, last)] for cuts in (starts, ends))
            edges = sorted({offset, *chain.from_iterable(inner_cuts), last})
            for start, end in pairwise(edges):
                raw = each.raw[start - offset : end - offset] if each.raw == each.text else each.raw
                number = bisect_right(starts, start) - 1
                if start in adjacent:
                    build.end_block()
                if number >= 0 and start < ends[number]:
                    build.add(Inline(raw, raw if each.raw == each.text else each.text))
                else:
                    build.end_block(raw)
        elif each.kind in _BREAKS:
            build.place = _place_after(each.raw, build.place)
            n_cues = bisect_left(cues, ends[number]) - bisect_left(cues, starts[number]) if is_inside else 0
            goes_on = is_inside and (each.kind == "line_end" or n_cues < MAX_CUES_PER_SENTENCE)
            build.add(Inline(each.raw, " ", kind="proportional") if goes_on else Inline(each.raw, kind="block_end"))
        elif index in across:
            build.add(Inline(each.raw, kind="proportional"))
        else:
            build.add(Inline(each.raw) if build.has_open(each.opens) else each)
    build.end_block()


def _elements_across_cues(parts: list[Inline]) -> set[int]:
    """Returns the indices of tags of elements that span cues; if one moved, cues would get out of order."""
    found, open_, cue_of = set[int](), dict[str, list[int]](), [*accumulate(each.kind == "cue" for each in parts)]
    for index, each in enumerate(parts):
        if each.opens:
            open_.setdefault(each.opens, []).append(index)
        elif open_.get(each.closes):
            begun = open_[each.closes].pop()
            found |= {begun, index} if cue_of[begun] < cue_of[index] else set()
    return found | {index for unclosed in open_.values() for index in unclosed if cue_of[index] < cue_of[-1]}
