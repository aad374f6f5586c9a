"""Glossaries: which words and phrases have a fixed translation. Knows characters, but no tokens and no models."""

import logging
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.documents.held import Link, Span, overlap, word_end, word_start, words, words_and_signs
from transformer_cli.errors import DataError
from transformer_cli.text.lines import read_lines
from transformer_cli.text.reading import is_inside_word

log = logging.getLogger(__name__)

ENDINGS = 3  # letters at most that an inflected form has more than what stands before the *


@dataclass(frozen=True)
class Term:
    """What is to be written for a part of a text."""

    span: Span
    """where that stands in the text"""
    translations: tuple[str, ...]
    """of which any would do"""
    n_words: int = 1
    """how many words the part has"""


class Glossary:
    """Sources and their translations; see docs/translate.md."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        """Raises DataError for an entry without a source, or with an empty one among its translations."""
        self._by_words: dict[tuple[str, ...], list[tuple[list[str], list[str]]]] = {}
        for source, target in entries.items():
            is_inflected, text = source.endswith("*"), unicodedata.normalize("NFC", source.removesuffix("*"))
            if control := re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", source + target):
                raise DataError(f"glossary: {source!r} with {target!r}: {control[0]!r} cannot stand in an entry")
            words = [text[start:end] for start, end in _words(text)]
            targets = [each.strip() for each in target.split("|")] if target.strip() else []
            if not words or not all(targets):
                raise DataError(
                    f"glossary: {source!r} with {target!r}: an entry has a source, and | between translations"
                )
            key = tuple(map(_key, [*words[:-1], words[-1] + "*" * is_inflected]))
            self._by_words.setdefault(key, []).append((words, targets))
        self._longest = max(map(len, self._by_words), default=0)

    def find(self, text: str, *, any_case: bool = False) -> list[Term]:
        """Returns the terms of a text, from left to right: of those that begin at a word, the longest.

        any_case: whether the text has lost its capitals, so that those of an entry are not needed.
        """
        spans, found, first = _words(text) if self._by_words else [], [], 0
        while first < len(spans):
            for last in range(min(len(spans), first + self._longest), first, -1):
                targets = self._targets([text[start:end] for start, end in spans[first:last]], any_case)
                if targets is not None:
                    span = spans[first][0], spans[last - 1][1]
                    found.append(Term(span, tuple(targets or [text[slice(*span)]]), last - first))
                    first = last - 1
                    break
            first += 1
        return found

    def _targets(self, words: Sequence[str], any_case: bool) -> list[str] | None:
        """Returns the translations of some words; None if they are no entry."""
        words = [unicodedata.normalize("NFC", each) for each in words]
        *others, last = map(_key, words)
        keys = [last, *(f"{last[: len(last) - n]}*" for n in range(min(ENDINGS + 1, len(last))))]
        for n, key in enumerate(keys):
            stem = [*words[:-1], words[-1][: len(last) - max(0, n - 1)]]
            for entry, targets in self._by_words.get((*others, key), ()):
                capital = [entry[0][:1].upper() + entry[0][1:], *entry[1:]]
                if any_case or stem in (entry, capital, [each.upper() for each in entry]):
                    return targets
        return None


def read_glossary(path: Path | None) -> dict[str, str]:
    """Returns the entries of a file with a source, a TAB and its translation on each line. Raises DataError.

    path: None for no file, which has no entries.
    """
    if path is None:
        return {}
    entries: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        source, *targets = (part.strip() for part in line.split("\t"))
        if len(targets) != 1 or not source or source in entries:
            is_entry = len(targets) == 1 and source
            wrong = "is there twice" if is_entry else "is not a source, a TAB and a translation"
            raise DataError(f"{path}: line {number}: {line[:50]!r} {wrong}; mend or delete it")
        entries[source] = targets[0]
        if "*" in source[:-1]:
            log.warning("%s: line %d: a * that is not at the end stands for itself: %r", path, number, source)
        if number == 1 and (source.lower(), targets[0].lower()) == ("source", "target"):
            log.warning("%s: line 1 looks like a heading, but is an entry; delete it if it is one", path)
    try:
        Glossary(entries)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return entries


def forms(translation: str) -> list[str]:
    """Returns a translation as it may be written: in small letters also with the capital that begins a sentence."""
    capital = translation[:1].upper() + translation[1:]
    return [translation, capital] if translation.islower() else [translation]


def places(terms: Sequence[Term], text: str) -> list[Span | None]:
    """Returns where a translation of each term stands in a text, as whole words, each at a place of its own."""
    low = text.lower()
    folds = len(low) == len(text)

    def occurrences(translation: str) -> Iterator[Span]:
        within, word = (low, translation.lower()) if folds else (text, translation)
        start = within.find(word)
        while start >= 0:
            if not is_inside_word(text, start) and not is_inside_word(text, start + len(word)):
                yield start, start + len(word)
            start = within.find(word, start + 1)

    found: list[Span | None] = []
    for term in terms:
        spans = (span for each in term.translations for span in occurrences(each))
        taken = [*filter(None, found)]
        found.append(next((span for span in spans if not any(overlap(span, other) for other in taken)), None))
    return found


def replaced(
    text: str, terms: Sequence[Term], links: Sequence[Link], kept: Sequence[Span] = ()
) -> tuple[str, list[Term]]:
    """Returns a translation with the words that are linked to each term replaced; and the terms without such words.

    Of several words the last are replaced, as many as the term has: an article may be linked to its noun, too. kept:
    what is not replaced.
    """
    taken: dict[Span, str] = {}
    left = []
    for term in terms:
        own = [other for one, other in links if overlap(one, term.span)]
        found = {word for start, end in own for word in words(text, word_start(text, start), word_end(text, end))}
        free = sorted(word for word in found if not any(overlap(word, other) for other in (*kept, *taken)))
        run = free[-1:]
        while len(run) < term.n_words and len(run) < len(free) and run[0][0] - free[-len(run) - 1][1] <= 1:
            run.insert(0, free[-len(run) - 1])
        if run:
            taken[run[0][0], run[-1][1]] = term.translations[0]
        else:
            left.append(term)
    for (start, end), translation in sorted(taken.items(), reverse=True):
        text = text[:start] + translation + text[end:]
    return text, left


def _words(text: str) -> list[Span]:
    """Returns where words and signs stand."""
    return [span for span in words_and_signs(text, 0, len(text)) if not text[span[0]].isspace()]


def _key(word: str) -> str:
    return unicodedata.normalize("NFC", word).lower()
