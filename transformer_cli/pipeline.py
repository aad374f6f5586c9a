"""What a model reads of a line, and the translation that is made of what it writes: the way to ids and back to text.

Knows codecs, glossaries and what is held out of a text; no engine, no run and no file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

from transformer_cli.adapters.terminology.glossary import (
    Glossary,
    Term,
    capitalised,
    forms,
    linked,
    replaced,
    respelled,
    term_spans,
)
from transformer_cli.adapters.terminology.numbers import missing_numbers
from transformer_cli.adapters.terminology.placeholders import Holder, has_branches
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import DataError
from transformer_cli.search.interface import Constraints, Hypothesis, Ids, SearchRequest, longest_translation
from transformer_cli.text.alignment import Link, Span, moved, overlap, places_in, put_back, token_spans, word_links
from transformer_cli.text.codec import Codec, Codecs, Encoded
from transformer_cli.text.lines import TOO_LONG, is_too_long, refuse_halves
from transformer_cli.text.long_lines import NO_TOKENS, REMEDY, Line, LongLines
from transformer_cli.text.reading import Held, ends, is_spaceless, upper
from transformer_cli.text.sentences import join
from transformer_cli.text.vocabulary import EOS, UNK, UNWRITTEN

EMPTY = Hypothesis([], [], 0.0, 0.0)  # of a sentence that is not searched for: no search finds it
MOST_TERMS = 20  # of a sentence, that are searched for; the others are put in
MOST_COST = 5.0  # nats that each term may cost that is searched for: most synonyms cost less, and other words over 11
TOKENS_OF_WORD = 1  # of words that are searched for; names have more, and a search for them costs 3 chrF


@dataclass(frozen=True)
class Sentence:
    """What is read of a line, or of a part of one, and what is put back into its translation."""

    line: Line
    terms: Sequence[Term]
    """of the glossary, in what is read"""
    wanted: SearchRequest | None
    """what is searched for; None if nothing is read"""
    with_terms: SearchRequest | None = None
    """what is searched for, too, if the translation lacks terms"""


@dataclass(frozen=True)
class Translation:
    """A translated sentence."""

    source: str
    """the sentence as it was given"""
    source_tokens: list[str]
    """the tokens that the encoder reads: all of them, or those that are left if the sentence was cut"""
    text: str
    """plain text, unknown words replaced"""
    tokens: list[str]
    """the decoder's own tokens, `<unk>` kept; if the line was copied, its words"""
    log_prob: float
    """log-probability of the tokens; may be NaN without `TranslationSettings.scores`"""
    score: float
    """what the translations of a sentence are compared by: log_prob / length^α, <eos> counted"""
    source_ids: list[int]
    """the ids of the source tokens, without <sos> and <eos>"""
    ids: list[int]
    """the ids of the decoder's tokens, without <sos> and <eos>"""
    alignment: list[int]
    """for each of the decoder's tokens, the index in source_tokens of the one that was attended to most;
    perhaps empty without `TranslationSettings.attention`"""
    alternatives: list["Translation"] = field(default_factory=list)
    """the other ones of the n best, the best first; empty unless `TranslationSettings.n_best` asks for several"""
    was_too_long: bool = False
    """whether the line was too long, so that `TranslationSettings.on_error` says what the text is"""
    held: list[Link] = field(default_factory=list)
    """where what passed untouched stands in the sentence and in the text, in the latter's order"""
    terms: list[tuple[Span, Span | None]] = field(default_factory=list)
    """where each term of the glossary stands in the sentence, and its translation in the text (None: it does not)"""
    start: int = 0
    """where the sentence begins in its line, if that was split"""
    sentences: list["Translation"] | None = None
    """those of its lines, if it has several, or of their sentences, if they were split; then log_prob is their sum and
    score their mean"""

    @property
    def tokens_on_one_line(self) -> str:
        """The tokens with a space between two of them; the space that a subword may begin with is written "▁"."""
        return " ".join(token.replace(" ", "▁") for token in self.tokens)

    @property
    def lacks(self) -> list[str]:
        """What the text lacks of the sentence; what was held is always there."""
        found = {
            "a number": missing_numbers(self.source, self.text),
            "a term": any(place is None for _, place in self.terms),
            "what a message chooses among": any(has_branches(self.source[slice(*one)]) for one, _ in self.held),
        }
        return [what for what, is_missing in found.items() if is_missing]

    @property
    def marks(self) -> dict[str, list[Any]]:
        """As JSON: what was held, the terms, and the numbers of the source that the text lacks; spans are lists."""
        return {
            "held": [{"source": list(source), "translation": list(place)} for source, place in self.held],
            "terms": [{"source": list(source), "translation": place and list(place)} for source, place in self.terms],
            "missing_numbers": list(map(list, missing_numbers(self.source, self.text))),
        }


@dataclass(frozen=True, eq=False)
class Wording:
    """The way from text to ids, and back, of one run and one way to translate; `with_settings` makes others of it."""

    codecs: Codecs
    language: str
    """the source's code"""
    max_length: int | None
    """the most positions that a sentence may take (None: no limit)"""
    takes_constraints: bool
    """whether a beam search can be given terms"""
    settings: TranslationSettings
    glossary: Glossary = field(default_factory=lambda: Glossary({}))
    """that of the settings"""

    def with_settings(self, settings: TranslationSettings) -> "Wording":
        """Returns the same way with other settings.

        Raises ConfigError if hold_pattern is no pattern, DataError for an entry of the glossary that is none.
        """
        glossary, now, before = self.glossary, settings.glossary, self.settings.glossary
        if now != before:
            base = glossary if before and before.keys() <= now.keys() else None
            glossary = Glossary(
                {source: now[source] for source in now if base is None or now[source] != before.get(source)}, base
            )
        other = replace(self, settings=settings, glossary=glossary)
        _ = other.holder
        return other

    @cached_property
    def holder(self) -> Holder:
        """What finds all that passes untouched."""
        return Holder(self.settings.hold, self.settings.hold_pattern)

    @cached_property
    def prefix(self) -> Ids:
        """The ids with which all translations begin. Raises DataError if the model cannot write them."""
        given, target = self.settings.prefix, self.codecs.target
        if not isinstance(given, str):
            for place, index in enumerate(given, start=1):
                is_end = index == EOS and place < len(given)  # <eos> may be the last one
                if index in UNWRITTEN or is_end or not 0 <= index < len(target):
                    raise DataError(f"prefix: {index} is not the id of a token that the model can write")
            return given
        text = given.strip()
        refuse_halves(text, "prefix: ")
        if not text:
            return ()
        if is_too_long(text):
            raise DataError(f"prefix has {TOO_LONG}; shorten it")
        prefix = target.encode_as_it_is(text)
        for token, index in zip(prefix.tokens, prefix.ids, strict=True):
            if index == UNK:
                raise DataError(
                    f"prefix: the model cannot write {token!r}, which is not in its vocabulary; leave it out"
                )
        return tuple(prefix.ids)

    def encode(self, text: str, codec: Codec) -> Encoded:
        """Returns a source, or a translation of one, as it is read by the codec of its side: without what is held."""
        return codec.encode(text, self.holder.spans(text))

    def long_lines(self, remedy: str = REMEDY) -> LongLines:
        """Returns what makes lines fit for translation. remedy: what errors tell the user to do."""
        return LongLines(self.codecs.source, self.max_length, self.settings.on_error, self.holder.spans, remedy)

    def read_text(self, text: str) -> Line:
        """Like `read`, for a text that may have several lines: they are its parts, or their sentences are."""
        if "\n" not in text:
            return self.read(text)
        if self.settings.n_best > 1:
            raise DataError("n_best is about one sentence, but the text has several lines; give each by itself")
        parts, kept, start, was_too_long = list[Line](), list[str](), 0, False
        for line in text.split("\n"):
            read = self.read(line.removesuffix("\r"))
            parts += (replace(unit, start=start + unit.start) for unit in read.units)
            kept.append(read.sentence + "\r" * line.endswith("\r"))  # of one that is too long, its beginning
            start += len(kept[-1]) + 1
            was_too_long |= read.was_too_long
        return Line("\n".join(kept), NO_TOKENS, was_too_long, parts=parts)

    def read(self, text: str) -> Line:
        """Returns a line as it is translated.

        Raises DataError if it is too long, or its translation for the prefix, or for what `refuse_halves` refuses.
        """
        refuse_halves(text)
        long_lines = self.long_lines()
        line = long_lines.split(text, self.language) if self.settings.split_sentences else long_lines.line(text)
        if line.read and len(self.prefix) > (
            limit := longest_translation(self.settings, len(line.read), self.max_length)
        ):
            raise DataError(
                f"prefix has {len(self.prefix)} tokens, but the translation may have {limit}; shorten it, or raise "
                "max_tokens as far as the model's positions allow"
            )
        return line

    def sentence(self, line: Line, key: int) -> Sentence:
        """Returns what is searched for where a line is read that is not split. key: what samples are drawn by."""
        read, source = line.read, self.codecs.source
        terms = self.glossary.find(read.reading.text, any_case=read.reading.in_capitals or source.lowercase)
        if not read:
            return Sentence(line, terms, None)
        required = None if EOS in self.prefix[-1:] else self._required(line, terms)  # nothing follows <eos>
        more = required.n_tokens if required else 0
        limit = longest_translation(self.settings, len(read), self.max_length, more=more)
        wanted = SearchRequest(read.ids, limit, key, self.prefix)
        return Sentence(line, terms, wanted, replace(wanted, constraints=required) if required else None)

    def n_lacking(self, sentence: Sentence, found: Hypothesis) -> int:
        """Returns how many terms are not in a translation."""
        return term_spans(sentence.terms, self._text(sentence.line.read, found)).count(None)

    def _required(self, line: Line, terms: Sequence[Term]) -> Constraints | None:
        """Returns what the search has to write for a line with these terms; None where that is nothing."""
        if not self.takes_constraints or self.settings.sample:
            return None
        text = line.read.reading.text
        spelled = [(each.span, ids) for each in terms if (ids := self._spelled(each, text))][:MOST_TERMS]
        if not spelled:
            return None
        from transformer_cli.adapters.terminology.constraints import TermConstraints  # imports torch

        spans = token_spans(text, line.read.tokens)
        positions = [  # position 0 is <sos>
            frozenset(n for n, one in enumerate(spans, start=1) if one and overlap(one, span)) for span, _ in spelled
        ]
        return TermConstraints(tuple(ids for _, ids in spelled), tuple(positions), self.codecs.continuing)

    def _spelled(self, term: Term, source: str) -> tuple[tuple[int, ...], ...]:
        """Returns the ids of the translations of a term that are words that the model knows; of its own word, none."""
        target = self.codecs.target
        if source[slice(*term.span)] in term.translations:
            return ()
        texts = [form for each in term.translations for form in forms(each) if not is_spaceless(each[0])]
        ids = [tuple(target.encode_as_it_is(each).ids) for each in texts]
        return tuple(
            each
            for each, text in zip(ids, texts, strict=True)
            if target.text(each) == text and len(each) <= TOKENS_OF_WORD * len(text.split())
        )

    def translation(
        self, sentence: Sentence, found: Sequence[Hypothesis], with_terms: Sequence[Hypothesis] = ()
    ) -> Translation:
        """Returns the first hypothesis as text; the others are its alternatives.

        with_terms: what a search for all terms has found. If the model finds that far less likely, it does not know
        them as translations, and would write them beside its own words: then they are put in.
        """
        line = sentence.line
        if with_terms:
            cost = found[0].log_prob - with_terms[0].log_prob
            is_likely = cost <= MOST_COST * self.n_lacking(sentence, found[0])
            return self.translation(sentence, with_terms if is_likely else found)
        best, *others = (self._written(line, each, sentence.terms) for each in found)
        if line.is_copied:
            codec = self.codecs.target
            tokens = line.sentence.split() if line.was_too_long else codec.encode_as_it_is(line.sentence).tokens
            held = [(span, span) for span in self.holder.spans(line.sentence)]
            best = replace(best, text=line.sentence, tokens=tokens, held=held)
        return replace(best, alternatives=others, was_too_long=line.was_too_long)

    def _text(self, read: Encoded, found: Hypothesis) -> str:
        """Returns what the model wrote as text, in which source words stand for unknown ones."""
        attended = [read.tokens[position - 1] for position in found.attended]  # position 0 is <sos>
        return self.codecs.target.text(found.tokens, instead=None if self.settings.keep_unk else attended or None)

    def _written(self, line: Line, found: Hypothesis, terms: Sequence[Term]) -> Translation:
        target, read, source = self.codecs.target, line.read, line.read.reading.text
        alignment = [position - 1 for position in found.attended]  # position 0 is <sos>
        text, tokens = self._text(read, found), target.tokens(found.tokens)
        standing = term_spans(terms, text)
        text = respelled(text, terms, standing)
        further = [term for term, place in zip(terms, standing, strict=True) if not place]
        if further:  # what was not searched for, or not found
            links = word_links(source, read.tokens, text, tokens, alignment)
            begun = len(target.text(self.prefix))
            text, further = replaced(text, further, links, [(0, begun), *filter(None, standing)])
            of_prefix = linked(further, [link for link in links if link[1][0] < begun])  # which the user has written
            further = [term for term, own in zip(further, of_prefix, strict=True) if not own]
        spaces = [Held(each.span[0], each.translations[0], " ", " ") for each in further]
        all_held = sorted([*read.reading.held, *spaces], key=lambda each: each.place)
        cased = partial(upper, language=target.language) if read.reading.in_capitals else str
        links = word_links(source, read.tokens, text, tokens, alignment) if all_held else []
        text, held = put_back(text, source, all_held, links, cased)
        before, after = ends(line.sentence) if read else ("", "")
        begins = next(filter(str.isalpha, source), "")
        if begins and not (begins.islower() or target.lowercase):
            text = capitalised(text, [term for term in terms if source[slice(*term.span)] not in term.translations])
        text = before + text + after
        of_source = places_in(line.sentence, source, [each.span for each in terms], [one for one, _ in held])
        return Translation(
            source=line.sentence,
            source_tokens=read.tokens,
            text=text,
            tokens=tokens,
            log_prob=found.log_prob,
            score=found.score,
            source_ids=read.ids,
            ids=found.tokens,
            alignment=alignment,
            held=[(one, moved(other, len(before))) for one, other in held],
            terms=[*zip(of_source, term_spans(terms, text), strict=True)],
            start=line.start,
        )


def joined(line: Line, parts: list[Translation]) -> Translation:
    """Returns the translation of a line that was split. Parts that were copied have no tokens in it, and no score."""
    read = [part for part in parts if part.source_tokens]
    firsts = accumulate((len(part.source_tokens) for part in read), initial=0)
    text = join(line.sentence, [moved((0, len(part.source)), part.start) for part in parts], [p.text for p in parts])
    placed = [*zip(parts, starts(text, parts), strict=True)]
    return Translation(
        source=line.sentence,
        source_tokens=[token for part in read for token in part.source_tokens],
        text=text,
        tokens=[token for part in read for token in part.tokens],
        log_prob=sum(part.log_prob for part in read),
        score=sum(part.score for part in read) / max(1, len(read)),
        source_ids=[id_ for part in read for id_ in part.source_ids],
        ids=[id_ for part in read for id_ in part.ids],
        alignment=[first + place for first, part in zip(firsts, read, strict=False) for place in part.alignment],
        held=[(moved(one, part.start), moved(other, first)) for part, first in placed for one, other in part.held],
        terms=[
            (moved(one, part.start), other and moved(other, first))
            for part, first in placed
            for one, other in part.terms
        ],
        was_too_long=line.was_too_long or any(part.was_too_long for part in parts),
        sentences=parts,
    )


def starts(text: str, parts: Iterable[Translation]) -> Iterator[int]:
    """Yield where each translation begins in a text that they were joined to."""
    last = 0
    for part in parts:
        yield (start := text.index(part.text, last))
        last = start + len(part.text)
