"""Glossaries: words and phrases with a fixed translation. Knows characters, but no tokens and no models."""

import logging
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from transformer_cli.errors import DataError
from transformer_cli.system.terminal import first_few, pluralize, shorten
from transformer_cli.text import alignment
from transformer_cli.text.alignment import Link, Span, TakenSpans, boundary_after, boundary_before, word_boundaries
from transformer_cli.text.lines import LocatedPair
from transformer_cli.text.normalization import is_word, nfc

log = logging.getLogger(__name__)

MAX_ENDING_CHARS = 3  # that an inflected form may add to the text before the *
_SENTENCE_START = re.compile(rf"(?:\A|[.!?…]\s{{1,3}})[{re.escape(alignment.OPENING_MARKS)}\"']{{0,3}}\Z")
_LOST_IN_CAPITALS = str.maketrans("άέήίόύώΐΰςı", "αεηιουωϊϋσi", "\u0307")
_NOT_SWISS = {"Maß", "Maße", "Maßen", "Buße", "Bußen", "Floß", "Floße", "Flöße", "Schoß", "Schoße", "Ruß"}
"""words that are others with ss"""
MAX_SHOWN_ENTRIES, MAX_ENTRY_CHARS = 3, 50  # in a warning
MAX_ENTRY_WORDS = 50  # signs included; limits the comparisons at each word of a text


@dataclass(frozen=True)
class Term:
    """A part of a text for which the glossary has a translation."""

    span: Span
    translations: tuple[str, ...]
    """alternatives, one of which must be written"""
    n_words: int = 1
    """number of words in the span"""


_Trie = dict[str, Any]
"""The entries that begin with the same words: next word → their trie, and LAST + last word → translations.

For inflected entries, the last word ends in *. Dicts alone, as a request may bring 40,000 words.
"""
LAST = "\0"  # no entry contains it


class Glossary:
    """Sources and their translations; see docs/translate.md."""

    def __init__(self, entries: Mapping[str, str], base: "Glossary | None" = None) -> None:
        """Raises DataError for an entry without a source, or with an empty translation among several.

        base: further entries, which those given here override.
        """
        self._base = base
        self._tries: dict[tuple[bool, bool], _Trie] = {}
        self._entries: list[tuple[list[str], bool, list[str]]] = []
        for source, target in entries.items():
            is_inflected, text = source.endswith("*"), nfc(source.removesuffix("*"))
            entry = f"glossary: {source!r} with {target!r}"
            if control := re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", source + target):
                raise DataError(f"{entry}: {control[0]!r} is not allowed in an entry")
            words = [text[start:end] for start, end in _word_spans(text)]
            targets = [each.strip() for each in target.split("|")] if target.strip() else []
            if not words or not all(targets):
                raise DataError(f"{entry}: an entry needs a source, and a translation on each side of |")
            if len(words) > MAX_ENTRY_WORDS:
                raise DataError(f"glossary: {source[:50]!r} has over {MAX_ENTRY_WORDS} words and signs; shorten it")
            self._entries.append((words, is_inflected, targets))
        self._has_sharp_s = any("ß" in word for words, _, _ in self._entries for word in words)

    def find(self, text: str, *, any_case: bool = False) -> list[Term]:
        """Returns the terms of a text, from left to right; of those that begin at the same word, the longest.

        any_case: whether to ignore case, since the text has lost its capitals.
        """
        is_swiss = "ß" not in text.lower()
        tries = [each for each in self._all_tries(any_case, is_swiss) if each]
        if not tries:
            return []
        spans, terms, first = _word_spans(text), list[Term](), 0
        words = [text[start:end] for start, end in spans]
        words = [_fold(each) if any_case else _in_capitals(each) if each.isupper() else nfc(each) for each in words]
        keys = [_leaf_keys(word) for word in words]
        while first < len(spans):
            matches = [_longest_match(root, first, words, keys) for root in tries]
            end, translations = max(matches, key=lambda each: each[0])  # of equally long ones, the first
            if end > first:
                span = spans[first][0], spans[end - 1][1]
                terms.append(Term(span, tuple(translations or [text[slice(*span)]]), end - first))
            first = max(end, first + 1)
        return terms

    def _all_tries(self, any_case: bool, is_swiss: bool) -> list[_Trie]:
        """Returns the tries for a text, made on first use, since one takes 50 times the memory of the entries.

        is_swiss: whether the text has no ß, so that its ss may stand for one.
        """
        kind = any_case, is_swiss and self._has_sharp_s
        if (own := self._tries.get(kind)) is None:
            own = {}
            for words, is_inflected, translations in self._entries:
                for form in _forms(words, *kind):
                    node = own
                    for word in form[:-1]:
                        node = node.setdefault(word, {})
                    # of entries with the same words, the first counts
                    node.setdefault(LAST + form[-1] + "*" * is_inflected, translations)
            self._tries[kind] = own
        return [own, *(self._base._all_tries(any_case, is_swiss) if self._base else ())]


def _forms(words: list[str], any_case: bool, is_swiss: bool) -> list[list[str]]:
    """Returns the forms of an entry in a text; see `Glossary._all_tries`."""
    if any_case:
        return [[_fold(each).replace("ß", "ss" if is_swiss else "ß") for each in words]]
    written = [each if each in _NOT_SWISS else each.replace("ß", "ss") for each in words] if is_swiss else words
    capitalised = [written[0][:1].upper() + written[0][1:], *written[1:]]
    return [written, capitalised, list(map(_in_capitals, words))]


def _longest_match(node: _Trie, first: int, words: Sequence[str], keys: Sequence[list[str]]) -> tuple[int, list[str]]:
    """Returns the end and the translations of the longest entry that begins at the word `first`, or else `first`."""
    end, translations = first, list[str]()
    for number in range(first, len(words)):
        if key := next((each for each in keys[number] if each in node), None):
            end, translations = number + 1, node[key]
        if not (child := node.get(words[number])):
            break
        node = child
    return end, translations


def _leaf_keys(word: str) -> list[str]:
    """Returns the keys of translations that match a word: the word, and its beginnings followed by *."""
    return [LAST + word, *(f"{LAST}{word[: len(word) - n]}*" for n in range(min(MAX_ENDING_CHARS + 1, len(word))))]


def merge_entries(terms: Iterable[LocatedPair]) -> dict[str, str]:
    """Returns source → translations separated by |, or "" to keep it. terms: one translation each. Raises DataError."""
    entries: dict[str, dict[str, None]] = {}  # source → ordered set of translations
    starred = list[str]()
    for source, target, place in terms:
        entries.setdefault(source, {})[target] = None
        if "*" in source[:-1]:
            starred.append(f"{place.unit} {place.number}: {shorten(source, MAX_ENTRY_CHARS)!r}")
        try:
            Glossary({source: "|".join({next(iter(entries[source])): None, target: None})})
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
    if starred:
        found = f"{pluralize(len(starred), 'entry', 'entries')} ({first_few(starred, MAX_SHOWN_ENTRIES)})"
        log.warning("%s: a * that is not at the end is taken literally in %s", place.source, found)
    return {source: "|".join(targets) for source, targets in entries.items()}


def spellings(translation: str) -> list[str]:
    """Returns a translation and, if it is in small letters, how it is written at the beginning of a sentence."""
    capital = translation[:1].upper() + translation[1:]
    return [translation, capital] if translation.islower() else [translation]


def term_spans(terms: Sequence[Term], text: str) -> list[Span | None]:
    """Returns where each term's translation is in a text, in whole words; None: not found. No two spans overlap."""
    if not terms:  # most sentences
        return []
    lower = text.lower()
    searched, fold = (lower, str.lower) if len(lower) == len(text) else (text, str)
    boundaries = frozenset(word_boundaries(text))

    def occurrences(word: str) -> Iterator[Span]:
        start = searched.find(word)
        while start >= 0:
            if start in boundaries and start + len(word) in boundaries:
                yield start, start + len(word)
            start = searched.find(word, start + 1)

    taken = TakenSpans(text)
    searches: dict[str, Iterator[Span]] = {}  # which later terms continue: taken spans stay taken
    found: list[Span | None] = []
    for term in terms:
        words = map(fold, term.translations)
        spans = (span for each in words for span in searches.setdefault(each, occurrences(each)) if taken.is_free(span))
        found.append(next(map(taken.take, spans), None))
    return found


def respell_terms(text: str, terms: Sequence[Term], spans: Sequence[Span | None]) -> str:
    """Returns a text with its terms in the case of the glossary: Park, a name, not park. spans: from `term_spans`."""
    for term, span in zip(terms, spans, strict=True):
        written = text[slice(*span)] if span else ""
        if span and not any(written in spellings(each) for each in term.translations):
            respelled = next(each for each in term.translations if each.lower() == written.lower())
            text = text[: span[0]] + respelled + text[span[1] :]
    return text


def replace_linked_words(
    text: str, terms: Sequence[Term], links: Sequence[Link], protected: Sequence[Span] = ()
) -> tuple[str, list[Term], bool]:
    """Replace the words of a translation that are linked to terms.

    Returns also the terms without linked words, and whether the words of a term are apart. terms: from left to right.
    If more words are linked than the term has, the last ones of the longest run are replaced: an article may be linked
    to a noun, too. protected: spans that are not replaced.
    """
    boundaries, taken = word_boundaries(text), TakenSpans(text, protected)
    replacements: dict[Span, str] = {}
    not_linked, is_spread = list[Term](), False
    for term, linked in zip(terms, linked_spans(terms, links), strict=True):
        around = {(boundary_before(boundaries, start), boundary_after(boundaries, end)) for start, end in linked}
        pieces = (boundaries[bisect_left(boundaries, one) : bisect_right(boundaries, last)] for one, last in around)
        words = {word for piece in pieces for word in pairwise(piece) if is_word(text[word[0]])}  # without signs
        runs: list[list[Span]] = []  # of neighbouring words
        for word in sorted(filter(taken.is_free, words)):
            if runs and word[0] - runs[-1][-1][1] <= 1:
                runs[-1].append(word)
            else:
                runs.append([word])
        is_spread |= len(runs) > 1
        if runs:
            run = max(reversed(runs), key=len)[-term.n_words :]
            replacements[taken.take((run[0][0], run[-1][1]))] = term.translations[0]
        else:
            not_linked.append(term)
    parts, last = list[str](), 0
    for (start, end), translation in sorted(replacements.items()):
        parts += [text[last:start], translation]
        last = end + (text[end : end + 1] != "" and text[end : end + 1] == alignment.final_mark(translation))
    return "".join([*parts, text[last:]]), not_linked, is_spread


def capitalise_sentence_starts(text: str, terms: Sequence[Term]) -> str:
    """Returns a text in which terms in small letters have a capital at the beginning of a sentence."""
    characters = list(text)
    for term, span in zip(terms, term_spans(terms, text), strict=True):
        start = span[0] if span and any(map(str.islower, term.translations)) else None
        if start is not None and _SENTENCE_START.search(text, max(0, start - 9), start):
            characters[start] = text[start].upper()
    return "".join(characters)


def linked_spans(terms: Sequence[Term], links: Sequence[Link]) -> list[list[Span]]:
    """Returns the spans in a translation that are linked to each term. terms: from left to right."""
    starts, ends = [each.span[0] for each in terms], [each.span[1] for each in terms]
    found: list[list[Span]] = [[] for _ in terms]
    for (start, end), other in links:
        for number in range(bisect_right(ends, start), bisect_left(starts, end)):
            found[number].append(other)
    return found


def _word_spans(text: str) -> list[Span]:
    """Returns the spans of words and signs."""
    return [span for span in pairwise(word_boundaries(text)) if not text[span[0]].isspace()]


def _fold(word: str) -> str:
    """Returns a word in lower case, without what differs in capitals: accents in Greek, and the dot of i in Turkish."""
    return nfc(word).lower().translate(_LOST_IN_CAPITALS)


def _in_capitals(word: str) -> str:
    return _fold(word).upper()
