"""From a line of text to a search request, and from the hypotheses of the search to a translation.

    a line → sentences, cut if too long → normalised and encoded → a SearchRequest → hypotheses → a Translation

Normalisation takes placeholders out of a line; they are inserted into its translation. A `LineHook` adds further
protected spans, and requirements such as terms. Knows codecs, but no engine, run or file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Protocol

from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.search.protocols import Constraints, Hypothesis, Ids, SearchRequest
from transformer_cli.search.rules import max_target_tokens
from transformer_cli.text.alignment import Link, Span, insert_placeholders, shift_span, word_links
from transformer_cli.text.codec import Codec, Codecs, EncodedText
from transformer_cli.text.languages import TARGET_TOKEN
from transformer_cli.text.lengths import PLAIN_BOUNDS, LengthBounds
from transformer_cli.text.line_encoder import NO_TOKENS, TOO_LONG_REMEDY, InputLine, LineEncoder
from transformer_cli.text.lines import TOO_LONG, is_too_long, refuse_lone_surrogates
from transformer_cli.text.normalization import Placeholder, surrounding_space, upper
from transformer_cli.text.sentences import join_translations
from transformer_cli.text.vocabulary import EOS, SUPPRESSED, UNK


@dataclass(frozen=True)
class Translation:
    """A translated sentence."""

    source: str
    """the sentence as it was given"""
    source_tokens: list[str]
    """the tokens that the encoder reads: the first ones, if the sentence was truncated"""
    text: str
    """plain text, unknown words replaced"""
    tokens: list[str]
    """the decoder's own tokens, `<unk>` kept; if the line was copied, its words"""
    log_prob: float
    """log-probability of the tokens; may be NaN without `TranslationSettings.return_scores`"""
    score: float
    """ranks the hypotheses of a sentence: log_prob / length^α, <eos> counted"""
    source_ids: list[int]
    """the ids of the source tokens, without <sos> and <eos>"""
    ids: list[int]
    """the ids of the decoder's tokens, without <sos> and <eos>"""
    alignment: list[int]
    """for each of the decoder's tokens, the index in source_tokens of the one that was attended to most;
    may be empty without `TranslationSettings.return_attention`"""
    alternatives: list["Translation"] = field(default_factory=list)
    """the others of the n best translations, best first; empty unless `TranslationSettings.n_best` asks for several"""
    was_too_long: bool = False
    """whether the line was too long; then `TranslationSettings.on_too_long` decided about the text"""
    placeholders: list[Link] = field(default_factory=list)
    """the span of each placeholder in the sentence and in the text, in the order of the text"""
    terms: list[tuple[Span, Span | None]] = field(default_factory=list)
    """the span of each term of the glossary in the sentence, and of its translation in the text (None: missing)"""
    has_unaligned_term: bool = False
    """whether no word, or several apart, were aligned with a term, which may stand beside its translation"""
    unusual_length: str = ""
    """"too short" or "too long", if hardly any translation in the training text is; see `LengthBounds`"""
    start: int = 0
    """offset of the sentence in its line, if the line was split"""
    sentences: list["Translation"] | None = None
    """the translations of its lines, if it has several, or of their sentences, if they were split; then log_prob is
    their sum and score their mean"""

    @property
    def tokens_on_one_line(self) -> str:
        """The tokens, separated by spaces; the space with which a subword may begin is written "▁"."""
        return " ".join(token.replace(" ", "▁") for token in self.tokens)


@dataclass(frozen=True)
class Draft:
    """A translation before its placeholders are inserted."""

    source: EncodedText
    text: str
    """the model's output, in which source words replace unknown ones"""
    tokens: Sequence[str]
    alignment: Sequence[int]
    """for each token, the index of the source token that it belongs to"""
    placeholders: Sequence[Placeholder]
    """what will be inserted, in the order of the source"""
    has_unaligned_term: bool = False
    """see `Translation.has_unaligned_term`"""

    @property
    def links(self) -> list[Link]:
        """Which characters of the normalised source and of the text belong to each other."""
        source = self.source
        return word_links(source.normalized.text, source.tokens, self.text, self.tokens, self.alignment)


class Requirements(Protocol):
    """What the translation of one line must contain, such as terms."""

    @property
    def constraints(self) -> Constraints | None:
        """The constraints of a second search, made if the first translation lacks something; None: no second search."""

    def allowed_nats(self, text: str) -> float:
        """Returns how much less likely a complete translation may be than this text, in nats; 0 if this is complete."""

    def edit(self, draft: Draft, n_prefix_chars: int) -> Draft:
        """Returns the draft with what was missing added to its text or its placeholders.

        n_prefix_chars: length of the prefix with which the draft begins.
        """

    def finish(self, text: str, sentence: str, protected: Sequence[Span]) -> tuple[str, list[tuple[Span, Span | None]]]:
        """Returns the text, perhaps with other capitals, and `Translation.terms`.

        text: with its placeholders. sentence: as it was given. protected: the spans of its placeholders.
        """


class LineHook:
    """Adds protected spans and requirements to lines. This base class adds none."""

    def with_settings(self, settings: TranslationSettings) -> "LineHook":
        """Returns the hook for other settings. Raises ConfigError or DataError for invalid or unsupported ones."""
        if settings.glossary or settings.protect_pattern:
            raise ConfigError("glossary and protect_pattern need a hook; open the run with transformer_cli.Translator")
        return self

    def protected_spans(self, text: str) -> Sequence[Span]:
        """Returns the spans of a text to copy unchanged, from left to right; if any, with each SENTINEL in the text."""
        return ()

    def with_list_numbers(
        self, lines: Iterable[str], must_wait: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[str, str]]:
        """Yield each line and its list number, such as "3.", which is copied unchanged; "" for a line without one.

        must_wait: whether the next line has not arrived yet. If reading raises a TfmError, the lines before it are
        yielded first.
        """
        return ((line, "") for line in lines)

    def requirements(self, encoded: EncodedText, codecs: Codecs, *, may_constrain: bool) -> Requirements | None:
        """Returns what the translation of a line must contain, or None. may_constrain: by a second search."""
        return None


NO_HOOK = LineHook()


@dataclass(frozen=True)
class PreparedSentence:
    """A line, or a part of one, and its search requests."""

    line: InputLine
    request: SearchRequest | None = None
    """None if there is nothing to translate"""
    requirements: Requirements | None = None
    constrained_request: SearchRequest | None = None
    """for a second search, if the first translation does not meet the requirements"""


@dataclass(frozen=True, eq=False)
class TextPipeline:
    """Turns text into search requests, and hypotheses into translations, with the codecs of one run."""

    codecs: Codecs
    language: str
    """code of the source language"""
    max_length: int | None
    """number of positions that a sentence may take (None: no limit)"""
    takes_constraints: bool
    """whether the engine's beam search takes constraints"""
    settings: TranslationSettings
    hook: LineHook = NO_HOOK
    """made for these settings"""
    lengths: Mapping[str, LengthBounds] = field(default_factory=dict)
    """target token, or "" for none → bounds of the lengths of its translations; PLAIN_BOUNDS for the others"""

    def with_settings(self, settings: TranslationSettings) -> "TextPipeline":
        """Returns the pipeline with other settings. Raises ConfigError or DataError as the hook does."""
        return replace(self, settings=settings, hook=self.hook.with_settings(settings))

    @cached_property
    def prefix(self) -> Ids:
        """The ids with which every translation begins. Raises DataError if the model cannot write them."""
        given, target = self.settings.prefix, self.codecs.target
        if not isinstance(given, str):
            for place, index in enumerate(given, start=1):
                is_end = index == EOS and place < len(given)  # <eos> may be the last one
                if index in SUPPRESSED or is_end or not 0 <= index < len(target):
                    raise DataError(f"prefix: {index} is not the id of a token that the model can write")
            return given
        text = given.strip()
        refuse_lone_surrogates(text, "prefix: ")
        if not text:
            return ()
        if is_too_long(text):
            raise DataError(f"prefix has {TOO_LONG}; shorten it")
        prefix = target.encode_raw(text)
        for token, index in zip(prefix.tokens, prefix.ids, strict=True):
            if index == UNK:
                raise DataError(f"prefix: {token!r} is not in the model's vocabulary; leave it out")
        return tuple(prefix.ids)

    def protected_spans(self, text: str, list_number: str = "") -> Sequence[Span]:
        """Returns the spans of a text that are copied unchanged. list_number: one with which it may begin."""
        start = len(text) - len(text.lstrip())
        if not list_number or not text.startswith(list_number, start):
            return self.hook.protected_spans(text)
        end = start + len(list_number)
        return [(start, end), *(shift_span(each, end) for each in self.hook.protected_spans(text[end:]))]

    def encode(self, text: str, codec: Codec) -> EncodedText:
        """Encode a source, or a translation, with the codec of its side. Its placeholders have no tokens."""
        return codec.encode(text, self.protected_spans(text))

    def line_encoder(self, remedy: str = TOO_LONG_REMEDY, list_number: str = "") -> LineEncoder:
        """Returns the encoder of these settings. remedy: what errors tell the user to do."""
        protected = partial(self.protected_spans, list_number=list_number)
        return LineEncoder(self.codecs.source, self.max_length, self.settings.on_too_long, protected, remedy)

    def encode_text(self, text: str, list_number: str = "") -> InputLine:
        """Like `encode_line`, for a text that may have several lines. Its parts are the lines, or their sentences."""
        if "\n" not in text:
            return self.encode_line(text, list_number)
        if self.settings.n_best > 1:
            raise DataError("n_best takes single sentences, but the text has several lines; give each line by itself")
        parts, lines, start, was_too_long = list[InputLine](), list[str](), 0, False
        for given, number in self.hook.with_list_numbers(text.split("\n")):
            line = self.encode_line(given.removesuffix("\r"), number)
            parts += (replace(unit, start=start + unit.start) for unit in line.units)
            lines.append(line.sentence + "\r" * given.endswith("\r"))  # a line that is too long may be truncated
            start += len(lines[-1]) + 1
            was_too_long |= line.was_too_long
        return InputLine("\n".join(lines), NO_TOKENS, was_too_long, parts=parts)

    def encode_line(self, text: str, list_number: str = "") -> InputLine:
        """Encode a line, split into sentences if the settings say so. list_number: see `LineHook.with_list_numbers`.

        Raises DataError if it or the prefix is too long, or as `refuse_lone_surrogates` does.
        """
        refuse_lone_surrogates(text)
        encoder = self.line_encoder(list_number=list_number)
        line = encoder.split_sentences(text, self.language) if self.settings.split_sentences else encoder.encode(text)
        limit = max_target_tokens(self.settings, len(line.encoded), self.max_length)
        if line.encoded and len(self.prefix) > limit:
            raise DataError(
                f"prefix has {len(self.prefix)} tokens, but the translation may have {limit}; shorten it, or raise "
                "max_tokens as far as the model's positions allow"
            )
        return line

    def prepare(self, line: InputLine, key: int) -> PreparedSentence:
        """Returns the search requests of a line that has no parts. key: seeds its samples."""
        encoded = line.encoded
        if not encoded:
            return PreparedSentence(line)
        may_constrain = self.takes_constraints and not self.settings.sample and EOS not in self.prefix[-1:]
        requirements = self.hook.requirements(encoded, self.codecs, may_constrain=may_constrain)
        constraints = requirements.constraints if requirements else None
        more = constraints.min_tokens if constraints else 0
        limit = max_target_tokens(self.settings, len(encoded), self.max_length, extra_tokens=more)
        request = SearchRequest(encoded.ids, limit, key, self.prefix)
        constrained = replace(request, constraints=constraints) if constraints else None
        return PreparedSentence(line, request, requirements, constrained)

    def allowed_nats(self, sentence: PreparedSentence, found: Hypothesis) -> float:
        """See `Requirements.allowed_nats`; 0 if the sentence has no requirements."""
        requirements = sentence.requirements
        return requirements.allowed_nats(self._decode_text(sentence.line.encoded, found)) if requirements else 0.0

    def decode(self, sentence: PreparedSentence, hypotheses: Sequence[Hypothesis]) -> Translation:
        """Returns the first hypothesis as a translation; the others are its alternatives."""
        line = sentence.line
        best, *others = (self._to_translation(sentence, each) for each in hypotheses)
        if line.is_copied:
            codec = self.codecs.target
            tokens = line.sentence.split() if line.was_too_long else codec.encode_raw(line.sentence).tokens
            placeholders = [(span, span) for span in self.protected_spans(line.sentence)]
            best = replace(best, text=line.sentence, tokens=tokens, placeholders=placeholders)
        return replace(best, alternatives=others, was_too_long=line.was_too_long)

    def _decode_text(self, source: EncodedText, found: Hypothesis) -> str:
        """Returns the text of a hypothesis, in which source words replace unknown ones."""
        attended = None if self.settings.keep_unk else [source.tokens[index] for index in found.alignment]
        return self.codecs.target.decode(found.tokens, unk_replacements=attended or None)

    def _to_translation(self, sentence: PreparedSentence, found: Hypothesis) -> Translation:
        target, line, requirements = self.codecs.target, sentence.line, sentence.requirements
        source, normalized = line.encoded, line.encoded.normalized
        tokens = target.tokens(found.tokens)
        draft = Draft(source, self._decode_text(source, found), tokens, found.alignment, normalized.placeholders)
        if requirements:
            draft = requirements.edit(draft, len(target.decode(self.prefix)))
        asked = next(filter(None, map(TARGET_TOKEN.fullmatch, source.tokens[:2])), None)  # the first token may be " "
        token, language = (asked[0], asked[1] or asked[2]) if asked else ("", target.language)
        cased = partial(upper, language=language) if normalized.all_caps else str
        links = draft.links if draft.placeholders else ()
        text, placeholders = insert_placeholders(draft.text, normalized.text, draft.placeholders, links, cased)
        terms: list[tuple[Span, Span | None]] = []
        if requirements:
            text, terms = requirements.finish(text, line.sentence, [one for one, _ in placeholders])
        before, after = surrounding_space(line.sentence) if source else ("", "")
        bounds = self.lengths.get(token, PLAIN_BOUNDS)
        return Translation(
            source=line.sentence,
            source_tokens=source.tokens,
            text=before + text + after,
            tokens=tokens,
            log_prob=found.log_prob,
            score=found.score,
            source_ids=source.ids,
            ids=found.tokens,
            alignment=found.alignment,
            placeholders=[(one, shift_span(other, len(before))) for one, other in placeholders],
            terms=[(one, other and shift_span(other, len(before))) for one, other in terms],
            has_unaligned_term=draft.has_unaligned_term,
            unusual_length=bounds.check(normalized.text.removeprefix(token), draft.text),
            start=line.start,
        )


def join_parts(line: InputLine, parts: list[Translation]) -> Translation:
    """Returns the translation of a line that was split. Parts that were only copied add no tokens and no score."""
    translated = [part for part in parts if part.source_tokens]
    firsts = accumulate((len(part.source_tokens) for part in translated), initial=0)  # each part's first token
    spans = [shift_span((0, len(part.source)), part.start) for part in parts]
    text = join_translations(line.sentence, spans, [part.text for part in parts])
    starts = [*zip(parts, part_starts(text, parts), strict=True)]
    return Translation(
        source=line.sentence,
        source_tokens=[token for part in translated for token in part.source_tokens],
        text=text,
        tokens=[token for part in translated for token in part.tokens],
        log_prob=sum(part.log_prob for part in translated),
        score=sum(part.score for part in translated) / max(1, len(translated)),
        source_ids=[id_ for part in translated for id_ in part.source_ids],
        ids=[id_ for part in translated for id_ in part.ids],
        alignment=[first + index for first, part in zip(firsts, translated, strict=False) for index in part.alignment],
        placeholders=[
            (shift_span(one, part.start), shift_span(other, start))
            for part, start in starts
            for one, other in part.placeholders
        ],
        terms=[
            (shift_span(one, part.start), other and shift_span(other, start))
            for part, start in starts
            for one, other in part.terms
        ],
        has_unaligned_term=any(part.has_unaligned_term for part in parts),
        was_too_long=line.was_too_long or any(part.was_too_long for part in parts),
        sentences=parts,
    )


def part_starts(text: str, parts: Iterable[Translation]) -> Iterator[int]:
    """Yield the offset of each part's translation in their joined text."""
    last = 0
    for part in parts:
        yield (start := text.index(part.text, last))
        last = start + len(part.text)
