"""Glossaries: which words and phrases have a fixed translation. Knows characters, but no tokens and no models."""

import logging
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from transformer_cli.errors import DataError
from transformer_cli.text.alignment import (
    OPENING_MARKS,
    Link,
    Span,
    TakenSpans,
    boundary_after,
    boundary_before,
    final_mark,
    word_boundaries,
)
from transformer_cli.text.lines import LocatedPair
from transformer_cli.text.normalization import is_word, nfc

log = logging.getLogger(__name__)

MAX_ENDING_CHARS = 3  # letters at most that an inflected form has more than what stands before the *
_SENTENCE_START = re.compile(rf"(?:\A|[.!?…]\s{{1,3}})[{re.escape(OPENING_MARKS)}\"']{{0,3}}\Z")
MAX_ENTRY_WORDS = 50  # of an entry, signs included: as many are compared at each word of a text, at most


@dataclass(frozen=True)
class Term:
    """What is to be written for a part of a text."""

    span: Span
    """where that stands in the text"""
    translations: tuple[str, ...]
    """of which any would do"""
    n_words: int = 1
    """how many words the part has"""


@dataclass(slots=True)
class _TrieNode:
    """Where some words lead, as the beginning of entries."""

    children: "dict[str, _TrieNode]" = field(default_factory=dict)
    leaves: dict[str, list[str]] = field(default_factory=dict)
    """the translations of the entries that end with one word more; of inflected ones, with a * behind it"""


class Glossary:
    """Sources and their translations; see docs/translate.md."""

    def __init__(self, entries: Mapping[str, str], base: "Glossary | None" = None) -> None:
        """Raises DataError for an entry without a source, or with an empty one among its translations.

        base: has further entries; of equal ones, those that are given here count.
        """
        self._base = base
        self._entries: list[tuple[list[str], bool, list[str]]] = []
        for source, target in entries.items():
            is_inflected, text = source.endswith("*"), nfc(source.removesuffix("*"))
            if control := re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", source + target):
                raise DataError(f"glossary: {source!r} with {target!r}: {control[0]!r} cannot stand in an entry")
            words = [text[start:end] for start, end in _word_spans(text)]
            targets = [each.strip() for each in target.split("|")] if target.strip() else []
            if not words or not all(targets):
                raise DataError(
                    f"glossary: {source!r} with {target!r}: an entry has a source, and | between translations"
                )
            if len(words) > MAX_ENTRY_WORDS:
                raise DataError(
                    f"glossary: {source[:50]!r} has more than {MAX_ENTRY_WORDS} words and signs; shorten it"
                )
            self._entries.append((words, is_inflected, targets))

    @cached_property
    def _cased_trie(self) -> "_TrieNode":  # not before it is needed: it takes 50 times the memory of the entries
        found = _TrieNode()
        for words, is_inflected, targets in self._entries:
            capital = [words[0][:1].upper() + words[0][1:], *words[1:]]
            for form in (words, capital, [each.upper() for each in words]):
                _add(found, form, is_inflected, targets)
        return found

    @cached_property
    def _uncased_trie(self) -> "_TrieNode":
        found = _TrieNode()
        for words, is_inflected, targets in self._entries:
            _add(found, list(map(_fold, words)), is_inflected, targets)
        return found

    def find(self, text: str, *, any_case: bool = False) -> list[Term]:
        """Returns the terms of a text, from left to right: of those that begin at a word, the longest.

        any_case: whether the text has lost its capitals, so that those of an entry are not needed.
        """
        tries = [each for each in self._tries(any_case=any_case) if each.children or each.leaves]
        if not tries:
            return []
        spans, found, first = _word_spans(text), list[Term](), 0
        read = [(_fold if any_case else nfc)(text[start:end]) for start, end in spans]
        endings = [_leaf_keys(word) for word in read]
        while first < len(spans):
            of_each = [_longest_match(each, first, read, endings) for each in tries]
            longest, targets = max(of_each, key=lambda each: each[0])  # of equal ones the first
            if longest > first:
                span = spans[first][0], spans[longest - 1][1]
                found.append(Term(span, tuple(targets or [text[slice(*span)]]), longest - first))
            first = max(longest, first + 1)
        return found

    def _tries(self, *, any_case: bool) -> list["_TrieNode"]:
        own = self._uncased_trie if any_case else self._cased_trie
        return [own, *(self._base._tries(any_case=any_case) if self._base else ())]


def _longest_match(
    after: _TrieNode, first: int, read: Sequence[str], endings: Sequence[list[str]]
) -> tuple[int, list[str]]:
    """Returns behind which word the longest entry ends that begins at a word, and its translations; `first`: none."""
    longest, targets = first, list[str]()
    for last in range(first, len(read)):
        if not after.leaves.keys().isdisjoint(endings[last]):
            form = next(form for form in endings[last] if form in after.leaves)
            longest, targets = last + 1, after.leaves[form]
        if not (further := after.children.get(read[last])):
            break
        after = further
    return longest, targets


def _add(entries: _TrieNode, words: Sequence[str], is_inflected: bool, targets: list[str]) -> None:
    """Add an entry, unless there is one of the same words."""
    for word in words[:-1]:
        entries = entries.children.setdefault(word, _TrieNode())
    entries.leaves.setdefault(words[-1] + "*" * is_inflected, targets)


def _leaf_keys(word: str) -> list[str]:
    """Returns how an entry may end that a word fulfils: with the word, or with an uninflected form of it and a *."""
    return [word, *(f"{word[: len(word) - n]}*" for n in range(min(MAX_ENDING_CHARS + 1, len(word))))]


def merge_entries(terms: Iterable[LocatedPair]) -> dict[str, str]:
    """Returns the entries of a glossary: sources and translations, an empty one for what is left as it is.

    terms: sources, each with one translation. Where a source has several, any will do. Raises DataError.
    """
    entries: dict[str, dict[str, None]] = {}  # a set of translations in their order
    for source, target, place in terms:
        entries.setdefault(source, {})[target] = None
        if "*" in source[:-1]:
            log.warning("%s: a * that is not at the end stands for itself: %r", place, source)
        try:
            Glossary({source: "|".join({next(iter(entries[source])): None, target: None})})
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
    return {source: "|".join(targets) for source, targets in entries.items()}


def spellings(translation: str) -> list[str]:
    """Returns a translation as it may be written: in small letters also with the capital that begins a sentence."""
    capital = translation[:1].upper() + translation[1:]
    return [translation, capital] if translation.islower() else [translation]


def term_spans(terms: Sequence[Term], text: str) -> list[Span | None]:
    """Returns where a translation of each term stands in a text, as whole words, each at a place of its own."""
    if not terms:  # most sentences
        return []
    low = text.lower()
    within, folded = (low, str.lower) if len(low) == len(text) else (text, str)
    edges = frozenset(word_boundaries(text))

    def occurrences(word: str) -> Iterator[Span]:
        start = within.find(word)
        while start >= 0:
            if start in edges and start + len(word) in edges:
                yield start, start + len(word)
            start = within.find(word, start + 1)

    taken = TakenSpans(text)
    left: dict[str, Iterator[Span]] = {}  # what is taken once stays so: each word is looked for once
    found: list[Span | None] = []
    for term in terms:
        words = map(folded, term.translations)
        spans = (span for each in words for span in left.setdefault(each, occurrences(each)) if taken.is_free(span))
        found.append(next(map(taken.take, spans), None))
    return found


def respell_terms(text: str, terms: Sequence[Term], places: Sequence[Span | None]) -> str:
    """Returns a text in which each term is written as the glossary has it. places: where they stand, from `term_spans`.

    In another case it may be another word: Park is a name, and park is none.
    """
    for term, place in zip(terms, places, strict=True):
        written = text[slice(*place)] if place else ""
        if place and not any(written in spellings(each) for each in term.translations):
            own = next(each for each in term.translations if each.lower() == written.lower())
            text = text[: place[0]] + own + text[place[1] :]
    return text


def replace_linked_words(
    text: str, terms: Sequence[Term], links: Sequence[Link], kept: Sequence[Span] = ()
) -> tuple[str, list[Term]]:
    """Returns a translation with the words that are linked to each term replaced; and the terms without such words.

    terms: from left to right. Of several words the last are replaced, as many as the term has: an article may be linked
    to its noun, too. kept: what is not replaced.
    """
    edges, taken = word_boundaries(text), TakenSpans(text, kept)
    new: dict[Span, str] = {}
    left = []
    for term, own in zip(terms, linked_spans(terms, links), strict=True):
        around = {(boundary_before(edges, start), boundary_after(edges, end)) for start, end in own}
        words = {word for start, end in around for word in _word_spans_between(text, edges, start, end)}
        free = sorted(filter(taken.is_free, words))
        run = free[-1:]
        while len(run) < term.n_words and len(run) < len(free) and run[0][0] - free[-len(run) - 1][1] <= 1:
            run.insert(0, free[-len(run) - 1])
        if run:
            new[taken.take((run[0][0], run[-1][1]))] = term.translations[0]
        else:
            left.append(term)
    parts, last = list[str](), 0
    for (start, end), translation in sorted(new.items()):
        parts += [text[last:start], translation]
        last = end + (text[end : end + 1] != "" and text[end : end + 1] == final_mark(translation))
    return "".join([*parts, text[last:]]), left


def capitalise_sentence_starts(text: str, terms: Sequence[Term]) -> str:
    """Returns a text with a capital where a term in small letters stands at the beginning of a sentence."""
    characters = list(text)
    for term, place in zip(terms, term_spans(terms, text), strict=True):
        if (
            place
            and any(map(str.islower, term.translations))
            and _SENTENCE_START.search(text, max(0, place[0] - 9), place[0])
        ):
            characters[place[0]] = text[place[0]].upper()
    return "".join(characters)


def linked_spans(terms: Sequence[Term], links: Sequence[Link]) -> list[list[Span]]:
    """Returns what is linked to each term, of terms from left to right."""
    starts, ends = [each.span[0] for each in terms], [each.span[1] for each in terms]
    found: list[list[Span]] = [[] for _ in terms]
    for (start, end), other in links:
        for number in range(bisect_right(ends, start), bisect_left(starts, end)):
            found[number].append(other)
    return found


def _word_spans_between(text: str, edges: Sequence[int], start: int, end: int) -> Iterator[Span]:
    """Yield where the words between two edges stand; a sign is none."""
    between = edges[bisect_left(edges, start) : bisect_right(edges, end)]
    return (span for span in pairwise(between) if is_word(text[span[0]]))


def _word_spans(text: str) -> list[Span]:
    """Returns where words and signs stand."""
    return [span for span in pairwise(word_boundaries(text)) if not text[span[0]].isspace()]


def _fold(word: str) -> str:
    return nfc(word).lower()
