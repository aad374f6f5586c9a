"""The Transformer as an engine, and as a decoder for a search: ids in, hypotheses out. Knows no words and no files."""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from transformer_cli.compute import devices
from transformer_cli.compute.devices import Precision, autocast, catch_oom, choose_precision, device_name
from transformer_cli.compute.threads import WorkerPool
from transformer_cli.config.schema import DecodingConfig, TranslationSettings
from transformer_cli.data.batching import pad_ids
from transformer_cli.model.attention import AttentionRecord
from transformer_cli.model.cache import Cache
from transformer_cli.model.transformer import Transformer
from transformer_cli.search.beam import beam_search
from transformer_cli.search.greedy import greedy, sample, uniform_numbers
from transformer_cli.search.interface import (
    BATCH_POSITIONS,
    BeforeStep,
    Hypothesis,
    SearchRequest,
    SearchResult,
    SearchRules,
    Step,
    StepDecoder,
    batch_too_large,
    batches_longest_first,
    never_stop,
)
from transformer_cli.text.vocabulary import EOS, PAD, SOS, UNWRITABLE

GPU_BATCH_POSITIONS = 16_384  # on other devices than CPUs
MIN_CONSTRAINED_BEAM = 5  # places of a search with constraints
MIN_SENTENCES_PER_THREAD = 16  # sentences of a thread: with fewer, steps are so short that two threads wait for Python


class TransformerEngine:
    """An `interface.Engine` of one Transformer, or of several as an ensemble, in torch: it can do everything.

    On the CPU, each of the caller's torch threads decodes a batch of its own, if there are MIN_SENTENCES_PER_THREAD
    sentences for each. The products of a decoding step are small: if one were split between threads, these would mostly
    wait for each other, and for any other program that keeps one of them from its core.
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        self.models = list(models)
        limits = [limit for model in models if (limit := model.config.max_length) is not None]
        self.max_length = min(limits, default=None)
        self._device = next(models[0].parameters()).device
        self.device = device_name(self._device)
        self.is_on_cpu = self._device.type == "cpu"
        self.takes_constraints = True

    @cached_property
    def _bfloat16_models(self) -> list[Transformer]:
        """The models with the matrices of layers and output in bfloat16, so that no step rounds them anew."""
        copies = deepcopy(self.models)
        for module in (each for model in copies for each in model.modules() if isinstance(each, nn.Linear)):
            module.bfloat16()
        return copies

    def precision(self, settings: DecodingConfig) -> Precision:
        if settings.precision == "auto" and devices.bfloat16_unit(self._device) == "AMX":
            return "float32"  # a step of a search is too small: 0.97 times as fast in bfloat16
        return choose_precision(settings.precision, self._device)

    def check_supported(self, settings: TranslationSettings) -> None:
        """See `Engine`: ours can do everything."""

    def translate(
        self, sentences: Sequence[SearchRequest], settings: TranslationSettings, *, before_step: BeforeStep = never_stop
    ) -> Iterator[SearchResult]:
        precision = self.precision(settings)
        models = self.models if precision == "float32" else self._bfloat16_models
        batches = self._batches(sentences, settings)

        def decode_batch(batch: tuple[Sequence[int], TranslationSettings]) -> SearchResult:
            rows, settings = batch
            with autocast(self._device, precision):  # holds for one thread
                return rows, decode(models, [sentences[row] for row in rows], settings, before_step=before_step)

        is_alone = self._threads == 1
        with WorkerPool(min(self._threads, len(batches)) or 1, threads_each=None if is_alone else 1) as workers:
            yield from workers.run(decode_batch, batches)

    @property
    def _threads(self) -> int:
        """How many batches are decoded at a time."""
        return torch.get_num_threads() if self.is_on_cpu else 1

    def _batches(
        self, sentences: Sequence[SearchRequest], settings: TranslationSettings
    ) -> list[tuple[Sequence[int], TranslationSettings]]:
        """Returns the rows of each batch, and how to search for them: those with constraints by themselves."""
        positions = BATCH_POSITIONS if self.is_on_cpu else GPU_BATCH_POSITIONS
        constrained = [row for row, each in enumerate(sentences) if each.constraints]
        others = [row for row, each in enumerate(sentences) if not each.constraints]
        wider = settings.model_copy(update={"beam_size": max(settings.beam_size, MIN_CONSTRAINED_BEAM)})
        return [
            ([rows[place] for place in places], way)
            for rows, way in ((others, settings), (constrained, wider))
            for places in batches_longest_first(
                [sentences[row].ids for row in rows],
                positions,
                way.rows_per_sentence,
                min(self._threads, len(rows) // MIN_SENTENCES_PER_THREAD),
            )
        ]


@torch.inference_mode()
def decode(
    models: Sequence[Transformer],
    sentences: Sequence[SearchRequest],
    settings: TranslationSettings,
    *,
    before_step: BeforeStep = never_stop,
) -> list[list[Hypothesis]]:
    """Returns the n best translations of each sentence of a batch, or so many samples; the best score first.

    A sentence that has fewer translations gets fewer. models: one, or several of the same vocabularies and on the same
    device, which predict the mean of their probabilities. sentences: all of them have constraints, or none has.
    before_step: is called before each step.

    Raises MemoryShortage, and what before_step raises, which so ends the search.
    """
    device = next(models[0].parameters()).device
    constraints = [each.constraints for each in sentences if each.constraints]
    with catch_oom(partial(batch_too_large, [each.ids for each in sentences], settings.rows_per_sentence)):
        decoder = TransformerDecoder(models, pad_ids([each.ids for each in sentences]).to(device), before_step)
        rules = SearchRules(
            max_tokens=torch.tensor([each.max_tokens for each in sentences], device=device),
            sos=SOS,
            eos=EOS,
            unwritable_ids=torch.tensor(UNWRITABLE, device=device),
            no_repeat_ngram_size=settings.no_repeat_ngram_size,
            prefix=sentences[0].prefix,
            length_penalty=settings.length_penalty,
        )
        if settings.sample:
            return _samples(decoder, rules, sentences, settings)
        if settings.beam_size == 1 and not constraints:
            return [[each] for each in greedy(decoder, rules, scores=settings.return_scores)]
        rank_fn = constraints[0].rank_fn(constraints) if constraints else None
        return beam_search(decoder, rules, beam_size=settings.beam_size, n_best=settings.n_best, rank_fn=rank_fn)


def _samples(
    decoder: StepDecoder, rules: SearchRules, sentences: Sequence[SearchRequest], settings: TranslationSettings
) -> list[list[Hypothesis]]:
    """Draw n_best samples of each sentence: its rows."""
    count, limits = settings.n_best, rules.max_tokens
    rules = replace(rules, max_tokens=limits.repeat_interleave(count))
    decoder.select(torch.arange(len(limits), device=limits.device).repeat_interleave(count))  # 0 0 0 1 1 1 for count 3
    # the key comes last: it may be long
    seeds = [(settings.seed, number, each.sample_key) for each in sentences for number in range(count)]
    uniform = uniform_numbers(seeds, int(limits.max())).to(limits.device)
    found = sample(
        decoder, rules, uniform, temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p
    )
    groups = [found[start : start + count] for start in range(0, len(found), count)]
    return [sorted(group, key=lambda each: -each.score) for group in groups]


class TransformerDecoder:
    """An `interface.StepDecoder` that decodes a batch of sentences by the Transformer, or by several as an ensemble.

    The probabilities of an ensemble are the mean of the models' probabilities, and its logits log-probabilities. So is
    what it attends to: the mean of the models' attention, each over its heads.
    """

    def __init__(self, models: Sequence[Transformer], source: Tensor, before_step: BeforeStep = never_stop) -> None:
        """Encodes source by each model: int64 (sentences, source), from <sos> to <eos>, padded at the end.

        before_step: is called before each step, and ends a search by raising.
        """
        self._models = models
        self._before_step = before_step
        self._caches = [model.init_cache(source) for model in models]
        self._is_word = (source != PAD) & (source != SOS) & (source != EOS)  # (rows, source)

    def decode_step(self, tokens: Tensor) -> Step:
        self._before_step()
        logits, attention = zip(*map(partial(_step_model, tokens), self._models, self._caches), strict=True)
        first, *others = (each.mean(dim=1) for each in attention)  # over all heads
        alignment = sum(others, first).masked_fill(~self._is_word, -1.0).argmax(dim=1) - 1  # without <sos>
        return Step(logits[0].float() if len(logits) == 1 else mean_log_probs(logits), alignment)

    def select(self, rows: Tensor) -> None:
        self._is_word = self._is_word[rows]
        for cache in self._caches:
            cache.select(rows)


def _step_model(tokens: Tensor, model: Transformer, cache: Cache) -> tuple[Tensor, Tensor]:
    """Returns a model's logits, (rows, vocabulary), and its last layer's attention, (rows, heads, source)."""
    record = AttentionRecord()
    logits = model.next_logits(tokens, cache, record)
    return logits, cache.ungroup_by_sentence(record.cross[0].weights)[:, :, 0]


def mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """Returns the logarithm of the mean of several models' probabilities, (rows, vocabulary)."""
    log_probs = torch.stack([each.float().log_softmax(dim=1) for each in logits])
    return log_probs.logsumexp(dim=0) - math.log(len(logits))
