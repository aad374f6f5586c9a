"""Translator: text → ids → search → text, in the order of the sentences. All translation goes through it.

pipeline.py turns a line into a search request, and a hypothesis into a translation.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, overload

from transformer_cli.config.load import translation_settings
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import ArgumentError, CheckpointError, ConfigError, DataError, TfmError
from transformer_cli.pipeline import NO_HOOK, LineHook, PreparedSentence, TextPipeline, Translation, join_parts
from transformer_cli.runs.run import Run, differing_codecs
from transformer_cli.search.protocols import BeforeStep, Engine, Hypothesis, SearchRequest, never_stop
from transformer_cli.search.rules import max_target_tokens
from transformer_cli.system import progress
from transformer_cli.system.arguments import check_list
from transformer_cli.text.codec import EncodedText
from transformer_cli.text.line_encoder import InputLine
from transformer_cli.text.vocabulary import UNK

if TYPE_CHECKING:
    from transformer_cli.model.transformer import Transformer

MAX_PENDING_TOKENS = 500_000  # a stream translates the lines that it has read as soon as they have so many
# The key of a sentence seeds its samples. Part n of line k has the key k + n·PART_KEY_STEP, so the first part has the
# key of its line; piece m of that part, if it is cut further, has k + n·PART_KEY_STEP + m·PIECE_KEY_STEP.
PART_KEY_STEP, PIECE_KEY_STEP = 1 << 32, 1 << 64
EMPTY_HYPOTHESIS = Hypothesis([], [], 0.0, 0.0)  # for a sentence that needs no search

Same = TypeVar("Same", bound="Translator")
OnProgress = Callable[[int], object]
"""called with the number of lines that have been translated since the last call"""


class Translator:
    """A trained run, or an ensemble of several, ready to translate."""

    def __init__(
        self, runs: Sequence[Run], engine: Engine, checkpoints: Sequence[str], hook: LineHook = NO_HOOK
    ) -> None:
        """runs: one, or those of an ensemble. engine: has their models. checkpoints: their names."""
        self.run, self.runs, self.engine, self.checkpoints = runs[0], [*runs], engine, [*checkpoints]
        self.settings = translation_settings(self.run.config.decoding, {})  # from the (first) run's config
        language, takes_constraints = self.run.config.data.input_language, engine.takes_constraints
        hook = hook.with_settings(self.settings)
        codecs, lengths = self.run.codecs, self.run.metadata.lengths
        self.pipeline = TextPipeline(codecs, language, self.max_length, takes_constraints, self.settings, hook, lengths)
        self._before_step: BeforeStep = never_stop

    def __repr__(self) -> str:
        data, settings = self.run.config.data, self.settings
        names = " + ".join(f"{run.folder}/{name}" for run, name in zip(self.runs, self.checkpoints, strict=True))
        languages = f"{data.input_language} → {data.output_language}"
        return f"Translator({names}: {languages}, {settings.describe}, on {self.engine.device})"

    def for_target(self: Same, language: str | None) -> Same:
        """Returns a translator with the same models and another target language; see `Run.for_target`."""
        other = copy(self)
        other.run = self.run.for_target(language)
        language = other.run.config.data.input_language
        other.pipeline = replace(self.pipeline, codecs=other.run.codecs, language=language)
        return other

    def with_terms(self: Same, glossary: Mapping[str, str]) -> Same:
        """Returns a translator with the same models and further terms. Raises DataError."""
        return self.with_options(glossary={**self.settings.glossary, **glossary}) if glossary else self

    def with_options(self: Same, *overrides: str, **named: object) -> Same:
        """Returns a translator with the same models and other settings.

        For example, `translator.with_options(beam_size=5, length_penalty=0.6, n_best=3, prefix="The")`. named: fields
        of TranslationSettings; the others stay as they are. overrides: as after --set, such as "decoding.top_k=3".
        Raises ConfigError for an unknown name or a wrong value, and DataError for a wrong entry of a glossary.
        """
        other = copy(self)
        other.settings = translation_settings(self.settings, named, overrides)
        other.pipeline = self.pipeline.with_settings(other.settings)
        return other

    @property
    def model(self) -> "Transformer":
        """The (first) run's model. Raises ConfigError if the run is exported, and so has no PyTorch model."""
        return self.engine.models[0]

    @property
    def max_length(self) -> int | None:
        """Number of positions that a sentence may take, <sos> and <eos> included (None: no limit)."""
        return self.engine.max_length

    @overload
    def translate(self, sentences: str, **options: object) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, sentences: Iterable[str], **options: object) -> list[str]: ...
    def translate(self, sentences: str | Iterable[str], **options: object) -> str | list[str]:
        """Returns the translation of a sentence, or a list with that of each, as plain text.

        A blank line stays blank. A sentence may have several lines. They are translated one by one, in this and all
        other methods. options: as in `with_options`, such as beam_size=5, for this call only.
        """
        given = [sentences] if isinstance(sentences, str) else sentences
        translator = self.with_options(**{"return_scores": False, "return_attention": False, **options})
        texts = [translation.text for translation in translator.translate_detailed(given)]
        return texts[0] if isinstance(sentences, str) else texts

    def translate_detailed(self, sentences: Iterable[str], *, places: Sequence[str] = ()) -> list[Translation]:
        """Returns the translation of each sentence, with tokens and log-probability.

        places: of the sentences, in error messages, instead of "line 1" and so on. Raises DataError for a line that is
        too long, or a prefix that the model cannot write.
        """
        check_list("sentences", sentences)
        self._check()
        encoded = self._encode_lines(sentences, 1, lambda n: places[n - 1] if places else f"line {n}", lambda: False)
        return self._translate_all(list(encoded))

    def translate_encoded(self, sentences: Sequence[str], encoded: Sequence[EncodedText]) -> list[Translation]:
        """Like `translate_detailed`, for sentences that `TextPipeline.encode` has encoded already."""
        self._check()
        return self._translate_all(list(map(self.pipeline.line_encoder().from_encoded, sentences, encoded)))

    def _translate_all(self, lines: Sequence[InputLine]) -> list[Translation]:
        with progress.bar("translate", len(lines), " sentences") as bar:
            return self._translate(lines, range(len(lines)), bar.update)

    def translate_lines(self, lines: Sequence[InputLine], *, keys: Sequence[int]) -> list[Translation]:
        """Like `translate_detailed`, for lines, or parts of lines, that are encoded.

        keys: seed the samples of each; see PART_KEY_STEP.
        """
        self._check()
        return self._translate(lines, keys, lambda n_lines: None, PIECE_KEY_STEP)

    def with_callback(self: Same, before_step: BeforeStep) -> Same:
        """Returns a translator whose searches call this before each step, and stop when it raises."""
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
        on_progress: OnProgress = lambda n_lines: None,
        must_wait: Callable[[], bool] = lambda: False,
    ) -> Iterator[Translation]:
        """Translate lines as they come, `chunk` at a time. Yields one translation per line, in their order.

        chunk: at least 1. name: the text's name in error messages. first_line: number of the first line, if the lines
        continue a longer text; if a chunk of that text begins there, the translations are the same as in it.
        on_progress is called before the translations are yielded. must_wait: whether the next line has not arrived yet;
        then the lines read so far are translated first. The lines before an error are translated before it is raised.
        """
        check_list("lines", lines)
        if chunk < 1:
            raise ArgumentError(f"Translator.stream: chunk: {chunk}, where at least 1 is wanted")
        self._check()
        encoded = self._encode_lines(lines, first_line, lambda n: f"{name}{': ' if name else ''}line {n}", must_wait)
        failure: TfmError | None = None
        while failure is None:
            pending: list[InputLine] = []
            n_left = chunk - (first_line - 1) % chunk  # in this chunk, which MAX_PENDING_TOKENS may have divided
            try:
                n_tokens = 0
                while len(pending) < n_left and n_tokens < MAX_PENDING_TOKENS:
                    pending.append(next(encoded))
                    n_tokens += sum(len(unit.encoded) for unit in pending[-1].units)
                    if must_wait():
                        break
            except StopIteration:
                if not pending:
                    return
            except TfmError as error:
                failure = error
            yield from self._translate(pending, range(first_line - 1, first_line - 1 + len(pending)), on_progress)
            first_line += len(pending)
        raise failure

    def _check(self) -> None:
        """Raises ConfigError for unsupported settings, DataError for a prefix that the model cannot write."""
        if self.settings.split_sentences and (self.settings.n_best > 1 or self.settings.prefix):
            raise ConfigError(
                "split_sentences cannot be combined with n_best or prefix; leave them out, or give each sentence as a "
                "line of its own"
            )
        self.engine.check_supported(self.settings)
        _ = self.pipeline.prefix

    def _encode_lines(
        self, lines: Iterable[str], first_line: int, place_of: Callable[[int], str], must_wait: Callable[[], bool]
    ) -> Iterator[InputLine]:
        """Yield each line, or text of several lines, encoded. Raises DataError with `place_of` its number."""

        def checked() -> Iterator[str]:
            for number, line in enumerate(lines, start=first_line):
                if not isinstance(line, str):
                    raise ArgumentError(f"line {number}: {line!r}, where a str is wanted")
                yield line

        numbered = self.pipeline.hook.with_list_numbers(checked(), must_wait)
        for number, (sentence, list_number) in enumerate(numbered, start=first_line):
            try:
                line = self.pipeline.encode_text(sentence, list_number)
            except DataError as error:
                raise DataError(f"{place_of(number)}: {error}") from None
            yield line

    def _translate(
        self, lines: Sequence[InputLine], keys: Sequence[int], on_progress: OnProgress, step: int = PART_KEY_STEP
    ) -> list[Translation]:
        """Returns the translation of each line. keys: seed its samples. step: between the keys of a line's parts."""
        pipeline = self.pipeline
        sentences = [
            pipeline.prepare(unit, key + n * step)
            for key, line in zip(keys, lines, strict=True)
            for n, unit in enumerate(line.units)
        ]
        line_of = [number for number, line in enumerate(lines) for _ in line.units]
        n_left = [len(line.units) for line in lines]  # units of each line that are not yet translated
        translations: dict[int, Translation] = {}
        on_progress(n_left.count(0))
        for row, found in self._search(sentences):
            translations[row] = pipeline.decode(sentences[row], found)
            n_left[line_of[row]] -= 1
            on_progress(int(not n_left[line_of[row]]))
        parts = iter(translations[row] for row in range(len(sentences)))
        return [
            next(parts) if line.parts is None else join_parts(line, [next(parts) for _ in line.parts]) for line in lines
        ]

    def _search(self, sentences: Sequence[PreparedSentence]) -> Iterator[tuple[int, Sequence[Hypothesis]]]:
        """Yield the number of each sentence and its hypotheses, in any order.

        A sentence whose translation does not meet its requirements is searched again at the end, with constraints.
        """
        settings = self.settings
        if any(each.line.encoded.normalized.placeholders or each.requirements for each in sentences):
            settings = settings.model_copy(update={"return_attention": True})  # to know where to insert them
        if any(each.constrained_request for each in sentences):
            settings = settings.model_copy(update={"return_scores": True})  # for `allowed_nats`

        requests = {row: each.request for row, each in enumerate(sentences) if each.request}
        yield from ((row, [EMPTY_HYPOTHESIS]) for row in range(len(sentences)) if row not in requests)
        first_found: dict[int, tuple[list[Hypothesis], float]] = {}  # that are incomplete, and their allowed_nats
        while requests:  # at most twice
            rows, constrained = [*requests], dict[int, SearchRequest]()
            batches = self.engine.translate([*requests.values()], settings, before_step=self._before_step)
            for row, found in ((rows[place], found) for batch in batches for place, found in zip(*batch, strict=True)):
                each = sentences[row]
                if row in first_found:
                    first, allowed = first_found[row]
                    yield row, found if found and first[0].log_prob - found[0].log_prob <= allowed else first
                elif each.constrained_request and (allowed := self.pipeline.allowed_nats(each, found[0])):
                    first_found[row], constrained[row] = (found, allowed), each.constrained_request
                else:
                    yield row, found  # the caller decodes it while the search goes on
            requests = constrained


def open_models(runs: Sequence[Run], device: str) -> tuple[Engine, list[str]]:
    """Load the best weights of a run, or of an ensemble. Returns also the names of their checkpoints.

    Raises CheckpointError, DeviceError, and ConfigError if codecs differ or if one of several runs is exported.
    """
    from transformer_cli.compute.devices import choose_device
    from transformer_cli.runs.checkpoints import load_best
    from transformer_cli.search.decoder import TransformerEngine  # imports torch, which exported runs do not need

    first = runs[0]
    for run in runs if len(runs) > 1 else ():
        if run.exported:
            raise ConfigError(f"{run.folder}: an exported model cannot be part of an ensemble; use the runs themselves")
        if run.codecs != first.codecs:
            differing = differing_codecs(first.config.data, run.config.data) or "other vocabularies"
            raise ConfigError(
                f"{first.folder} and {run.folder} cannot translate together, because their codecs differ "
                f"({differing}); name runs of one dataset"
            )
    chosen = choose_device(device)
    names, models = zip(*(load_best(each, chosen) for each in runs), strict=True)
    return TransformerEngine(models), [*names]


def refuse_not_finite(engine: Engine, runs: Sequence[Run]) -> None:
    """Translate a word. Raises CheckpointError, which names the runs, if its log-probability is not finite."""
    settings = TranslationSettings(max_tokens=4)
    word = SearchRequest([UNK], max_target_tokens(settings, 1, engine.max_length))
    if not all(math.isfinite(one.log_prob) for _, found in engine.translate([word], settings) for one in found[0]):
        folders = ", ".join(str(run.folder) for run in runs)
        raise CheckpointError(f"{folders}: its weights give numbers that are not finite; train it, or export it, again")


RunLike = str | Path | Run | Translator
"""a run's name or folder, an open run, or a translator"""
