"""The engine for exported models: ids in, hypotheses and log-probabilities out. The one owner of CTranslate2.

CTranslate2 has its own search; docs/decisions/decoding.md lists how it differs from tfm's, and what is corrected and
refused here. Knows tokens only by their names.
"""

import logging
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from transformer_cli.compute.devices import catch_oom, int8_sums_overflow, parse_device
from transformer_cli.compute.threads import count_threads
from transformer_cli.config.schema import DecodingConfig, ModelConfig, TranslationSettings
from transformer_cli.errors import CheckpointError, ConfigError, FileError
from transformer_cli.runs.folder import as_checkpoint_error
from transformer_cli.runs.run import Run
from transformer_cli.search.batches import BATCH_POSITIONS, batch_too_large, batches_longest_first
from transformer_cli.search.protocols import BeforeStep, Hypothesis, SearchRequest, SearchResult, never_stop
from transformer_cli.search.rules import score
from transformer_cli.system.files import read_json
from transformer_cli.text.vocabulary import EOS, SOS, SPECIALS, SUPPRESSED, UNK

if TYPE_CHECKING:
    from transformer_cli.model.transformer import Transformer

FORBIDDEN_SCORE = -1e9  # a hypothesis with a lower log-probability has a forbidden token
SEARCH_SETTINGS = {  # the keys of `decoding` that this engine obeys or, in `check_supported`, refuses
    *("beam_size", "length_penalty", "no_repeat_ngram_size", "precision"),
    *("sample", "temperature", "top_k", "top_p", "seed"),
}
SHARED_VOCABULARY = "shared_vocabulary.json"
LAYER_NORM_EPSILON = 1e-5  # torch's, in each LayerNorm
FULL_BATCH_BEAM = 4  # with a larger beam, a batch has fewer sentences, so that it does not take more time

log = logging.getLogger(__name__)

Pending = list[list[Any]]  # lists of asynchronous results


def import_ctranslate2() -> ModuleType:
    """Returns the library. Raises ConfigError if it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise ConfigError(
            "CTranslate2, which exported models need, is not installed; run `pip install 'ctranslate2>=4.8.2'`"
        ) from None
    return ctranslate2


def open_exported(run: Run, device: str) -> "CTranslate2Engine":
    """Open the model of an exported run. Raises CheckpointError, ConfigError, DeviceError."""
    assert run.exported, run.folder
    with as_checkpoint_error(run.folder):
        _verify_settings(run)
    engine = CTranslate2Engine(
        run.folder,
        device,
        positions=run.exported.positions,
        source=run.codecs.source.all_tokens(),
        target=run.codecs.target.all_tokens(),
    )
    stored, used = run.exported.quantization, engine.compute_type
    if stored not in used:
        why = f"in which this {engine.device} is slow or inexact"
        log.info("%s: computes in %s; the weights are in %s, %s", run.folder, used, stored, why)
    return engine


def format_settings(config: ModelConfig) -> dict[str, Any]:
    """Returns CTranslate2's settings for a model: part of its config.json."""
    return {
        "unk_token": SPECIALS[UNK],
        "eos_token": SPECIALS[EOS],
        "bos_token": SPECIALS[SOS],
        "decoder_start_token": SPECIALS[SOS],
        "add_source_bos": config.start_token,
        "add_source_eos": True,
        "layer_norm_epsilon": LAYER_NORM_EPSILON,
    }


def _verify_settings(run: Run) -> None:
    """Raises FileError if CTranslate2 would read other settings or tokens from the folder than those of the run."""
    codecs = run.codecs
    sides = {"source_vocabulary.json": codecs.source.all_tokens(), "target_vocabulary.json": codecs.target.all_tokens()}
    if (run.folder / SHARED_VOCABULARY).exists():  # if both are the same; then CTranslate2 reads only this file
        sides = {SHARED_VOCABULARY: sides["source_vocabulary.json"]}
    for name, expected in {"config.json": format_settings(run.config.model), **sides}.items():
        found = read_json(run.folder / name)
        if isinstance(found, dict) and isinstance(expected, dict):
            expected = {**found, **expected}
        if found != expected:
            raise FileError(f"{run.folder / name}: damaged: its content is not that of this run")


class CTranslate2Engine:
    """An `Engine` for a folder in CTranslate2's format."""

    def __init__(
        self, folder: Path, device: str, *, positions: int, source: Sequence[str], target: Sequence[str]
    ) -> None:
        """positions: the longest sequence. source, target: the tokens in the order of their ids.

        device: auto, cpu, cuda or cuda:N. On the CPU, each thread computes a batch. Raises CheckpointError if
        CTranslate2 cannot open the folder, ConfigError if the library is missing, DeviceError.
        """
        self._library = import_ctranslate2()
        self._folder = folder
        self.max_length = positions
        self._source, self._target = source, target
        self._ids = {name: index for index, name in enumerate(target)}
        self.device, index = parse_device(device, self._library.get_cuda_device_count(), "CTranslate2")
        self.is_on_cpu = self.device == "cpu"
        self.takes_constraints = False
        threads = count_threads() if self.is_on_cpu else 1
        self._max_pending = 2 * threads  # batches: each thread computes one, and one waits for it
        self._translator = self._load(index, threads)
        self.compute_type = str(self._translator.compute_type)
        """the type of matrix products on this machine, such as int8_float32"""

    @property
    def models(self) -> "Sequence[Transformer]":
        """See `Engine`. Raises ConfigError: CTranslate2 returns no vectors and no attention of single heads."""
        raise ConfigError(
            f"{self._folder}: an exported model cannot be inspected, since CTranslate2 returns no vectors and no "
            "attention of single heads; name the run that it was made from"
        )

    def precision(self, settings: DecodingConfig) -> str:
        return self.compute_type

    def check_supported(self, settings: TranslationSettings) -> None:
        """See `Engine`. Refuses settings with which CTranslate2 would do something else than tfm."""
        others = DecodingConfig.model_fields.keys() - SEARCH_SETTINGS  # added by a reader of the code
        changed = (name for name in others if getattr(settings, name) != DecodingConfig.model_fields[name].default)
        refused = [f"does not know decoding.{name}; leave it out" for name in changed]
        if settings.sample:
            why = "CTranslate2's random numbers would depend on the lines around each line"
            refused.append(f"cannot sample: {why}; set decoding.sample to false")
        if not isinstance(settings.prefix, str) and EOS in settings.prefix[-1:]:
            refused.append("cannot end at an <eos> in the prefix; leave it out")
        if refused:
            raise ConfigError(f"{self._folder}: an exported model {refused[0]}, or name the run that it was made from")

    def translate(
        self, sentences: Sequence[SearchRequest], settings: TranslationSettings, *, before_step: BeforeStep = never_stop
    ) -> Iterator[SearchResult]:
        """See `Engine`. before_step: called once for each batch."""
        ids, limits = [each.ids for each in sentences], [each.max_tokens for each in sentences]
        prefix, is_greedy = sentences[0].prefix, settings.beam_size == 1
        alpha = 0.0 if is_greedy else settings.length_penalty  # greedy search compares no hypotheses
        is_constrained = bool(prefix or settings.no_repeat_ngram_size)
        is_scored = settings.return_scores or not is_greedy

        def search(rows: Sequence[int]) -> Pending:
            """Start the search for a batch, and for the attention of its first tokens."""
            before_step()
            texts = [_token_names(self._source, ids[row]) for row in rows]
            results = self._translator.translate_batch(
                texts,
                [_token_names(self._target, prefix)] * len(rows) if prefix else None,
                beam_size=settings.beam_size,
                num_hypotheses=settings.beam_size if is_constrained else settings.n_best,  # rescoring reorders them
                length_penalty=alpha,
                no_repeat_ngram_size=settings.no_repeat_ngram_size,
                suppress_sequences=[[self._target[index]] for index in SUPPRESSED],
                max_input_length=0,
                max_decoding_length=max(limits[row] for row in rows),
                min_decoding_length=0,  # 1 would forbid an empty translation
                return_scores=is_scored,
                return_attention=settings.return_attention,
                asynchronous=True,
            )
            is_first_wrong = settings.return_attention and not is_greedy and len(rows) > 1
            return [results, self._first_attention(texts) if is_first_wrong else []]  # see there

        positions = BATCH_POSITIONS * FULL_BATCH_BEAM // max(FULL_BATCH_BEAM, settings.beam_size)
        batches = batches_longest_first(ids, positions, settings.beam_size)
        for rows, (results, first_attention) in self._bounded_queue(search, batches):
            longest = max(limits[row] for row in rows)
            found = []
            with catch_oom(partial(batch_too_large, [ids[row] for row in rows], settings.beam_size)):
                for row, result in zip(rows, results, strict=True):
                    found += [(row, each) for each in self._read(result.result(), limits[row], longest, alpha)]
                first_alignment = {
                    row: _most_attended(step.result().attention[0][0])
                    for row, step in zip(rows, first_attention, strict=False)
                }
            unsure = [at for at, (_, each) in enumerate(found) if is_constrained or math.isnan(each.log_prob)]
            if is_scored and unsure:
                changed = [found[at] for at in unsure]
                log_probs = self.log_probs([ids[row] for row, _ in changed], [each.tokens for _, each in changed])
                for at, values in zip(unsure, log_probs, strict=True):
                    row, each = found[at]
                    found[at] = row, replace(each, log_prob=sum(values[: _n_steps(each.tokens, limits[row])]))
            several: dict[int, list[Hypothesis]] = {row: [] for row in rows}
            for row, each in found:
                alignment = each.alignment
                if row in first_alignment and alignment:
                    alignment = [first_alignment[row], *alignment[1:]]
                value = score(each.log_prob, _n_steps(each.tokens, limits[row]), settings.length_penalty)
                several[row].append(replace(each, alignment=alignment, score=value))
            best = {row: sorted(several[row], key=lambda each: -each.score)[: settings.n_best] for row in rows}
            if not settings.return_attention:  # but unknown words are copied from the source by their attention
                unknown = [row for row, those in best.items() if any(UNK in each.tokens for each in those)]
                if unknown:
                    attending = settings.model_copy(update={"return_attention": True})
                    again = self.translate([sentences[row] for row in unknown], attending, before_step=before_step)
                    for places, those in again:
                        best.update((unknown[place], each) for place, each in zip(places, those, strict=True))
            yield rows, list(best.values())

    def log_probs(self, sentences: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """See `search.protocols.TargetScorer`."""
        longest = [max(pair, key=len) for pair in zip(sentences, targets, strict=True)]
        found: dict[int, list[float]] = {}

        def score_rows(rows: Sequence[int]) -> Pending:
            sources = [_token_names(self._source, sentences[row]) for row in rows]
            chosen = [_token_names(self._target, targets[row]) for row in rows]
            # 0: no limit; sentences that are too long were excluded before
            return [self._translator.score_batch(sources, chosen, max_input_length=0, asynchronous=True)]

        for rows, (results,) in self._bounded_queue(score_rows, batches_longest_first(longest, BATCH_POSITIONS)):
            with catch_oom(partial(batch_too_large, [longest[row] for row in rows], 1)):
                found.update((row, each.result().log_probs) for row, each in zip(rows, results, strict=True))
        return [found[row] for row in range(len(sentences))]

    def _bounded_queue(
        self, start: Callable[[Sequence[int]], Pending], batches: Iterable[Sequence[int]]
    ) -> Iterator[tuple[Sequence[int], Pending]]:
        """Yield batches with their results, in order. Starts at most `_max_pending` batches at a time.

        CTranslate2 cannot cancel a started batch, and computes it before later ones. If the iteration ends early, no
        more batches are started, and the started ones are waited for.
        """
        pending: deque[tuple[Sequence[int], Pending]] = deque()
        try:
            for rows in batches:
                if len(pending) == self._max_pending:
                    yield pending.popleft()
                pending.append((rows, start(rows)))
            while pending:
                yield pending.popleft()
        finally:
            for each in chain.from_iterable(chain.from_iterable(results for _, results in pending)):
                with suppress(RuntimeError):
                    each.result()

    def _read(self, result: Any, limit: int, longest: int, alpha: float) -> Iterator[Hypothesis]:
        """Yield CTranslate2's hypotheses, cut to `limit` tokens; the log-probability of a cut one is NaN.

        longest: the limit of the batch. alpha: CTranslate2 has divided scores by length ** alpha.
        """
        scores = result.scores or [math.nan]  # greedy search without scores
        maps = result.attention or [[]] * len(scores)
        for tokens, value, attention in zip(result.hypotheses, scores, maps, strict=True):
            steps = _n_steps(tokens, longest)
            log_prob = value * steps**alpha
            if not log_prob <= FORBIDDEN_SCORE:  # also if it is NaN
                ids = [self._ids[token] for token in tokens[:limit]]
                alignment = [_most_attended(weights) for weights in attention[:limit]]
                yield Hypothesis(ids, alignment, log_prob if steps <= limit else math.nan, math.nan)

    def _first_attention(self, texts: Sequence[Sequence[str]]) -> list[Any]:
        """Start to compute the attention of each translation's first token, by one step of greedy search.

        In a batch, CTranslate2's beam search (4.8.5, on the CPU) gives sentence b the first attention of sentence
        b // beam_size: with a beam of 4, sentences 4 … 7 get that of sentence 1. The first step of greedy search, which
        also reads only <sos>, has the right attention.
        """
        return self._translator.translate_batch(
            texts,
            beam_size=1,
            min_decoding_length=1,
            max_decoding_length=1,
            max_input_length=0,
            return_attention=True,
            asynchronous=True,
        )

    def _load(self, index: int, threads: int) -> Any:
        library = self._library
        level = library.get_log_level()
        torch_threads = count_threads()
        # default: the type of the weights
        compute_type = "float32" if self.is_on_cpu and int8_sums_overflow() else "default"
        library.set_log_level(logging.ERROR)  # `open_exported` logs the type
        try:
            return library.Translator(
                str(self._folder),
                device=self.device,
                device_index=index,
                compute_type=compute_type,
                inter_threads=threads,
                intra_threads=1,
                max_queued_batches=-1,  # `_bounded_queue` bounds them
            )
        except (RuntimeError, ValueError, IndexError, MemoryError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(
                f"{self._folder}: CTranslate2 {library.__version__} cannot open it: {reason}; if that names no other "
                "remedy, export the run again by this version"
            ) from None
        finally:
            library.set_log_level(level)
            if torch := sys.modules.get("torch"):
                torch.set_num_threads(torch_threads)  # intra_threads may have changed OpenMP for both libraries


def _n_steps(tokens: Sequence[object], limit: int) -> int:
    """Returns the number of chosen tokens, including the <eos> that ends a translation below its limit."""
    return len(tokens) + (len(tokens) < limit)


def _most_attended(weights: Sequence[float]) -> int:
    """Returns the index of a source token; CTranslate2 leaves out the weight of <sos>."""
    return weights.index(max(weights))


def _token_names(tokens: Sequence[str], ids: Sequence[int]) -> list[str]:
    return [tokens[index] for index in ids]
