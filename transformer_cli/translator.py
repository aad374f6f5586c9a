"""Translator: text → ids → search → text, in the order of the sentences. The only way from text to text.

Knows nothing of tables or pictures.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli.config.load import changed_decoding, checked, plain
from transformer_cli.config.schema import DecodingConfig
from transformer_cli.decoding.engine import Engine
from transformer_cli.decoding.interface import BeforeStep, Hypothesis, RequiredTerms, nothing
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.documents.amounts import missing_numbers
from transformer_cli.documents.glossary import Glossary, Term, forms, linked, replaced, term_spans
from transformer_cli.documents.held import Holder, Link, Span, overlap, put_back, token_spans, word_links
from transformer_cli.documents.long_lines import REMEDY, Line, LongLines, OnError, readable
from transformer_cli.documents.markup import Document
from transformer_cli.documents.sentences import join
from transformer_cli.errors import ConfigError, DataError, TfmError
from transformer_cli.runs.run import Facts, Run, differing_codecs, find_run
from transformer_cli.system import progress
from transformer_cli.text.codec import Encoded
from transformer_cli.text.lines import TOO_LONG, is_too_long
from transformer_cli.text.reading import Held, ends, is_spaceless, is_word, upper
from transformer_cli.text.vocabulary import EOS, UNK, UNWRITTEN

if TYPE_CHECKING:
    from transformer_cli.model.transformer import Transformer

CHUNK_TOKENS = 500_000  # a stream translates what it has read as soon as it has so many
NOTHING = Hypothesis([], [], 0.0, 0.0)  # of a blank line: no search writes it
LEAST_BEAM = 5  # places of a search with terms
MOST_TERMS = 20  # of a sentence, that are searched for; the others are put in
TOKENS_OF_WORD = 1  # of words that are searched for; names have more, and a search for them costs 3 chrF
PARTS = 1 << 32  # part n of line k of a text has the key k + n·PARTS, so the first part is sampled as its line would be
PIECES = 1 << 64  # piece m of that part, if a part is cut further, has k + n·PARTS + m·PIECES

Ids = Sequence[int]

Done = Callable[[int], object]
"""Is told how many more lines have been translated"""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What text goes in and comes out. SearchSettings says how a translation is searched for."""

    keep_unk: bool = False
    """leave `<unk>` in the text, instead of the source word that the decoder attends to most"""
    on_error: OnError = "stop"
    """what becomes of a line that is too long"""
    prefix: str | Sequence[int] = ""
    """what every translation begins with, except that of a line without a letter: ids, or text without white space at
    its ends"""
    split_sentences: bool = False
    """translate the sentences of a line one by one, with the white space that stands between them"""
    hold: bool = True
    """whether placeholders and addresses pass untouched"""
    hold_pattern: str = ""
    """a regular expression for what else does"""
    glossary: dict[str, str] = field(default_factory=dict)
    """translations of words and phrases: as in the files of `documents.glossary`"""

    def __post_init__(self) -> None:
        """Raises ConfigError if the pattern is none, DataError for an entry that is none."""
        _ = self.holder, self.terms

    @cached_property
    def terms(self) -> Glossary:
        """What finds the terms of a text."""
        return Glossary(self.glossary)

    @property
    def holder(self) -> Holder:
        """What finds all that passes untouched."""
        return Holder(self.hold, self.hold_pattern)


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
    """log-probability of the tokens; may be NaN without `SearchSettings.scores`"""
    score: float
    """what the translations of a sentence are compared by: log_prob / length^α, <eos> counted"""
    source_ids: list[int]
    """the ids of the source tokens, without <sos> and <eos>"""
    ids: list[int]
    """the ids of the decoder's tokens, without <sos> and <eos>"""
    alignment: list[int]
    """for each of the decoder's tokens, the index in source_tokens of the one that was attended to most;
    perhaps empty without `SearchSettings.attention`"""
    alternatives: list["Translation"] = field(default_factory=list)
    """the other ones of the n best, the best first; empty unless `SearchSettings.n_best` asks for several"""
    was_too_long: bool = False
    """whether the line was too long, so that `Options.on_error` says what the text is"""
    held: list[Link] = field(default_factory=list)
    """where what passed untouched stands in the sentence and in the text, in the latter's order"""
    terms: list[tuple[Span, Span | None]] = field(default_factory=list)
    """where each term of the glossary stands in the sentence, and its translation in the text (None: it does not)"""
    start: int = 0
    """where the sentence begins in its line, if that was split"""
    sentences: list["Translation"] | None = None
    """those of the line's sentences, if it was split; then log_prob is their sum and score their mean"""

    @property
    def tokens_on_one_line(self) -> str:
        """The tokens with a space between two of them; the space that a subword may begin with is written "▁"."""
        return " ".join(token.replace(" ", "▁") for token in self.tokens)

    @property
    def marks(self) -> dict[str, list[Any]]:
        """As JSON: what was held, the terms, and the numbers of the source that the text lacks; spans are lists."""
        return {
            "held": [{"source": list(source), "translation": list(place)} for source, place in self.held],
            "terms": [{"source": list(source), "translation": place and list(place)} for source, place in self.terms],
            "missing_numbers": list(map(list, missing_numbers(self.source, self.text))),
        }


class Translator:
    """A trained run, or an ensemble of several, ready to translate."""

    def __init__(self, run: Run, device: str = "auto", *, others: Sequence[Run] = ()) -> None:
        """Loads the checkpoint with the best validation loss. Raises CheckpointError, DeviceError.

        device: auto, cpu, cuda, cuda:N or mps. others: runs whose models translate together with the first one's;
        raises ConfigError if their codecs differ, or if one of them is exported.
        """
        for each in (run, *others):
            each.say_other_tokenizer()
        self.run = run
        self.runs = [run, *others]
        self.engine, self.checkpoints = _open_engine((run, *others), device)
        self.options = Options()
        self._before_step: BeforeStep = nothing
        self.settings = SearchSettings(decoding=run.config.decoding)  # as the (first) run's own config says

    @staticmethod
    def load(run: str | Path | None = None, *others: str | Path, device: str = "auto") -> "Translator":
        """Load a run by its folder or its name under runs/, or (None) the newest run; with others, an ensemble."""
        first, *rest = (Run.open(find_run(each)) for each in (run, *others))
        return Translator(first, device, others=rest)

    def into(self, language: str | None) -> "Translator":
        """Returns a translator with the same models into one of several languages; see `Run.into`."""
        other = copy(self)
        other.run = self.run.into(language)
        return other

    def with_terms(self, glossary: Mapping[str, str]) -> "Translator":
        """Returns a translator with the same models, and these terms besides those that it has. Raises DataError."""
        return self.with_options(glossary={**self.options.glossary, **glossary}) if glossary else self

    def with_options(self, **named: object) -> "Translator":
        """Returns a translator with the same models and other options, named as on the command line.

        For example, `translator.with_options(beam_size=5, length_penalty=0.6, n_best=3, prefix="The")`. All fields of
        Options, SearchSettings and DecodingConfig have such names; those that are not named stay as they are. Raises
        ConfigError for another name, or for a value that an option cannot have.
        """
        of_text, of_search = (  # as they are now, or as they are named
            {field.name: plain(named.pop(field.name, getattr(now, field.name))) for field in fields(now)}
            for now in (self.options, self.settings)
        )
        if isinstance(of_search["decoding"], DecodingConfig):  # else `checked` says so
            of_search["decoding"] = changed_decoding(of_search["decoding"], named)
        other = copy(self)
        other.options, other.settings = checked(Options, of_text), checked(SearchSettings, of_search)
        return other

    @property
    def model(self) -> "Transformer":
        """The (first) run's model. Raises ConfigError if the run is exported: it has none of ours."""
        return self.engine.models[0]

    @property
    def max_length(self) -> int | None:
        """The most positions that a sentence may take, <sos> and <eos> included (None: no limit)."""
        return self.engine.max_length

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Returns the translation of each sentence as plain text; the translation of a blank line is empty."""
        return [
            translation.text for translation in self.with_options(scores=False, attention=False).translations(sentences)
        ]

    def translations(self, sentences: Sequence[str]) -> list[Translation]:
        """Returns the translation of each sentence, with tokens and log-probability.

        Raises DataError for a line that is too long, or a prefix that the model cannot write.
        """
        prefix = self._begin()
        return self._translate_all(list(self._read(sentences, prefix, 1)), prefix)

    def translate_html(self, html: str) -> str:
        """Returns a page, or a fragment of one, with its text translated, sentence by sentence.

        Raises DataError for a word that is too long, and ConfigError for options that are about one sentence.
        """
        languages = self.run.config.data.source, self.run.config.data.into
        document = Document.parse(html, languages)
        texts, language = [block.text for block in document.blocks], languages[0]
        holder = self.options.holder
        spans = [readable(text, language, holder) if is_too_long(text) else [(0, len(text))] for text in texts]
        lines = [text[start:end] for text, cuts in zip(texts, spans, strict=True) for start, end in cuts]
        translator = self.with_options(split_sentences=True, scores=False)
        name = "blocks of text, one a line"
        with progress.bar("translate", len(lines), " texts") as bar:
            found = list(translator.stream(lines, chunk=max(1, len(lines)), name=name, done=bar.update))
        if self.options.on_error == "copy":  # all of it, also what was not read
            copied = zip(found, lines, strict=True)
            found = [replace(each, source=line, text=line) if is_too_long(line) else each for each, line in copied]
        left = iter(found)
        parts = [[next(left) for _ in cuts] for cuts in spans]
        if n_too_long := sum(any(each.was_too_long for each in of_block) for of_block in parts):
            log.warning("blocks of text that were too long, of %d: %d", len(texts), n_too_long)
        return document.render(list(map(whole, texts, spans, parts)))

    def translate_encoded(self, sentences: Sequence[str], encoded: Sequence[Encoded]) -> list[Translation]:
        """Like `translations`, for sentences that the run's source codec has encoded already, with nothing held out."""
        long_lines, spans = self.long_lines(), self.options.holder.spans
        pairs = zip(sentences, encoded, strict=True)
        lines = [long_lines.line(line) if spans(line) else long_lines.encoded(line, read) for line, read in pairs]
        return self._translate_all(lines, self._begin())

    def translate_lines(
        self, lines: Sequence[Line], settings: SearchSettings, *, keys: Sequence[int]
    ) -> list[Translation]:
        """Like `translations`, for lines, or parts of them, that are fit for translation.

        keys: what the samples of each are drawn by, as PARTS says.
        """
        searching = copy(self)
        searching.settings = settings
        return searching._translate(lines, searching._begin(), keys, lambda n_lines: None, PIECES)

    def calling(self, before_step: BeforeStep) -> "Translator":
        """Returns a translator whose searches call this before each step, and end when it raises."""
        other = copy(self)
        other._before_step = before_step
        return other

    def stream(
        self,
        lines: Iterable[str],
        *,
        chunk: int,
        name: str = "",
        first_line: int = 1,
        done: Done = lambda n_lines: None,
    ) -> Iterator[Translation]:
        """Translate lines as they come, `chunk` at a time. Yields one translation per line, in their order.

        chunk: at least 1. name: what errors call the text. first_line: the number of the first line, which begins a
        chunk of a longer text: so the translations are those of the whole text. done: is told how many more lines are
        translated, before they are yielded. An error is raised when all lines before it have been translated.
        """
        prefix = self._begin()
        reading = self._read(lines, prefix, first_line, name)
        failure: TfmError | None = None
        while failure is None:
            waiting: list[Line] = []
            left = chunk - (first_line - 1) % chunk  # up to the end of the chunk, also where CHUNK_TOKENS has cut it
            try:
                n_tokens = 0
                while len(waiting) < left and n_tokens < CHUNK_TOKENS:
                    waiting.append(next(reading))
                    n_tokens += sum(len(unit.read) for unit in waiting[-1].units)
            except StopIteration:
                if not waiting:
                    return
            except TfmError as error:
                failure = error
            yield from self._translate(waiting, prefix, range(first_line - 1, first_line - 1 + len(waiting)), done)
            first_line += len(waiting)
        raise failure

    def long_lines(self, remedy: str = REMEDY) -> LongLines:
        """Returns what makes lines fit for translation. remedy: what errors tell the user to do."""
        return LongLines(self.run.codecs.source, self.max_length, self.options.on_error, self.options.holder, remedy)

    def _begin(self) -> list[int]:
        """Returns the ids with which all translations of a call begin.

        Raises ConfigError for what the engine cannot do, DataError for a prefix that the model cannot write.
        """
        if self.options.split_sentences and (self.settings.n_best > 1 or self.options.prefix):
            raise ConfigError(
                "split_sentences: n_best and prefix are about one sentence; leave them out, or give each sentence as a "
                "line of its own"
            )
        self.engine.refuse(self.settings)
        given = self.options.prefix
        if not isinstance(given, str):
            for place, index in enumerate(given, start=1):
                is_end = index == EOS and place < len(given)  # <eos> may be the last one
                if index in UNWRITTEN or is_end or not 0 <= index < len(self.run.codecs.target):
                    raise DataError(f"prefix: {index} is not the id of a token that the model can write")
            return [*given]
        text = given.strip()
        if not text:
            return []
        if is_too_long(text):
            raise DataError(f"--prefix has {TOO_LONG}; shorten it")
        prefix = self.run.codecs.target.encode_as_it_is(text)
        for token, index in zip(prefix.tokens, prefix.ids, strict=True):
            if index == UNK:
                raise DataError(
                    f"--prefix: the model cannot write {token!r}, which is not in its vocabulary; leave it out"
                )
        return prefix.ids

    def _read(self, lines: Iterable[str], prefix: Ids, first_line: int, name: str = "") -> Iterator[Line]:
        """Yield each line as it is translated. Raises DataError, which names the line."""
        if isinstance(lines, str):  # a str is a sequence of one-letter sentences
            raise TypeError(f"expected a list of sentences, such as [{lines!r}], not one str")
        long_lines = self.long_lines()
        for number, sentence in enumerate(lines, start=first_line):
            try:
                if self.options.split_sentences:
                    line = long_lines.split(sentence, self.run.config.data.source)
                else:
                    line = long_lines.line(sentence)
                limit = self.settings.limit(len(line.read), self.max_length)
                if line.read and len(prefix) > limit:
                    raise DataError(
                        f"--prefix has {len(prefix)} tokens, but the translation may have {limit}; shorten it, or "
                        "raise --max-tokens as far as the model's positions allow"
                    )
            except DataError as error:
                raise DataError(f"{name}{': ' if name else ''}line {number}: {error}") from None
            yield line

    def _translate_all(self, lines: Sequence[Line], prefix: Ids) -> list[Translation]:
        with progress.bar("translate", len(lines), " sentences") as bar:
            return self._translate(lines, prefix, range(len(lines)), bar.update)

    def _translate(
        self, lines: Sequence[Line], prefix: Ids, keys: Sequence[int], done: Done, step: int = PARTS
    ) -> list[Translation]:
        """Returns the translation of each line.

        keys: what their samples are drawn by; step: by how much those of a line's parts differ. done: as in `stream`.
        """
        units = [unit for line in lines for unit in line.units]
        unit_keys = [key + n * step for key, line in zip(keys, lines, strict=True) for n in range(len(line.units))]
        line_of = [number for number, line in enumerate(lines) for _ in line.units]
        left = [len(line.units) for line in lines]  # those that are not yet translated
        terms = [self._terms(unit) for unit in units]
        written: dict[int, Translation] = {}

        def write(rows: Sequence[int], found: Iterable[Sequence[Hypothesis]]) -> None:
            n_done = 0
            for row, hypotheses in zip(rows, found, strict=True):
                written[row] = self._translation(units[row], hypotheses, terms[row], prefix)
                left[line_of[row]] -= 1
                n_done += not left[line_of[row]]
            done(n_done)

        done(left.count(0))
        blank = [row for row, unit in enumerate(units) if not unit.read]
        write(blank, [[NOTHING]] * len(blank))
        is_open = EOS not in prefix[-1:]  # else nothing can be added to what is forced
        required = {row: own for row, unit in enumerate(units) if is_open and (own := self._required(unit, terms[row]))}
        plain = [row for row, unit in enumerate(units) if unit.read and row not in required]
        for group in filter(None, (plain, [*required])):
            needs_attention = any(units[row].read.reading.held or terms[row] for row in group)  # to be put back by it
            wanted, decoding = [required[row] for row in group if row in required], self.settings.decoding
            if wanted:
                decoding = changed_decoding(decoding, {"beam_size": max(decoding.beam_size, LEAST_BEAM)})
            searching = self.engine.translate(
                [units[row].read.ids for row in group],
                replace(self.settings, decoding=decoding, attention=self.settings.attention or needs_attention),
                prefix=prefix,
                keys=[unit_keys[row] for row in group],
                terms=wanted,
                before_step=self._before_step,
            )
            for rows, found in searching:  # others are searched for while these are written
                write([group[row] for row in rows], found)
        each = iter(written[row] for row in range(len(units)))
        return [next(each) if line.parts is None else _joined(line, [next(each) for _ in line.parts]) for line in lines]

    def _terms(self, line: Line) -> list[Term]:
        """Returns the terms of what is read of a line."""
        reading, source = line.read.reading, self.run.codecs.source
        return self.options.terms.find(reading.text, any_case=reading.in_capitals or source.lowercase)

    def _required(self, line: Line, terms: Sequence[Term]) -> RequiredTerms | None:
        """Returns what the search has to write for a line with these terms; None where that is nothing."""
        spelled = [(each.span, ids) for each in terms if (ids := self._spelled(each))][:MOST_TERMS]
        if not spelled or not self.engine.writes_terms or self.settings.decoding.sample:
            return None
        spans = token_spans(line.read.reading.text, line.read.tokens)
        places = [  # position 0 is <sos>
            frozenset(n for n, one in enumerate(spans, start=1) if one and overlap(one, span)) for span, _ in spelled
        ]
        return RequiredTerms(tuple(ids for _, ids in spelled), tuple(places), self._continuing)

    def _spelled(self, term: Term) -> tuple[tuple[int, ...], ...]:
        """Returns the ids of the translations of a term that are words that the model knows."""
        target = self.run.codecs.target
        texts = [form for each in term.translations for form in forms(each) if not is_spaceless(each[0])]
        ids = [tuple(target.encode_as_it_is(each).ids) for each in texts]
        return tuple(
            each
            for each, text in zip(ids, texts, strict=True)
            if target.text(each) == text and len(each) <= TOKENS_OF_WORD * len(text.split())
        )

    @cached_property
    def _continuing(self) -> frozenset[int]:
        """The ids of subwords that go on with a word."""
        target = self.run.codecs.target
        tokens = target.tokens(range(len(target)))
        are_words = not any(token.startswith(" ") for token in tokens)
        return frozenset(n for n, each in enumerate(tokens) if is_word(each[:1]) and not are_words)

    def _translation(self, line: Line, found: Sequence[Hypothesis], terms: Sequence[Term], prefix: Ids) -> Translation:
        """Returns the first hypothesis as text; the others are its alternatives."""
        best, *others = (self._written(line, each, terms, prefix) for each in found)
        if line.is_copied:
            codec = self.run.codecs.target
            tokens = line.sentence.split() if line.was_too_long else codec.encode_as_it_is(line.sentence).tokens
            held = [(span, span) for span in self.options.holder.spans(line.sentence)]
            best = replace(best, text=line.sentence, tokens=tokens, held=held)
        return replace(best, alternatives=others, was_too_long=line.was_too_long)

    def _written(self, line: Line, found: Hypothesis, terms: Sequence[Term], prefix: Ids) -> Translation:
        target, read, source = self.run.codecs.target, line.read, line.read.reading.text
        alignment = [position - 1 for position in found.attended]  # position 0 is <sos>
        attended = (
            [read.tokens[position] for position in alignment] if alignment and not self.options.keep_unk else None
        )
        text, tokens = target.text(found.tokens, instead=attended), target.tokens(found.tokens)
        standing = term_spans(terms, text)
        further = [term for term, place in zip(terms, standing, strict=True) if not place]
        if further:  # what was not searched for, or not found
            links = word_links(source, read.tokens, text, tokens, alignment)
            begun = len(target.text(prefix))
            text, further = replaced(text, further, links, [(0, begun), *filter(None, standing)])
            of_prefix = linked(further, [link for link in links if link[1][0] < begun])  # which the user has written
            further = [term for term, own in zip(further, of_prefix, strict=True) if not own]
        spaces = [Held(each.span[0], each.translations[0], " ", " ") for each in further]
        all_held = sorted([*read.reading.held, *spaces], key=lambda each: each.place)
        cased = partial(upper, language=target.language) if read.reading.in_capitals else str
        links = word_links(source, read.tokens, text, tokens, alignment) if all_held else []
        text, held = put_back(text, source, all_held, links, cased)
        before, after = ends(line.sentence) if read else ("", "")
        text = before + text + after
        of_source = [replace(term, translations=(source[slice(*term.span)],)) for term in terms]
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
            held=[(one, _moved(other, len(before))) for one, other in held],
            terms=[
                (one or (0, 0), other)
                for one, other in zip(term_spans(of_source, line.sentence), term_spans(terms, text), strict=True)
            ],
            start=line.start,
        )


def whole(text: str, spans: Sequence[Span], translations: Sequence[Translation]) -> tuple[str, list[Link]]:
    """Returns the translation of a text, and which characters of both belong to each other, in the latter's order.

    spans: which parts of the text the translations are of.
    """
    translated = join(text, spans, [each.text for each in translations])
    units = [
        (origin + each.start, each)
        for (origin, _), translation in zip(spans, translations, strict=True)
        for each in ([translation] if translation.sentences is None else translation.sentences)
    ]
    links: list[Link] = []
    for (place, each), first in zip(units, _starts(translated, [each for _, each in units]), strict=True):
        found = word_links(each.source, each.source_tokens, each.text, each.tokens, each.alignment, each.held)
        links += ((_moved(one, place), _moved(other, first)) for one, other in found)
    return translated, links


def _starts(text: str, parts: Iterable[Translation]) -> Iterator[int]:
    """Yield where each translation begins in a text that they were joined to."""
    last = 0
    for part in parts:
        yield (start := text.index(part.text, last))
        last = start + len(part.text)


def _moved(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def _joined(line: Line, parts: list[Translation]) -> Translation:
    """Returns the translation of a line that was split. Parts that were copied have no tokens in it, and no score."""
    read = [part for part in parts if part.source_tokens]
    firsts = accumulate((len(part.source_tokens) for part in read), initial=0)
    text = join(line.sentence, [_moved((0, len(part.source)), part.start) for part in parts], [p.text for p in parts])
    placed = [*zip(parts, _starts(text, parts), strict=True)]
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
        held=[(_moved(one, part.start), _moved(other, first)) for part, first in placed for one, other in part.held],
        terms=[
            (_moved(one, part.start), other and _moved(other, first))
            for part, first in placed
            for one, other in part.terms
        ],
        was_too_long=line.was_too_long or any(part.was_too_long for part in parts),
        sentences=parts,
    )


def _open_engine(runs: Sequence[Run], device: str) -> tuple[Engine, list[str]]:
    """Load the best weights of a run, or of several that translate together. Returns also their checkpoints' names.

    Imports torch for runs alone. Raises CheckpointError, DeviceError, and ConfigError if codecs differ or if one of
    several is exported.
    """
    first, *others = runs
    if first.exported and not others:
        return _exported(first, first.exported, device), [first.best_name]
    for run in runs:
        if run.exported:
            raise ConfigError(
                f"{run.folder}: an exported model translates alone; make an ensemble of the runs themselves"
            )
        if run.codecs != first.codecs:
            differing = differing_codecs(first.config.data, run.config.data) or "other vocabularies"
            raise ConfigError(
                f"{first.folder} and {run.folder} cannot translate together, because their codecs differ "
                f"({differing}); name runs of one dataset"
            )
    from transformer_cli.compute.devices import choose_device
    from transformer_cli.decoding.decoder import TransformerEngine
    from transformer_cli.runs.checkpoints import load_named_best

    chosen = choose_device(device)
    names, models = zip(*(load_named_best(each, chosen) for each in runs), strict=True)
    return TransformerEngine(models), [*names]


def _exported(run: Run, facts: Facts, device: str) -> Engine:
    from transformer_cli.decoding.ctranslate2 import CTranslate2Engine

    engine = CTranslate2Engine(
        run.folder,
        device,
        positions=facts.positions,
        source=run.codecs.source.names(),
        target=run.codecs.target.names(),
    )
    kept, now = facts.quantization, engine.computes_in
    if kept not in now:
        why = f"in which this {engine.device} is slow or inexact"
        log.info("%s: weights in %s, %s: computes in %s", run.folder, kept, why, now)
    return engine
