"""The way of a line to what a search is asked for, and from what it finds to a translation.

    a line → sentences, cut if too long → normalised and encoded → a SearchRequest → hypotheses → a Translation

Symbols that normalisation holds out are put back. What a line needs besides, such as placeholders and terms, a
`LineHook` brings. Knows codecs; no engine, no run and no file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Protocol

from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import ConfigError, DataError
from transformer_cli.search.interface import Constraints, Hypothesis, Ids, SearchRequest, max_target_tokens
from transformer_cli.text.alignment import Link, Span, insert_placeholders, shift_span, word_links
from transformer_cli.text.codec import Codec, Codecs, EncodedText
from transformer_cli.text.line_encoder import NO_TOKENS, TOO_LONG_REMEDY, InputLine, LineEncoder
from transformer_cli.text.lines import TOO_LONG, is_too_long, refuse_lone_surrogates
from transformer_cli.text.normalization import Placeholder, surrounding_space, upper
from transformer_cli.text.sentences import join_translations
from transformer_cli.text.vocabulary import EOS, UNK, UNWRITABLE

EMPTY_HYPOTHESIS = Hypothesis([], [], 0.0, 0.0)  # of a sentence that is not searched for: no search finds it


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
    """whether the line was too long, so that `TranslationSettings.on_too_long` says what the text is"""
    placeholders: list[Link] = field(default_factory=list)
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


@dataclass(frozen=True)
class Draft:
    """A translation into which what was held out of its source is still to be put back."""

    source: EncodedText
    text: str
    """what the model wrote, in which source words stand for unknown ones"""
    tokens: Sequence[str]
    alignment: Sequence[int]
    """for each token, the index of the source token that it belongs to"""
    placeholders: Sequence[Placeholder]
    """what is put back, in the order of the source"""

    @property
    def links(self) -> list[Link]:
        """Which characters of the source, as it is read, and of the text belong to each other."""
        source = self.source
        return word_links(source.normalized.text, source.tokens, self.text, self.tokens, self.alignment)


class Requirements(Protocol):
    """What one translation has to have besides what the model writes by itself, such as terms."""

    @property
    def constraints(self) -> Constraints | None:
        """What a second search has to write if the first one leaves something out (None: there is no second one)."""

    def allowed_nats(self, text: str) -> float:
        """Returns how many nats less likely than this one a translation may be that lacks nothing; 0: this one does."""

    def edit(self, draft: Draft, n_prefix_chars: int) -> Draft:
        """Returns a draft with what it lacks, in its text or in what is put back.

        n_prefix_chars: the characters of the prefix, with which it begins.
        """

    def finish(self, text: str, sentence: str, protected: Sequence[Span]) -> tuple[str, list[tuple[Span, Span | None]]]:
        """Returns a text in which all is put back, perhaps with other capitals, and `Translation.terms`.

        sentence: as it was given. protected: the spans of its placeholders.
        """


class LineHook:
    """What lines need besides the plain way. This one is the plain way's: lines need nothing."""

    def with_settings(self, settings: TranslationSettings) -> "LineHook":
        """Returns the hook for other settings. Raises ConfigError or DataError for those that it cannot follow."""
        if settings.glossary or settings.protect_pattern:
            raise ConfigError(
                "glossary, protect_pattern: not without a hook; open the run by transformer_cli.Translator"
            )
        return self

    def protected_spans(self, text: str) -> Sequence[Span]:
        """Returns the spans of a text that pass untouched, from left to right.

        If there are any, each STAND_IN of the text is in one of them.
        """
        return ()

    def requirements(self, encoded: EncodedText, codecs: Codecs, *, may_constrain: bool) -> Requirements | None:
        """Returns what the translation of an encoded line has to have; None: nothing.

        may_constrain: whether there may be a second search.
        """
        return None


NO_HOOK = LineHook()


@dataclass(frozen=True)
class PreparedSentence:
    """A line, or a part of one, and what is searched for."""

    line: InputLine
    request: SearchRequest | None = None
    """None if nothing is read"""
    requirements: Requirements | None = None
    constrained_request: SearchRequest | None = None
    """what is searched for, too, if the translation lacks something"""


@dataclass(frozen=True, eq=False)
class TextPipeline:
    """The way from text to ids, and back, of one run and one way to translate; `with_settings` makes others of it."""

    codecs: Codecs
    language: str
    """the source's code"""
    max_length: int | None
    """the most positions that a sentence may take (None: no limit)"""
    takes_constraints: bool
    """whether a beam search can be given constraints"""
    settings: TranslationSettings
    hook: LineHook = NO_HOOK
    """that of the settings"""

    def with_settings(self, settings: TranslationSettings) -> "TextPipeline":
        """Returns the same way with other settings. Raises ConfigError or DataError as the hook does."""
        return replace(self, settings=settings, hook=self.hook.with_settings(settings))

    @cached_property
    def prefix(self) -> Ids:
        """The ids with which all translations begin. Raises DataError if the model cannot write them."""
        given, target = self.settings.prefix, self.codecs.target
        if not isinstance(given, str):
            for place, index in enumerate(given, start=1):
                is_end = index == EOS and place < len(given)  # <eos> may be the last one
                if index in UNWRITABLE or is_end or not 0 <= index < len(target):
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
                raise DataError(
                    f"prefix: the model cannot write {token!r}, which is not in its vocabulary; leave it out"
                )
        return tuple(prefix.ids)

    def protected_spans(self, text: str) -> Sequence[Span]:
        """Returns the spans of a text that pass untouched."""
        return self.hook.protected_spans(text)

    def encode(self, text: str, codec: Codec) -> EncodedText:
        """Returns a source, or a translation of one, as it is read by the codec of its side: without what is held."""
        return codec.encode(text, self.protected_spans(text))

    def line_encoder(self, remedy: str = TOO_LONG_REMEDY) -> LineEncoder:
        """Returns what makes lines fit for translation. remedy: what errors tell the user to do."""
        return LineEncoder(self.codecs.source, self.max_length, self.settings.on_too_long, self.protected_spans, remedy)

    def encode_text(self, text: str) -> InputLine:
        """Like `encode_line`, for a text that may have several lines: they are its parts, or their sentences are."""
        if "\n" not in text:
            return self.encode_line(text)
        if self.settings.n_best > 1:
            raise DataError("n_best is about one sentence, but the text has several lines; give each by itself")
        parts, kept, start, was_too_long = list[InputLine](), list[str](), 0, False
        for line in text.split("\n"):
            read = self.encode_line(line.removesuffix("\r"))
            parts += (replace(unit, start=start + unit.start) for unit in read.units)
            kept.append(read.sentence + "\r" * line.endswith("\r"))  # of one that is too long, its beginning
            start += len(kept[-1]) + 1
            was_too_long |= read.was_too_long
        return InputLine("\n".join(kept), NO_TOKENS, was_too_long, parts=parts)

    def encode_line(self, text: str) -> InputLine:
        """Returns a line as it is translated.

        Raises DataError if it or the prefix is too long, or as `refuse_lone_surrogates` does.
        """
        refuse_lone_surrogates(text)
        encoder = self.line_encoder()
        line = encoder.split_sentences(text, self.language) if self.settings.split_sentences else encoder.encode(text)
        if line.encoded and len(self.prefix) > (
            limit := max_target_tokens(self.settings, len(line.encoded), self.max_length)
        ):
            raise DataError(
                f"prefix has {len(self.prefix)} tokens, but the translation may have {limit}; shorten it, or raise "
                "max_tokens as far as the model's positions allow"
            )
        return line

    def prepare(self, line: InputLine, key: int) -> PreparedSentence:
        """Returns what is searched for where a line is read that is not split. key: what samples are drawn by."""
        read = line.encoded
        if not read:
            return PreparedSentence(line)
        may_constrain = self.takes_constraints and not self.settings.sample and EOS not in self.prefix[-1:]
        needs = self.hook.requirements(read, self.codecs, may_constrain=may_constrain)
        constraints = needs.constraints if needs else None
        more = constraints.min_tokens if constraints else 0
        limit = max_target_tokens(self.settings, len(read), self.max_length, more=more)
        request = SearchRequest(read.ids, limit, key, self.prefix)
        constrained = replace(request, constraints=constraints) if constraints else None
        return PreparedSentence(line, request, needs, constrained)

    def allowed_nats(self, sentence: PreparedSentence, found: Hypothesis) -> float:
        """Returns how many nats less likely a translation may be that lacks nothing; 0 if nothing is lacking."""
        needs = sentence.requirements
        return needs.allowed_nats(self._decode_text(sentence.line.encoded, found)) if needs else 0.0

    def decode(self, sentence: PreparedSentence, found: Sequence[Hypothesis]) -> Translation:
        """Returns the first hypothesis as text; the others are its alternatives."""
        line = sentence.line
        best, *others = (self._to_translation(sentence, each) for each in found)
        if line.is_copied:
            codec = self.codecs.target
            tokens = line.sentence.split() if line.was_too_long else codec.encode_raw(line.sentence).tokens
            placeholders = [(span, span) for span in self.protected_spans(line.sentence)]
            best = replace(best, text=line.sentence, tokens=tokens, placeholders=placeholders)
        return replace(best, alternatives=others, was_too_long=line.was_too_long)

    def _decode_text(self, read: EncodedText, found: Hypothesis) -> str:
        """Returns what the model wrote as text, in which source words stand for unknown ones."""
        attended = [read.tokens[index] for index in found.alignment]
        return self.codecs.target.decode(
            found.tokens, unk_replacements=None if self.settings.keep_unk else attended or None
        )

    def _to_translation(self, sentence: PreparedSentence, found: Hypothesis) -> Translation:
        target, line, needs = self.codecs.target, sentence.line, sentence.requirements
        read, normalized = line.encoded, line.encoded.normalized
        tokens = target.tokens(found.tokens)
        draft = Draft(read, self._decode_text(read, found), tokens, found.alignment, normalized.placeholders)
        if needs:
            draft = needs.edit(draft, len(target.decode(self.prefix)))
        cased = partial(upper, language=target.language) if normalized.all_caps else str
        text, placeholders = insert_placeholders(
            draft.text, normalized.text, draft.placeholders, draft.links if draft.placeholders else (), cased
        )
        terms: list[tuple[Span, Span | None]] = []
        if needs:
            text, terms = needs.finish(text, line.sentence, [one for one, _ in placeholders])
        before, after = surrounding_space(line.sentence) if read else ("", "")
        return Translation(
            source=line.sentence,
            source_tokens=read.tokens,
            text=before + text + after,
            tokens=tokens,
            log_prob=found.log_prob,
            score=found.score,
            source_ids=read.ids,
            ids=found.tokens,
            alignment=found.alignment,
            placeholders=[(one, shift_span(other, len(before))) for one, other in placeholders],
            terms=[(one, other and shift_span(other, len(before))) for one, other in terms],
            start=line.start,
        )


def join_parts(line: InputLine, parts: list[Translation]) -> Translation:
    """Returns the translation of a line that was split. Parts that were copied have no tokens in it, and no score."""
    read = [part for part in parts if part.source_tokens]
    firsts = accumulate((len(part.source_tokens) for part in read), initial=0)
    text = join_translations(
        line.sentence, [shift_span((0, len(part.source)), part.start) for part in parts], [p.text for p in parts]
    )
    placed = [*zip(parts, part_starts(text, parts), strict=True)]
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
        placeholders=[
            (shift_span(one, part.start), shift_span(other, first))
            for part, first in placed
            for one, other in part.placeholders
        ],
        terms=[
            (shift_span(one, part.start), other and shift_span(other, first))
            for part, first in placed
            for one, other in part.terms
        ],
        was_too_long=line.was_too_long or any(part.was_too_long for part in parts),
        sentences=parts,
    )


def part_starts(text: str, parts: Iterable[Translation]) -> Iterator[int]:
    """Yield where each translation begins in a text that they were joined to."""
    last = 0
    for part in parts:
        yield (start := text.index(part.text, last))
        last = start + len(part.text)
