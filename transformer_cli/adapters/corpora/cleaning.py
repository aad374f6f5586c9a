"""The cleaning rules of `data.clean`, in the order in which they are applied. Knows no formats and no files.

The only importer of ftfy, and of py3langid besides the server.
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
from ftfy import fix_encoding
from numpy.typing import NDArray

from transformer_cli.adapters.corpora.formats import LeaveOut, apply_rule
from transformer_cli.adapters.corpora.held_out import MAX_LINKED_PAIRS
from transformer_cli.config.schema import DataConfig
from transformer_cli.text.languages import TARGET_TOKEN, short_code
from transformer_cli.text.lines import LocatedPair, has_letter
from transformer_cli.text.normalization import lower, nfc_stripped, primary_subtag

TOO_LONG = "too long"  # a rule that always applies
RATIO_SAMPLE_PAIRS = 10_000  # from which the usual length ratio, a median, is computed
MAX_LENGTH_FACTOR, SLACK_CHARS = 4, 20  # see `_has_unlikely_length`
MAX_PROB_IN_OTHER, MAX_PROB_IN_THIRD = 0.01, 1e-5
"""A side is in the wrong language if another one is detected, and the side's own is at most this probable: if the other
side's language is detected, or a third one, as often happens with names and titles"""
LANGUAGE_SAMPLE_CHARS = 500  # of a side, for language detection
PAIRS_PER_LOOKUP = 10_000  # searched for duplicates at a time
THRESHOLDS = [
    *(RATIO_SAMPLE_PAIRS, MAX_LENGTH_FACTOR, SLACK_CHARS, MAX_PROB_IN_OTHER, MAX_PROB_IN_THIRD, LANGUAGE_SAMPLE_CHARS),
    MAX_LINKED_PAIRS,
]

ENTITY = re.compile(r"&(?:[A-Za-z]{2,8}\d{0,2}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|<!--|\{\\|\{\{|\}\}|\[\[|\]\]|" + ENTITY.pattern)
_TAG_OR_PLACEHOLDER = re.compile(r"</?[A-Za-z][^<>]*>|\{\{\s{0,9}[\w.-]+\s{0,9}\}\}")  # <b>, {{name}}
_MAY_BE_MOJIBAKE = re.compile(r"[\x80-\x9f]|[^\x00-\x7f]{2}|[À-ß]\s")  # hardly any right text in Latin letters has it
_NON_WORD = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"\d+")

log = logging.getLogger(__name__)


RULES: dict[str, Callable[[str, str], bool]] = {
    "empty": lambda source, target: not source.strip() or not target.strip(),
    "encoding": lambda source, target: "\ufffd" in source or "\ufffd" in target,
    "copies": lambda source, target: nfc_stripped(source).casefold() == nfc_stripped(target).casefold() != "",
    "markup": lambda source, target: _has_markup(source, target),
}


def clean_pairs(
    pairs: Iterator[LocatedPair],
    data: DataConfig,
    leave_out: LeaveOut,
    held_out: tuple[Collection[int], Collection[int]],
    counts: Counter[str],
) -> Iterator[LocatedPair]:
    """Yield the pairs that pass the rules of `data.clean` and are not too long; the others go to `leave_out`.

    counts: receives "swapped" (see `_language_rule`), "encoding_mended", the number of pairs in which the rule
    `encoding` mended characters such as Ã¤, and "entities_decoded", the number of those in which the rule `markup`
    decoded entities such as &apos;.
    held_out: the `pair_hashes` of each source and of each target in the splits that have their own files.
    """
    wanted = {TOO_LONG, *data.clean, *(["empty"] if data.skip_empty else [])}
    if "encoding" in wanted:
        pairs = _edit_sides(mend_encoding, "encoding_mended", pairs, counts)
    if "markup" in wanted:
        pairs = _edit_sides(_decode_entities, "entities_decoded", pairs, counts)
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
    if "held_out" in wanted and any(held_out):
        pairs = apply_rule("held_out", partial(_is_held_out, held_out, data), pairs, leave_out)
    if "language" in wanted and (is_wrong := _language_rule(data, counts)):
        pairs = apply_rule("language", is_wrong, pairs, leave_out)
    return pairs


def mend_encoding(text: str) -> str:
    """Returns a text whose UTF-8 was read as another encoding as it was meant: "weiÃŸe MÃ¤nner" → "weiße Männer"."""
    return fix_encoding(text) if _MAY_BE_MOJIBAKE.search(text) else text


def _decode_entities(text: str) -> str:
    for _ in range(2 * ("&" in text)):  # &amp;quot; is encoded twice
        text = ENTITY.sub(lambda found: html.unescape(found[0]), text)
    return text.replace("\n", " ")  # a pair is one line


def _edit_sides(
    edit: Callable[[str], str], name: str, pairs: Iterator[LocatedPair], counts: Counter[str]
) -> Iterator[LocatedPair]:
    """Yield pairs with both sides edited. counts: receives `name`, the number of pairs that this changes."""
    for source, target, location in pairs:
        edited = edit(source), edit(target)
        if edited != (source, target):
            counts[name] += 1
        yield *edited, location


def _has_markup(source: str, target: str) -> bool:
    """Whether a pair has markup, or a side without letters. Tags and placeholders that both sides share are allowed."""
    spans = [sorted(_TAG_OR_PLACEHOLDER.findall(side)) for side in (source, target)]
    if spans[0] == spans[1]:
        source, target = (_TAG_OR_PLACEHOLDER.sub(" ", side) for side in (source, target))
    return any(MARKUP.search(side) or (side.strip() and not has_letter(side)) for side in (source, target))


def rule_parameters(data: DataConfig) -> dict[str, Any]:
    """Returns the thresholds and the library versions on which the rules depend; {} if there are no rules."""
    if not data.clean and not data.held_out.valid and not data.held_out.test:
        return {}
    return {
        "thresholds": THRESHOLDS,
        "encoding": "encoding" in data.clean and version("ftfy"),
        "languages": "language" in data.clean and _py3langid_version(),
    }


def sentence_hash(sentence: str, language: str) -> int:
    """Returns a 64-bit hash, equal for sentences that differ only in case, digits, punctuation and spaces."""
    text = _NON_WORD.sub("", lower(nfc_stripped(sentence), language).casefold())
    return _hash(_NUMBER.sub("0", text) or sentence)


def pair_hashes(source: str, target: str, data: DataConfig) -> tuple[int, int]:
    """Returns the `sentence_hash` of both sides, in the dataset's direction; see `_in_direction`."""
    source, target = _in_direction(source, target, data)
    return sentence_hash(source, data.source), sentence_hash(target, data.output_language)


def _in_direction(source: str, target: str, data: DataConfig) -> tuple[str, str]:
    """Returns a pair without its target token, and the other way round if the token names the source language.

    With the languages de→en, ("<2en> Ein Hund", "A dog") and ("<2de> A dog", "Ein Hund") give ("Ein Hund", "A dog").
    """
    if not (token := TARGET_TOKEN.match(source)):
        return source, target
    sides = source[token.end() :].lstrip(), target
    return sides[::-1] if short_code(token[1] or token[2]) == short_code(data.source) else sides


def _is_held_out(held_out: tuple[Collection[int], Collection[int]], data: DataConfig, source: str, target: str) -> bool:
    return any(each in hashes for each, hashes in zip(pair_hashes(source, target, data), held_out, strict=True))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _has_unlikely_length(ratio: float, source: str, target: str) -> bool:
    """Whether one side is much too long for the other. ratio: usual target characters per source character.

    With a ratio of 1.2, a source of 50 characters may have a target of up to 4 · 1.2 · 50 + 20 = 260, and a target of
    60 a source of up to 4 · 60 / 1.2 + 20 = 220.
    """
    expected, found, factor, slack = len(source) * ratio, len(target), MAX_LENGTH_FACTOR, SLACK_CHARS
    return found > factor * expected + slack or expected > factor * found + slack * ratio


class SeenHashes:
    """A set of hashes. Takes 8 bytes per hash, and 16 while two of its sorted arrays are merged."""

    def __init__(self) -> None:
        self._arrays: list[NDArray[np.uint64]] = []  # sorted, each at least twice as long as the next

    def add(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Add hashes. Returns which of them are new; of equal ones, only the first is."""
        is_first = np.zeros(len(hashes), np.bool_)
        is_first[np.unique(hashes, return_index=True)[1]] = True
        for array in self._arrays:
            is_first &= array[np.minimum(np.searchsorted(array, hashes), len(array) - 1)] != hashes
        self._arrays += [np.sort(hashes[is_first])] if is_first.any() else []
        while len(self._arrays) > 1 and len(self._arrays[-2]) < 2 * len(self._arrays[-1]):
            self._arrays[-2:] = [np.concatenate(self._arrays[-2:])]
            self._arrays[-1].sort()  # in place
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


def _language_rule(data: DataConfig, counts: Counter[str]) -> Callable[[str, str], bool] | None:
    """Returns the rule on languages; logs why and returns None if it cannot be applied.

    counts: receives "swapped", the number of pairs that are right in the other direction.
    """
    if _py3langid_version() is None:
        log.info("languages are not checked without py3langid; install it with `pip install 'transformer-cli[clean]'`")
        return None
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    known = {label for label in identifier.labels if len(label) == 2}  # no dialects: names are mistaken for them
    identifier.set_languages(known)
    source, target = map(primary_subtag, (data.source, data.output_language))
    if unknown := [code for code in (source, target) if code not in known]:
        log.info("text in %s is not checked for its language: py3langid does not know it", " and ".join(unknown))

    def is_wrong(side: str, own: str, other: str) -> bool:
        sample = side[:LANGUAGE_SAMPLE_CHARS]
        found = identifier.classify(sample)[0] if own in known else own
        most = MAX_PROB_IN_OTHER if found == other else MAX_PROB_IN_THIRD
        return found != own and dict(identifier.rank(sample))[own] <= most

    def is_wrong_pair(one: str, other: str) -> bool:
        one, other = _in_direction(one, other, data)
        if not (is_wrong(one, source, target) or is_wrong(other, target, source)):
            return False
        counts["swapped"] += not (is_wrong(other, source, target) or is_wrong(one, target, source))
        return True

    return is_wrong_pair
