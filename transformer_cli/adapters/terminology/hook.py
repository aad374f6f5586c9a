"""Placeholders and terms as a hook of the pipeline: what passes untouched, and what stands in a translation instead.

A translation that lacks terms is searched for again, with all of them. If the model finds that far less likely, it does
not know them as translations, and would write them beside its own words: then they are put in the place of the words
that they are linked to. Knows tokens, but no models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from transformer_cli.adapters.terminology.glossary import (
    Glossary,
    Term,
    capitalise_sentence_starts,
    linked_spans,
    replace_linked_words,
    respell_terms,
    spellings,
    term_spans,
)
from transformer_cli.adapters.terminology.placeholders import PlaceholderFinder
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.pipeline import Draft, LineHook
from transformer_cli.search.interface import Constraints
from transformer_cli.text.alignment import Span, original_spans, spans_overlap, token_spans
from transformer_cli.text.codec import Codec, Codecs, EncodedText
from transformer_cli.text.normalization import Placeholder, is_spaceless

MAX_CONSTRAINED_TERMS = 20  # of a sentence, given to the search as constraints; the others are put in afterwards
MAX_NATS_PER_TERM = 5.0  # that a constraint may cost: most synonyms cost less, and other words over 11
MAX_TOKENS_PER_WORD = 1  # of words that are searched for; names have more, and a search for them costs 3 chrF


@dataclass(frozen=True)
class Terminology(LineHook):
    """Holds placeholders, and what a pattern finds, out of lines; writes the terms of a glossary."""

    finder: PlaceholderFinder = field(default_factory=PlaceholderFinder)
    entries: Mapping[str, str] = field(default_factory=dict)
    """those of the glossary"""
    glossary: Glossary = field(default_factory=lambda: Glossary({}))

    def with_settings(self, settings: TranslationSettings) -> "Terminology":
        """Returns the hook for other settings.

        Raises ConfigError if protect_pattern is no pattern, DataError for an entry of the glossary that is none.
        """
        glossary, now, before = self.glossary, settings.glossary, self.entries
        if now != before:
            base = glossary if before and before.keys() <= now.keys() else None
            glossary = Glossary(
                {source: now[source] for source in now if base is None or now[source] != before.get(source)}, base
            )
        return Terminology(PlaceholderFinder(settings.protect, settings.protect_pattern), now, glossary)

    def protected_spans(self, text: str) -> Sequence[Span]:
        return self.finder.spans(text)

    def requirements(self, encoded: EncodedText, codecs: Codecs, *, may_constrain: bool) -> "TermRequirements | None":
        normalized = encoded.normalized
        terms = self.glossary.find(normalized.text, any_case=normalized.all_caps or codecs.source.lowercase)
        if not terms:
            return None
        constraints = _constraints(encoded, terms, codecs) if may_constrain else None
        return TermRequirements(normalized.text, terms, constraints, codecs.target.lowercase)


@dataclass(frozen=True)
class TermRequirements:
    """The terms of a line: the `Requirements` of its translation."""

    source: str
    """the line as it is read"""
    terms: Sequence[Term]
    """from left to right"""
    constraints: Constraints | None
    is_lowercase: bool
    """whether translations have no capitals"""

    def allowed_nats(self, text: str) -> float:
        return MAX_NATS_PER_TERM * term_spans(self.terms, text).count(None)

    def edit(self, draft: Draft, n_prefix_chars: int) -> Draft:
        """See `Requirements`: terms that are not linked to a word of the text are put back as held spans are."""
        standing = term_spans(self.terms, draft.text)
        draft = replace(draft, text=respell_terms(draft.text, self.terms, standing))
        further = [term for term, place in zip(self.terms, standing, strict=True) if not place]
        if not further:
            return draft
        links = draft.links
        text, further = replace_linked_words(draft.text, further, links, [(0, n_prefix_chars), *filter(None, standing)])
        # what the user has written
        of_prefix = linked_spans(further, [link for link in links if link[1][0] < n_prefix_chars])
        spaces = [
            Placeholder(term.span[0], term.translations[0], " ", " ")
            for term, own in zip(further, of_prefix, strict=True)
            if not own
        ]
        return replace(
            draft, text=text, placeholders=sorted([*draft.placeholders, *spaces], key=lambda each: each.offset)
        )

    def finish(self, text: str, sentence: str, protected: Sequence[Span]) -> tuple[str, list[tuple[Span, Span | None]]]:
        """See `Requirements`: a term at the beginning of a sentence gets a capital if the source begins with one."""
        begins = next(filter(str.isalpha, self.source), "")
        if begins and not (begins.islower() or self.is_lowercase):
            own = [term for term in self.terms if self.source[slice(*term.span)] not in term.translations]
            text = capitalise_sentence_starts(text, own)
        of_source = original_spans(sentence, self.source, [each.span for each in self.terms], protected)
        return text, [*zip(of_source, term_spans(self.terms, text), strict=True)]


def _constraints(encoded: EncodedText, terms: Sequence[Term], codecs: Codecs) -> Constraints | None:
    """Returns what a search has to write for a line with these terms; None where that is nothing."""
    text = encoded.normalized.text
    spelled = [(each.span, ids) for each in terms if (ids := _constraint_phrases(each, text, codecs.target))]
    spelled = spelled[:MAX_CONSTRAINED_TERMS]
    if not spelled:
        return None
    from transformer_cli.adapters.terminology.constraints import TermConstraints  # imports torch

    spans = token_spans(text, encoded.tokens)
    positions = [frozenset(n for n, one in enumerate(spans) if one and spans_overlap(one, span)) for span, _ in spelled]
    return TermConstraints(tuple(ids for _, ids in spelled), tuple(positions), codecs.continuation_ids)


def _constraint_phrases(term: Term, source: str, target: Codec) -> tuple[tuple[int, ...], ...]:
    """Returns the ids of the translations of a term that are words that the model knows; of its own word, none."""
    if source[slice(*term.span)] in term.translations:
        return ()
    texts = [form for each in term.translations for form in spellings(each) if not is_spaceless(each[0])]
    ids = [tuple(target.encode_raw(each).ids) for each in texts]
    return tuple(
        each
        for each, text in zip(ids, texts, strict=True)
        if target.decode(each) == text and len(each) <= MAX_TOKENS_PER_WORD * len(text.split())
    )
