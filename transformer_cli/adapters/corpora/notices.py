"""Warnings about text of a new dataset that looks wrong: one for each kind of problem."""

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, count, groupby, islice, starmap
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

from transformer_cli.adapters.corpora.cleaning import ENTITY, MARKUP, mend_encoding
from transformer_cli.adapters.corpora.formats import script_and_region
from transformer_cli.data.corpus import read_pairs
from transformer_cli.scoring.evaluate import ParallelText
from transformer_cli.scoring.metrics import warn_if_not_nfc
from transformer_cli.system.terminal import first_few, shorten
from transformer_cli.text.codec import SIDES
from transformer_cli.text.file_formats import SUBWORD_TEXT, detect_format
from transformer_cli.text.languages import language_code
from transformer_cli.text.lines import PairIterator, trigrams
from transformer_cli.text.normalization import nfc

LINES_CHECKED = 1_000  # of each side of each split
SUSPICIOUS_SHARE = 0.5  # of lines that are in another format, or the same on both sides
PAIRS_CHECKED = 100_000  # of train
MIN_DAMAGED_SHARE = 0.02  # of all lines: fewer damaged ones give no warning
MAX_ODD_SHARE = 0.05  # of these pairs, for each oddity; for more, a warning
MAX_REPETITIONS = 4  # of a word
MAX_SOURCES, MAX_TARGET_SHARE = 20, 0.01  # of one target: different sources, and pairs; for more, a warning
MIN_TEXT_WITHOUT_SPACES = 20  # characters; a shorter text is not searched for repeated characters
WRONG_LETTERS = "text with wrong or lost letters"
UNCUT = "give the original text, since tfm cuts it itself"
ORIGINAL_FILE = "go back to the original file, and convert it to UTF-8"
PLAIN_TEXT_REMEDY = "lines are read as plain text, one sentence each"
MAX_SIDE_CHARS = 80  # of a side of an example
MAX_UNKNOWN_RATIO = 4  # of the share of unknown words in held-out text to that in training text
MIN_LETTERS = 20  # that tell two scripts apart; fewer are not judged
MIN_WORDS = 2_000  # a text of so many has at least one of the usual letters of its language
MAX_OTHER_CHINESE, MAX_OTHER_LETTERS = 0.2, 0.5  # shares of letters of another script; the latter has names and terms

_CHINESE_CODECS = {"hans": "gb2312", "hant": "big5"}
_SCRIPTS = """
latn:LATIN cyrl:CYRILLIC arab:ARABIC hebr:HEBREW grek:GREEK armn:ARMENIAN deva:DEVANAGARI guru:GURMUKHI beng:BENGALI
mong:MONGOLIAN tfng:TIFINAGH
"""
_SCRIPT_NAMES = dict(each.split(":") for each in _SCRIPTS.split())  # ISO 15924 → first word of its letters in Unicode
_LETTERS = """
ca:àéèíò cs:áéíěřščž da:æøå de:äöüß el:άέήίόύώ es:áéíóúñ et:äõöü fi:äö fr:àâçéèê hr:čćšžđ hu:áéíóöőüű is:áðíóöþ
it:àèéìòù lt:ąčėįšųž lv:āčēīņšū nb:æøå nn:æøå no:æøå pl:ąćęłńóśżź pt:áãâçéíó ro:ăâîșşțţ sk:áčéíľšťýž sl:čšž sq:çë sv:åäö
tr:çğıöşü vi:ăâđêôơư
"""
_USUAL_LETTERS = dict(each.split(":") for each in _LETTERS.split())

_MARK = re.compile(r"(?:[.,。、，]|@-@|-LRB-)(?:\s|$)")  # the last two are a hyphen and a bracket of tokenisers
_SPACED_MARK = re.compile(rf"\s{_MARK.pattern}")
_REPEATED_CHARACTERS = re.compile(r"(\w{1,4}?)\1{9}")  # in a text without spaces
_SYMBOL = re.compile("[\u2020-\u2023\u2190-\u2bff\U0001f000-\U0001faff]")  # † • → ■ ♪ and emoji
_NUMBER = re.compile(r"\d+(?:[.,\s'’]\d{3}(?!\d))*")  # 1200 and 1,200
_LOST_LETTER = re.compile(r"\ufffd|\?[a-z](?!\w*=)|\?{3}")  # of wei?e M�nner, but not of a?q=1
_ESCAPE = re.compile(  # of JSON and programs; of quoted-printable; of URLs, but not in them; of HTML, tokenised or not
    r"\\(?:[uUx]\{?[0-9A-Fa-f]{2,8}|[0-3][0-7]{2}|[\"'/]|[nrt](?![a-z]))|<U\+[0-9A-F]{4}"
    r"|=(?:[C-F][0-9A-F]=[89AB][0-9A-F]|[89A-F][0-9A-F](?=[a-z]))"
    r"|(?<!\S)[^\s/:]*%(?:20\w|u[0-9A-F]{4}|[C-Fc-f][0-9A-Fa-f]%[89ABab]|[89A-F][0-9A-F][a-z])"
    rf"|{ENTITY.pattern}|& ?(?:# ?\d{{1,5}}|[a-z]{{2,5}}) ?;"
)
_MAY_BE_QUOTED = re.compile(r"[,;\"“„«「]|^\s*'")  # in CSV, all lines or these
_QUOTED = re.compile(r"(?:\"(?:[^\"]|\"\")*\"|'.*'|[“„][^“”„]*[”“]|«[^«»]*»|「[^「」]*」)[,;]?\s?")

log = logging.getLogger(__name__)


class _Finding(NamedTuple):
    """What looks wrong about a text."""

    name: str
    remedy: str
    evidence: str
    """an example, or a count"""


TextCheck = Callable[[Sequence[str], str], _Finding | None]
"""Judges the first lines of a text, given its language"""


@dataclass(frozen=True)
class _DamagedText:
    """A `TextCheck` that judges a text by the share of damaged lines."""

    name: str
    is_damaged: Callable[[str], object]
    """of a line"""
    max_share: float
    """of such lines; for more, a warning"""
    remedy: str
    is_relevant: Callable[[str], object] = bool
    """of a line; other lines do not count"""

    def __call__(self, lines: Sequence[str], language: str) -> _Finding | None:
        relevant = [*filter(self.is_relevant, lines)]
        examples = [*filter(self.is_damaged, relevant)]
        if len(examples) <= max(self.max_share * len(relevant), MIN_DAMAGED_SHARE * len(lines)):
            return None
        return _Finding(self.name, self.remedy, f"'{shorten(min(examples, key=len), MAX_SIDE_CHARS)}'")


def _other_format(lines: Sequence[str], language: str) -> _Finding | None:
    found = Counter(detect_format(line.encode()) or ("markup" if MARKUP.search(line) else None) for line in lines)
    name, n = next(iter(found.most_common(1)), (None, 0))
    if name in (None, SUBWORD_TEXT) or n < SUSPICIOUS_SHARE * len(lines):
        return None
    return _Finding(f"text that looks like {name}", PLAIN_TEXT_REMEDY, f"{n:,} of the first {len(lines):,} lines")


def other_script(lines: Sequence[str], language: str) -> _Finding | None:
    """A `TextCheck` for text in another script than its language names.

    Chinese characters tell the scripts apart if only one of GB 2312 (simplified) and Big5 (traditional) has them.
    """
    script = script_and_region(language.lower().replace("_", "-")).get("script", "")
    letters = Counter(filter(str.isalpha, chain.from_iterable(lines)))
    if script in _CHINESE_CODECS:
        known = {each: [each.encode(codec, "ignore") != b"" for codec in _CHINESE_CODECS.values()] for each in letters}
        is_own = {each: found[script == "hant"] for each, found in known.items() if each >= "一" and sum(found) == 1}
    elif script in _SCRIPT_NAMES:
        is_own = {each: unicodedata.name(each, "").startswith(_SCRIPT_NAMES[script]) for each in letters}
    else:
        return None
    n_all = sum(letters[each] for each in is_own)
    others = Counter({each: letters[each] for each, own in is_own.items() if not own})
    max_share = MAX_OTHER_CHINESE if script in _CHINESE_CODECS else MAX_OTHER_LETTERS
    if n_all < MIN_LETTERS or others.total() <= max_share * n_all:
        return None
    examples, remedy = others.most_common(3), "convert it, or name the language that it is in"
    evidence = f"{others.total() / n_all:.0%} of the letters, such as {' '.join(each for each, _ in examples)}"
    return _Finding(f"text in another script than {language}", remedy, evidence)


def lost_letters(lines: Sequence[str], language: str) -> _Finding | None:
    """A `TextCheck` for text of at least MIN_WORDS words without the usual letters of its language."""
    usual = _USUAL_LETTERS.get(language_code(language) or "")
    if usual is None or script_and_region(language.lower().replace("_", "-")).get("script", "latn") != "latn":
        return None
    n_words = sum(len(line.split()) for line in lines)
    n_usual = sum(map({*usual}.__contains__, nfc("\n".join(lines)).lower()))
    if n_words < MIN_WORDS or n_usual >= n_words / MIN_WORDS:
        return None
    evidence = f"{n_usual or 'none'} of the letters {' '.join(usual)} in {n_words:,} words"
    remedy = f"correct the sides or the language, or {ORIGINAL_FILE}"
    return _Finding(f"text without the usual letters of {language}", remedy, evidence)


TEXT_CHECKS: tuple[TextCheck, ...] = (
    _other_format,
    other_script,
    lost_letters,
    _DamagedText(SUBWORD_TEXT, lambda line: detect_format(line.encode()) == SUBWORD_TEXT, 0.1, UNCUT),
    _DamagedText("text that is cut into words", _SPACED_MARK.search, 0.5, UNCUT, _MARK.search),
    _DamagedText(
        WRONG_LETTERS, lambda line: _LOST_LETTER.search(line) or mend_encoding(line) != line, 0.1, ORIGINAL_FILE
    ),
    _DamagedText(WRONG_LETTERS, _ESCAPE.search, MIN_DAMAGED_SHARE, f"decode what is escaped, or {ORIGINAL_FILE}"),
    _DamagedText(
        "text in quotation marks", _QUOTED.fullmatch, 0.9, "take them off, unless they are meant", _MAY_BE_QUOTED.search
    ),
)


def warn_of_suspicious_lines(texts: Mapping[str, tuple[Sequence[str], str]], *, is_cut: bool = False) -> None:
    """Apply each of TEXT_CHECKS to the first lines of each text, and warn once for each check that finds anything.

    texts: name, such as "train, source" → lines and their language. is_cut: the text may be cut into words.
    """
    places: dict[tuple[str, str], list[str]] = {}  # (name, remedy) → where it is
    for where, (lines, language) in texts.items():
        for check in TEXT_CHECKS:
            if (found := check(lines[:LINES_CHECKED], language)) and not (is_cut and found.remedy == UNCUT):
                places.setdefault((found.name, found.remedy), []).append(f"{where}: {found.evidence}")
    for (name, remedy), found_in in places.items():
        log.warning("%s (%s): %s", name, "; ".join(found_in), remedy)


def warn_of_suspicious_text(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Warn if text of a dataset is not plain text, is equal on both sides, has its sides swapped or is unlike train."""
    texts = {
        (split, side): lines
        for split in manifest["splits"]
        for side, lines in zip(SIDES, zip(*islice(read_pairs(folder, split), LINES_CHECKED), strict=True), strict=True)
    }
    warn_of_suspicious_lines(
        {f"{split}, {side}": (lines, manifest["settings"][side]) for (split, side), lines in texts.items()},
        is_cut=manifest["settings"].get("tokens") == "spaces",
    )
    given = "pairs" if manifest["settings"]["corpus"] == "pairs" else "data.files"
    same = [split for split in manifest["splits"] if _are_same(texts[split, "source"], texts[split, "target"])]
    if same:
        log.warning("source and target are the same text: %s; correct %s", ", ".join(same), given)
    train = [trigrams(texts["train", side]) for side in SIDES]
    held_out = [split for split in manifest["splits"] if split != "train"]
    swapped = [split for split in held_out if [most_similar(texts[split, side], train) for side in SIDES] == [1, 0]]
    if swapped:
        log.warning("source and target seem swapped, compared with train: %s; correct %s", ", ".join(swapped), given)
    for split in held_out:
        warn_if_not_nfc((target for _, target in read_pairs(folder, split)), split)
    for side in SIDES:
        rates = {split: counts[side]["unknown_rate"] for split, counts in manifest["splits"].items()}
        for split in held_out if not swapped else ():
            if rates[split] > max(0.05, MAX_UNKNOWN_RATIO * rates["train"]):
                what = "%s, %s: %.0f %% of the words are unknown, in train %.1f %%; is this the same kind of text?"
                log.warning(what, split, side, 100 * rates[split], 100 * rates["train"])
    _warn_of_odd_pairs(islice(read_pairs(folder, "train"), PAIRS_CHECKED))


def most_similar(lines: Sequence[str], texts: Sequence[Set[str]]) -> int:
    """Returns the index of the text that shares the largest part of its trigrams with the beginning of these lines.

    texts: the trigrams of each.
    """
    shape = trigrams(lines[:LINES_CHECKED])
    return max(range(len(texts)), key=lambda number: len(shape & texts[number]) / len(texts[number]))


def warn_of_scored_text(
    text: ParallelText, languages: tuple[str, str], outputs: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Warn if text to score translations on, or one of these outputs (name → lines), is not plain text, or all alike.

    languages: of the sources and of the references.
    """
    names = (f"{text.name}, reference {number}".removesuffix(" 1") for number in count(1))
    targets = dict(zip(names, text.references, strict=False)) | dict(outputs or {})
    sides = {f"{text.name}, source": (text.sources, languages[0])}
    warn_of_suspicious_lines(sides | {name: (lines, languages[1]) for name, lines in targets.items()})
    if same := [name for name, lines in targets.items() if _are_same(text.sources, lines)]:
        log.warning("%s: the same text as the source; is this the right one?", "; ".join(same))


def _are_same(sources: Sequence[str], targets: Sequence[str]) -> bool:
    pairs = [*islice(filter(any, zip(sources, targets, strict=False)), LINES_CHECKED)]  # of blank lines none
    return sum(starmap(eq, pairs)) > SUSPICIOUS_SHARE * len(pairs)


def _warn_of_odd_pairs(pairs: PairIterator) -> None:
    """Warn of each oddity that many training pairs have, with an example, and of targets that many sources have."""
    first_targets = dict[int, int]()  # by source, as hashes
    n_sources, repeated = Counter[int](), dict[int, str]()  # by target, as a hash; the latter of many sources
    counts, examples, n_pairs = Counter[str](), dict[str, str](), 0  # the shortest example
    for source, target in pairs:
        n_pairs += 1
        key, n_different = hash(target), len(first_targets)
        first_target = first_targets.setdefault(hash(source), key)
        n_sources[key] += len(first_targets) - n_different
        if n_sources[key] > MAX_SOURCES:
            repeated[key] = target
        numbers = [
            {int("".join(filter(str.isdecimal, each))) for each in _NUMBER.findall(side)} for side in (source, target)
        ]
        for oddity, is_found in (
            ("a source that occurs before with another target", first_target != key),
            ("a word many times in a row", _has_repetition(source) or _has_repetition(target)),
            ("a symbol such as ♪ on one side only", bool(_SYMBOL.search(source)) != bool(_SYMBOL.search(target))),
            ("different numbers on both sides", all(map(set.difference, numbers, numbers[::-1]))),
        ):
            if is_found:
                counts[oddity] += 1
                pair = f"{source} | {target}"
                examples[oddity] = min(pair, examples.get(oddity, pair), key=len)
    for oddity, n in counts.items():
        if n > MAX_ODD_SHARE * n_pairs:
            what = "%.0f %% of the training pairs have %s (such as %s); leave them out, unless they are meant"
            log.warning(what, 100 * n / n_pairs, oddity, shorten(examples[oddity], 2 * MAX_SIDE_CHARS))
    if many := [key for key in repeated if n_sources[key] >= MAX_TARGET_SHARE * n_pairs]:
        found = [f"{shorten(repeated[key], MAX_SIDE_CHARS)!r} ({n_sources[key]:,} sources)" for key in many]
        log.warning("one target for many training sources: %s; leave them out, unless they are meant", first_few(found))


def _has_repetition(line: str) -> bool:
    words = line.split()
    if len(words) - len({*words}) >= MAX_REPETITIONS:  # saves time: few lines pass
        return any(sum(1 for _ in same) > MAX_REPETITIONS for _, same in groupby(words))
    return any(_REPEATED_CHARACTERS.search(word) for word in words if len(word) >= MIN_TEXT_WITHOUT_SPACES)
