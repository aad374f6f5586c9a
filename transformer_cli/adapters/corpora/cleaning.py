"""The rules that leave pairs out of a training text. Knows no formats and no files.

A rule is a name in `data.clean`. Whatever it leaves out goes to `leave_out`, under that name. The rules stand here in
the order in which they are applied. The one owner of py3langid, beside the server's.
"""

import hashlib
import html
import importlib.util
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import partial
from importlib.metadata import version
from itertools import chain, islice
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.adapters.corpora.formats import LeaveOut
from transformer_cli.config.schema import DataConfig
from transformer_cli.text.lines import LocatedPair, has_letter
from transformer_cli.text.normalization import lower, nfc_stripped, primary_subtag

TOO_LONG = "too long"  # what is left out whatever `data.clean` says
RATIO_SAMPLE_PAIRS = 10_000  # pairs, by which the usual ratio of lengths is known
MAX_LENGTH_FACTOR = 4  # as long as its other side suggests: beyond that, and SLACK, a side is too long for the other
LENGTH_SLACK_CHARS = 20  # characters
MAX_OWN_LANGUAGE_PROB = {True: 0.01, False: 1e-5}
"""how likely a side's own language is at most, if the likeliest is that of the other side, or if it is a third one, for
which names and titles are often taken"""
LANGUAGE_SAMPLE_CHARS = 500  # characters of a side, by which its language is known
PAIRS_PER_LOOKUP = 10_000  # pairs that are compared with those before at once
THRESHOLDS = [
    RATIO_SAMPLE_PAIRS,
    MAX_LENGTH_FACTOR,
    LENGTH_SLACK_CHARS,
    *MAX_OWN_LANGUAGE_PROB.values(),
    LANGUAGE_SAMPLE_CHARS,
]

_ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}\d{0,2}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|<!--|\{\\|\{\{|\}\}|\[\[|\]\]|" + _ENTITY.pattern)
_TAG_OR_PLACEHOLDER = re.compile(
    r"</?[A-Za-z][^<>]*>|\{\{\s{0,9}[\w.-]+\s{0,9}\}\}"
)  # an element, a placeholder: <b>, {{name}}
_NON_WORD = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"\d+")

log = logging.getLogger(__name__)


RULES: dict[str, Callable[[str, str], bool]] = {
    "empty": lambda source, target: not source.strip() or not target.strip(),
    "copies": lambda source, target: nfc_stripped(source).casefold() == nfc_stripped(target).casefold() != "",
    "markup": lambda source, target: _has_markup(source, target),
}


def clean_pairs(
    pairs: Iterator[LocatedPair],
    data: DataConfig,
    leave_out: LeaveOut,
    held_out: Collection[int],
    counts: Counter[str],
) -> Iterator[LocatedPair]:
    """Yield the pairs that no rule of `data.clean` leaves out, and that are not too long.

    counts: receives "entities_decoded", the number of pairs in which the rule `markup` decoded entities such as &apos;.
    held_out: the `sentence_hash` of each source sentence in the splits that have their own files.
    """
    wanted = {TOO_LONG, *data.clean, *(["empty"] if data.skip_empty else [])}
    if "markup" in wanted:
        pairs = _decode_entities(pairs, counts)
    rules = {**RULES, TOO_LONG: lambda source, target: max(len(source), len(target)) > data.max_chars}
    for rule in dict.fromkeys(("empty", TOO_LONG, *RULES)):
        if rule in wanted:
            pairs = apply_rule(rule, rules[rule], pairs, leave_out)
    if "length" in wanted:
        first = list(islice(pairs, RATIO_SAMPLE_PAIRS))
        ratio = median([len(target) / len(source) for source, target, _ in first if source and target] or [1.0])
        pairs = apply_rule("length", partial(_has_unlikely_length, ratio), chain(first, pairs), leave_out)
    if "duplicates" in wanted:
        pairs = _drop_duplicates(pairs, leave_out)
    if "held_out" in wanted and held_out:
        pairs = apply_rule("held_out", lambda one, _: sentence_hash(one, data.source) in held_out, pairs, leave_out)
    if "language" in wanted and (is_wrong := _language_rule(data)):
        pairs = apply_rule("language", is_wrong, pairs, leave_out)
    return pairs


def apply_rule(
    rule: str, applies: Callable[[str, str], bool], pairs: Iterator[LocatedPair], leave_out: LeaveOut
) -> Iterator[LocatedPair]:
    """Yield the pairs that a rule does not apply to."""
    for source, target, place in pairs:
        if applies(source, target):
            leave_out(rule, source, target, place)
        else:
            yield source, target, place


def _decode_entities(pairs: Iterator[LocatedPair], counts: Counter[str]) -> Iterator[LocatedPair]:
    for source, target, place in pairs:
        if _ENTITY.search(source) or _ENTITY.search(target):
            sides = (_ENTITY.sub(lambda found: html.unescape(found[0]), side) for side in (source, target))
            source, target = (side.replace("\n", " ") for side in sides)  # a pair is one line
            counts["entities_decoded"] += 1
        yield source, target, place


def _has_markup(source: str, target: str) -> bool:
    """The rule on markup. Elements and placeholders that both sides have are text, which is translated with them."""
    spans = [sorted(_TAG_OR_PLACEHOLDER.findall(side)) for side in (source, target)]
    if spans[0] == spans[1]:
        source, target = (_TAG_OR_PLACEHOLDER.sub(" ", side) for side in (source, target))
    return any(MARKUP.search(side) or (side.strip() and not has_letter(side)) for side in (source, target))


def rule_parameters(data: DataConfig) -> dict[str, Any]:
    """Returns what decides on what is left out, beside the settings; {} if nothing is."""
    if not data.clean and not data.held_out.valid and not data.held_out.test:
        return {}
    return {"thresholds": THRESHOLDS, "languages": "language" in data.clean and _py3langid_version()}


def sentence_hash(sentence: str, language: str) -> int:
    """Returns 64 bits of a sentence, the same for all that reads alike but for case, numbers, marks and spaces."""
    text = _NON_WORD.sub("", lower(nfc_stripped(sentence), language).casefold())
    return _hash(_NUMBER.sub("0", text) or sentence)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _has_unlikely_length(ratio: float, source: str, target: str) -> bool:
    """The rule on lengths. ratio: how many characters of the target there usually are for one of the source.

    With a ratio of 1.2, a source of 50 characters suggests 60, so its target may have 260. A target of 60 may have a
    source of 220, which suggests 264.
    """
    expected, found = len(source) * ratio, len(target)
    return (
        found > MAX_LENGTH_FACTOR * expected + LENGTH_SLACK_CHARS
        or expected > MAX_LENGTH_FACTOR * found + LENGTH_SLACK_CHARS * ratio
    )


class SeenHashes:
    """Which numbers have been seen. Takes 8 bytes for each, and 16 while two of its sorted arrays become one."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []  # each at least twice as long as the next

    def add(self, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Returns which of these numbers are there for the first time, also among themselves."""
        is_first = np.zeros(len(numbers), np.bool_)
        is_first[np.unique(numbers, return_index=True)[1]] = True
        for run in self._runs:
            is_first &= run[np.minimum(np.searchsorted(run, numbers), len(run) - 1)] != numbers
        self._runs += [np.sort(numbers[is_first])] if is_first.any() else []
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._runs[-2:] = [np.concatenate(self._runs[-2:])]
            self._runs[-1].sort()  # in place
        return is_first


def _drop_duplicates(pairs: Iterator[LocatedPair], leave_out: LeaveOut) -> Iterator[LocatedPair]:
    seen = SeenHashes()
    while batch := list(islice(pairs, PAIRS_PER_LOOKUP)):
        found = (_hash("\t".join(" ".join(nfc_stripped(side).split()) for side in pair[:2])) for pair in batch)
        for pair, is_first in zip(batch, seen.add(np.fromiter(found, np.uint64, len(batch))), strict=True):
            if is_first:
                yield pair
            else:
                leave_out("duplicates", *pair)


def _py3langid_version() -> str | None:
    """Returns the version of py3langid, or None if it is not installed."""
    return version("py3langid") if importlib.util.find_spec("py3langid") else None


def _language_rule(data: DataConfig) -> Callable[[str, str], bool] | None:
    """Returns the rule on languages; None, with a notice, if it cannot be applied."""
    if _py3langid_version() is None:
        log.info(
            "languages are not checked: py3langid is not installed; `pip install 'transformer-cli[clean]'` adds it"
        )
        return None
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    known = {label for label in identifier.labels if len(label) == 2}  # no dialects, which names are taken for
    identifier.set_languages(known)
    source, target = (
        {"nb": "no"}.get(code := primary_subtag(each), code) for each in (data.source, data.output_language)
    )
    if unknown := [code for code in (source, target) if code not in known]:
        log.info("text in %s is not checked for its language: py3langid does not know it", " and ".join(unknown))

    def is_wrong(side: str, own: str, other: str) -> bool:
        found = identifier.classify(side[:LANGUAGE_SAMPLE_CHARS])[0] if own in known else own
        return (
            found != own
            and dict(identifier.rank(side[:LANGUAGE_SAMPLE_CHARS]))[own] <= MAX_OWN_LANGUAGE_PROB[found == other]
        )

    return lambda one, other: is_wrong(one, source, target) or is_wrong(other, target, source)
