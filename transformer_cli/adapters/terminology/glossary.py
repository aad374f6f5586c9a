"""Glossaries: which words and phrases have a fixed translation. Knows characters, but no tokens and no models."""

import logging
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from transformer_cli.adapters.corpora.formats import (
    beginning_of,
    language_of,
    refuse_heading,
    rows_of,
    sides_of,
    tag_of,
    units_of,
)
from transformer_cli.config.schema import DataConfig
from transformer_cli.errors import DataError
from transformer_cli.system.files import is_stream
from transformer_cli.text.alignment import OPENING, Link, Span, Taken, edge_after, edge_before, ends_in_mark, word_edges
from transformer_cli.text.forms import TBX, form_of
from transformer_cli.text.languages import NAMES, language_named
from transformer_cli.text.lines import Place, Placed
from transformer_cli.text.reading import is_word, nfc

log = logging.getLogger(__name__)

ENDINGS = 3  # letters at most that an inflected form has more than what stands before the *
_BEGINNING = re.compile(rf"(?:\A|[.!?…]\s{{1,3}})[{re.escape(OPENING)}\"']{{0,3}}\Z")
MOST_WORDS = 50  # of an entry, signs included: as many are compared at each word of a text, at most


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
class _Words:
    """Where some words lead, as the beginning of entries."""

    further: "dict[str, _Words]" = field(default_factory=dict)
    ends: dict[str, list[str]] = field(default_factory=dict)
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
            words = [text[start:end] for start, end in _words(text)]
            targets = [each.strip() for each in target.split("|")] if target.strip() else []
            if not words or not all(targets):
                raise DataError(
                    f"glossary: {source!r} with {target!r}: an entry has a source, and | between translations"
                )
            if len(words) > MOST_WORDS:
                raise DataError(f"glossary: {source[:50]!r} has more than {MOST_WORDS} words and signs; shorten it")
            self._entries.append((words, is_inflected, targets))

    @cached_property
    def _as_written(self) -> "_Words":  # not before it is needed: it takes 50 times the memory of the entries
        found = _Words()
        for words, is_inflected, targets in self._entries:
            capital = [words[0][:1].upper() + words[0][1:], *words[1:]]
            for form in (words, capital, [each.upper() for each in words]):
                _add(found, form, is_inflected, targets)
        return found

    @cached_property
    def _in_any_case(self) -> "_Words":
        found = _Words()
        for words, is_inflected, targets in self._entries:
            _add(found, list(map(_key, words)), is_inflected, targets)
        return found

    def find(self, text: str, *, any_case: bool = False) -> list[Term]:
        """Returns the terms of a text, from left to right: of those that begin at a word, the longest.

        any_case: whether the text has lost its capitals, so that those of an entry are not needed.
        """
        tries = [each for each in self._tries(any_case=any_case) if each.further or each.ends]
        if not tries:
            return []
        spans, found, first = _words(text), list[Term](), 0
        read = [(_key if any_case else nfc)(text[start:end]) for start, end in spans]
        endings = [_forms(word) for word in read]
        while first < len(spans):
            of_each = [_longest(each, first, read, endings) for each in tries]
            longest, targets = max(of_each, key=lambda each: each[0])  # of equal ones the first
            if longest > first:
                span = spans[first][0], spans[longest - 1][1]
                found.append(Term(span, tuple(targets or [text[slice(*span)]]), longest - first))
            first = max(longest, first + 1)
        return found

    def _tries(self, *, any_case: bool) -> list["_Words"]:
        own = self._in_any_case if any_case else self._as_written
        return [own, *(self._base._tries(any_case=any_case) if self._base else ())]


def _longest(after: _Words, first: int, read: Sequence[str], endings: Sequence[list[str]]) -> tuple[int, list[str]]:
    """Returns behind which word the longest entry ends that begins at a word, and its translations; `first`: none."""
    longest, targets = first, list[str]()
    for last in range(first, len(read)):
        if not after.ends.keys().isdisjoint(endings[last]):
            form = next(form for form in endings[last] if form in after.ends)
            longest, targets = last + 1, after.ends[form]
        if not (further := after.further.get(read[last])):
            break
        after = further
    return longest, targets


def _add(entries: _Words, words: Sequence[str], is_inflected: bool, targets: list[str]) -> None:
    """Add an entry, unless there is one of the same words."""
    for word in words[:-1]:
        entries = entries.further.setdefault(word, _Words())
    entries.ends.setdefault(words[-1] + "*" * is_inflected, targets)


def _forms(word: str) -> list[str]:
    """Returns how an entry may end that a word fulfils: with the word, or with an uninflected form of it and a *."""
    return [word, *(f"{word[: len(word) - n]}*" for n in range(min(ENDINGS + 1, len(word))))]


def read_glossary(path: Path | None, data: DataConfig) -> dict[str, str]:
    """Returns the entries of a TBX, or of a table: sources and translations, an empty one for what is left as it is.

    Where a source has several, any will do. What is not taken is said. path: None for no file, which has no entries.
    data: which languages are the source and the target. Raises DataError.
    """
    if path is None:
        return {}
    if is_stream(path):  # it can be read once, and is read several times
        with TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            copy.write_bytes(path.read_bytes())
            return read_glossary(copy, data)
    entries: dict[str, list[str]] = {}
    left_out: Counter[str] = Counter()
    is_tbx = form_of(beginning_of(path)) == TBX
    for source, target, place in (_of_tbx if is_tbx else _of_table)(path, data, left_out):
        targets = entries.setdefault(source, [])
        targets += [target] if target not in targets else []
        if "*" in source[:-1]:
            log.warning("%s: a * that is not at the end stands for itself: %r", place, source)
        try:
            Glossary({source: "|".join(targets)})
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
    if left_out:
        log.warning("%s: not taken: %s", path, ", ".join(f"{what} ({n:,})" for what, n in left_out.items()))
    return {source: "|".join(targets) for source, targets in entries.items()}


def _of_table(path: Path, data: DataConfig, left_out: Counter[str]) -> Iterator[Placed]:
    """Yield the entries of a table: of the columns that its heading names, or of the first two.

    Behind these, two columns may have the languages of each row, as DeepL has them.
    """
    of_first = [cells[2:] for cells, _ in islice(_rows(path, data), 2)]
    are_coded = all(len(codes) == 2 and NAMES.keys() >= {*map(language_named, codes)} for codes in of_first)
    columns, names = (0, 1), list[str]()
    for number, (cells, place) in enumerate(_rows(path, data)):
        if are_coded:
            columns = sides_of(cells[2:], data) or (0, 0)
        elif number == 0:
            refuse_heading(cells, data, place, "correct it")
            if named := sides_of(cells, data):
                columns, names = named, cells
                continue
        source, target = (cells[column] if column < len(cells) else "" for column in columns)
        if columns == (0, 0) or (len(cells) > 2 and not (source and target)):
            left_out["entries without one of the languages"] += 1
        elif len(cells) == 1 or not source:
            found = "\t".join(cells)[:50]
            raise DataError(f"{place}: {found!r} is not a source, a TAB and a translation; mend or delete it")
        else:
            further = [] if are_coded else [n for n, cell in enumerate(cells) if cell and n not in columns]
            left_out.update(f"column {names[n] if n < len(names) else n + 1}" for n in further)
            yield source, target, place


def _rows(path: Path, data: DataConfig) -> Iterator[tuple[list[str], Place]]:
    """Yield the rows of a table that are neither blank nor comments."""
    for row, place in rows_of(path, data, with_comments=True):
        cells = [cell.strip() for cell in row]
        if any(cells) and not (len(cells) == 1 and cells[0].startswith("#")):
            yield cells, place


def _of_tbx(path: Path, data: DataConfig, left_out: Counter[str]) -> Iterator[Placed]:
    """Yield the entries of a TBX: each term of the source with each one of the target, but for deprecated ones."""
    for number, (concept, _) in enumerate(units_of(path, "termEntry", "conceptEntry"), start=1):
        texts: dict[str, list[str]] = {}
        for group in concept:
            for each in group.iter():
                term = next((part.text or "" for part in each if tag_of(part) == "term"), "")
                if any("deprecated" in (note.text or "") for note in each if tag_of(note) == "termNote"):
                    left_out["deprecated terms"] += 1
                elif term.strip():
                    texts.setdefault(language_of(group), []).append(term.strip())
        if sides := sides_of(list(texts), data):
            source, target = ([*texts.values()][side] for side in sides)
            yield from ((one, other, Place(path, path, number, "entry")) for one in source for other in target)
        else:
            left_out["entries without one of the languages"] += 1


def forms(translation: str) -> list[str]:
    """Returns a translation as it may be written: in small letters also with the capital that begins a sentence."""
    capital = translation[:1].upper() + translation[1:]
    return [translation, capital] if translation.islower() else [translation]


def term_spans(terms: Sequence[Term], text: str) -> list[Span | None]:
    """Returns where a translation of each term stands in a text, as whole words, each at a place of its own."""
    if not terms:  # most sentences
        return []
    low = text.lower()
    within, folded = (low, str.lower) if len(low) == len(text) else (text, str)
    edges = frozenset(word_edges(text))

    def occurrences(word: str) -> Iterator[Span]:
        start = within.find(word)
        while start >= 0:
            if start in edges and start + len(word) in edges:
                yield start, start + len(word)
            start = within.find(word, start + 1)

    taken = Taken(text)
    left: dict[str, Iterator[Span]] = {}  # what is taken once stays so: each word is looked for once
    found: list[Span | None] = []
    for term in terms:
        words = map(folded, term.translations)
        spans = (span for each in words for span in left.setdefault(each, occurrences(each)) if taken.is_free(span))
        found.append(next(map(taken.take, spans), None))
    return found


def respelled(text: str, terms: Sequence[Term], places: Sequence[Span | None]) -> str:
    """Returns a text in which each term is written as the glossary has it. places: where they stand, from `term_spans`.

    In another case it may be another word: Park is a name, and park is none.
    """
    for term, place in zip(terms, places, strict=True):
        written = text[slice(*place)] if place else ""
        if place and not any(written in forms(each) for each in term.translations):
            own = next(each for each in term.translations if each.lower() == written.lower())
            text = text[: place[0]] + own + text[place[1] :]
    return text


def replaced(
    text: str, terms: Sequence[Term], links: Sequence[Link], kept: Sequence[Span] = ()
) -> tuple[str, list[Term]]:
    """Returns a translation with the words that are linked to each term replaced; and the terms without such words.

    terms: from left to right. Of several words the last are replaced, as many as the term has: an article may be linked
    to its noun, too. kept: what is not replaced.
    """
    edges, taken = word_edges(text), Taken(text, kept)
    new: dict[Span, str] = {}
    left = []
    for term, own in zip(terms, linked(terms, links), strict=True):
        around = {(edge_before(edges, start), edge_after(edges, end)) for start, end in own}
        words = {word for start, end in around for word in _words_between(text, edges, start, end)}
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
        last = end + (text[end : end + 1] != "" and text[end : end + 1] == ends_in_mark(translation))
    return "".join([*parts, text[last:]]), left


def capitalised(text: str, terms: Sequence[Term]) -> str:
    """Returns a text with a capital where a term in small letters stands at the beginning of a sentence."""
    characters = list(text)
    for term, place in zip(terms, term_spans(terms, text), strict=True):
        if (
            place
            and any(map(str.islower, term.translations))
            and _BEGINNING.search(text, max(0, place[0] - 9), place[0])
        ):
            characters[place[0]] = text[place[0]].upper()
    return "".join(characters)


def linked(terms: Sequence[Term], links: Sequence[Link]) -> list[list[Span]]:
    """Returns what is linked to each term, of terms from left to right."""
    starts, ends = [each.span[0] for each in terms], [each.span[1] for each in terms]
    found: list[list[Span]] = [[] for _ in terms]
    for (start, end), other in links:
        for number in range(bisect_right(ends, start), bisect_left(starts, end)):
            found[number].append(other)
    return found


def _words_between(text: str, edges: Sequence[int], start: int, end: int) -> Iterator[Span]:
    """Yield where the words between two edges stand; a sign is none."""
    between = edges[bisect_left(edges, start) : bisect_right(edges, end)]
    return (span for span in pairwise(between) if is_word(text[span[0]]))


def _words(text: str) -> list[Span]:
    """Returns where words and signs stand."""
    return [span for span in pairwise(word_edges(text)) if not text[span[0]].isspace()]


def _key(word: str) -> str:
    return nfc(word).lower()
