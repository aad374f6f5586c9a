"""A hook for the pipeline that protects placeholders and writes the terms of a glossary.

If a translation lacks terms, a second search is constrained to write all of them. If its result is far less likely,
the model does not know the terms as translations, and has written them next to its own words. Then the first result is
used, and the terms replace the words that are linked to them. Knows tokens, but no models.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from transformer_cli.adapters.terminology import glossary
from transformer_cli.adapters.terminology.glossary import Glossary, Term, term_spans
from transformer_cli.adapters.terminology.list_numbers import with_list_numbers
from transformer_cli.adapters.terminology.placeholders import PlaceholderFinder
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.pipeline import Draft, LineHook
from transformer_cli.search.protocols import Constraints
from transformer_cli.text.alignment import Span, original_spans, spans_overlap, token_spans
from transformer_cli.text.codec import Codec, Codecs, EncodedText
from transformer_cli.text.normalization import Placeholder, is_spaceless

MAX_CONSTRAINED_TERMS = 20  # per sentence; further terms replace linked words
MAX_NATS_PER_TERM = 5.0  # log-probability that a constraint may cost: most synonyms cost less, other words over 11
MAX_TOKENS_PER_WORD = 1  # in constraints; names have more, and to constrain them costs 3 chrF


@dataclass(frozen=True)
class Terminology(LineHook):
    """Protects placeholders and matches of a pattern, and requires the terms of a glossary."""

    finder: PlaceholderFinder = field(default_factory=PlaceholderFinder)
    entries: Mapping[str, str] = field(default_factory=dict)
    """from which the glossary was made"""
    glossary: Glossary = field(default_factory=lambda: Glossary({}))

    def with_settings(self, settings: TranslationSettings) -> "Terminology":
        """Returns the hook for other settings.

        Raises ConfigError for a wrong protect_pattern, DataError for a wrong entry of the glossary.
        """
        terms, new, old = self.glossary, settings.glossary, self.entries
        if new != old:
            base = terms if old and old.keys() <= new.keys() else None
            changed = {source: new[source] for source in new if base is None or new[source] != old.get(source)}
            terms = Glossary(changed, base)
        return Terminology(PlaceholderFinder(settings.protect, settings.protect_pattern), new, terms)

    def protected_spans(self, text: str) -> Sequence[Span]:
        return self.finder.spans(text)

    def with_list_numbers(
        self, lines: Iterable[str], must_wait: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[str, str]]:
        return with_list_numbers(lines, must_wait) if self.finder.builtin else super().with_list_numbers(lines)

    def requirements(self, encoded: EncodedText, codecs: Codecs, *, may_constrain: bool) -> "TermRequirements | None":
        normalized = encoded.normalized
        terms = self.glossary.find(normalized.text, any_case=normalized.all_caps or codecs.source.lowercase)
        if not terms:
            return None
        constraints = _constraints(encoded, terms, codecs) if may_constrain else None
        return TermRequirements(normalized.text, terms, constraints, codecs.target.lowercase)


@dataclass(frozen=True)
class TermRequirements:
    """The terms that the translation of a line must contain: its `Requirements`."""

    source: str
    """the normalised line"""
    terms: Sequence[Term]
    """from left to right"""
    constraints: Constraints | None
    is_lowercase: bool
    """whether translations are in lower case"""

    def allowed_nats(self, text: str) -> float:
        return MAX_NATS_PER_TERM * term_spans(self.terms, text).count(None)

    def edit(self, draft: Draft, n_prefix_chars: int) -> Draft:
        """Replace linked words by missing terms; a term that is not linked to a word becomes a placeholder."""
        spans = term_spans(self.terms, draft.text)
        draft = replace(draft, text=glossary.respell_terms(draft.text, self.terms, spans))
        missing = [term for term, span in zip(self.terms, spans, strict=True) if not span]
        if not missing:
            return draft
        links = draft.links
        protected = [(0, n_prefix_chars), *filter(None, spans)]
        text, missing, is_spread = glossary.replace_linked_words(draft.text, missing, links, protected)
        # terms linked to the prefix, which the user has written, are left out
        of_prefix = glossary.linked_spans(missing, [link for link in links if link[1][0] < n_prefix_chars])
        not_in_prefix = (term for term, linked in zip(missing, of_prefix, strict=True) if not linked)
        added = [Placeholder(term.span[0], term.translations[0], " ", " ") for term in not_in_prefix]
        placeholders = sorted([*draft.placeholders, *added], key=lambda each: each.offset)
        return replace(draft, text=text, placeholders=placeholders, has_unaligned_term=is_spread or bool(added))

    def finish(self, text: str, sentence: str, protected: Sequence[Span]) -> tuple[str, list[tuple[Span, Span | None]]]:
        """Give a term at the beginning of a sentence a capital if the source begins with one."""
        first_letter = next(filter(str.isalpha, self.source), "")
        if first_letter and not (first_letter.islower() or self.is_lowercase):
            translated = [term for term in self.terms if self.source[slice(*term.span)] not in term.translations]
            text = glossary.capitalise_sentence_starts(text, translated)
        source_spans = original_spans(sentence, self.source, [each.span for each in self.terms], protected)
        return text, [*zip(source_spans, term_spans(self.terms, text), strict=True)]


def _constraints(encoded: EncodedText, terms: Sequence[Term], codecs: Codecs) -> Constraints | None:
    """Returns the constraints for the terms of a line; None if no term has a phrase for them."""
    text = encoded.normalized.text
    phrases = [(each.span, ids) for each in terms if (ids := _constraint_phrases(each, text, codecs.target))]
    phrases = phrases[:MAX_CONSTRAINED_TERMS]
    if not phrases:
        return None
    from transformer_cli.adapters.terminology.constraints import TermConstraints  # imports torch

    spans = token_spans(text, encoded.tokens)
    positions = [frozenset(n for n, one in enumerate(spans) if one and spans_overlap(one, span)) for span, _ in phrases]
    return TermConstraints(tuple(ids for _, ids in phrases), tuple(positions), codecs.continuation_ids)


def _constraint_phrases(term: Term, source: str, target: Codec) -> tuple[tuple[int, ...], ...]:
    """Returns the ids of a term's translations that consist of known words; none if the term may stay as it is."""
    if source[slice(*term.span)] in term.translations:
        return ()
    texts = [
        spelling for each in term.translations for spelling in glossary.spellings(each) if not is_spaceless(each[0])
    ]
    ids = [tuple(target.encode_raw(each).ids) for each in texts]
    return tuple(
        each
        for each, text in zip(ids, texts, strict=True)
        if target.decode(each) == text and len(each) <= MAX_TOKENS_PER_WORD * len(text.split())
    )
