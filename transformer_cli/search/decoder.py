"""The Transformer as an engine, and as the step decoder of a search: ids in, hypotheses out."""

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
from transformer_cli.search.batches import (
    BATCH_POSITIONS,
    GPU_BATCH_POSITIONS,
    GPU_MAX_BATCH_ROWS,
    batch_too_large,
    batches_longest_first,
)
from transformer_cli.search.beam import beam_search
from transformer_cli.search.greedy import greedy_search, sample, uniform_numbers
from transformer_cli.search.protocols import (
    BeforeStep,
    Hypothesis,
    SearchRequest,
    SearchResult,
    Step,
    StepDecoder,
    never_stop,
)
from transformer_cli.search.rules import SearchRules
from transformer_cli.text.vocabulary import EOS, PAD, SOS, SUPPRESSED

MIN_CONSTRAINED_BEAM = 5  # the beam size of a search with constraints is at least this
MIN_SENTENCES_PER_THREAD = 16  # with fewer, steps are so short that two threads wait for Python's lock


class TransformerEngine:
    """A `protocols.Engine` of one Transformer, or of several as an ensemble, in torch. It supports all settings.

    On the CPU, each torch thread decodes a batch of its own if it gets MIN_SENTENCES_PER_THREAD sentences. The matrix
    products of a decoding step are small: threads that shared one would mostly wait for each other.
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
        """Copies of the models with bfloat16 matrices, so that no step has to round them. Embeddings stay float32."""
        copies = deepcopy(self.models)
        for module in (each for model in copies for each in model.modules() if isinstance(each, nn.Linear)):
            for name, weight in list(module.named_parameters()):  # a new one: the output's may be the embedding's
                setattr(module, name, nn.Parameter(weight.bfloat16(), requires_grad=False))
        return copies

    def precision(self, settings: DecodingConfig) -> Precision:
        if settings.precision == "auto" and devices.bfloat16_unit(self._device) == "AMX":
            return "float32"  # decoding steps are too small: bfloat16 is 0.97 times as fast
        return choose_precision(settings.precision, self._device)

    def check_supported(self, settings: TranslationSettings) -> None:
        """See `Engine`: this one supports everything."""

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
        """The number of batches that are decoded at a time."""
        return torch.get_num_threads() if self.is_on_cpu else 1

    def _batches(
        self, sentences: Sequence[SearchRequest], settings: TranslationSettings
    ) -> list[tuple[Sequence[int], TranslationSettings]]:
        """Returns the sentences of each batch, as indices, and its settings: constraints need a wider beam."""
        max_positions = BATCH_POSITIONS if self.is_on_cpu else GPU_BATCH_POSITIONS
        max_rows = None if self.is_on_cpu else GPU_MAX_BATCH_ROWS
        constrained = [row for row, each in enumerate(sentences) if each.constraints]
        others = [row for row, each in enumerate(sentences) if not each.constraints]
        wider = settings.model_copy(update={"beam_size": max(settings.beam_size, MIN_CONSTRAINED_BEAM)})
        return [
            ([rows[index] for index in batch], settings_of_batch)
            for rows, settings_of_batch in ((others, settings), (constrained, wider))
            for batch in batches_longest_first(
                [sentences[row].ids for row in rows],
                max_positions,
                settings_of_batch.rows_per_sentence,
                min(self._threads, len(rows) // MIN_SENTENCES_PER_THREAD),
                max_rows=max_rows,
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
    """Returns up to n_best translations (or n_best samples) of each sentence of a batch, the best score first.

    models: one, or an ensemble with the same vocabularies on the same device, which predicts the mean of the models'
    probabilities. sentences: all have constraints, or none. before_step: called before each step.

    Raises MemoryShortage, and what before_step raises.
    """
    device = next(models[0].parameters()).device
    constraints = [each.constraints for each in sentences if each.constraints]
    with catch_oom(partial(batch_too_large, [each.ids for each in sentences], settings.rows_per_sentence)):
        decoder = TransformerDecoder(models, pad_ids([each.ids for each in sentences]).to(device), before_step)
        rules = SearchRules(
            max_tokens=torch.tensor([each.max_tokens for each in sentences], device=device),
            suppressed_ids=torch.tensor(SUPPRESSED, device=device),
            no_repeat_ngram_size=settings.no_repeat_ngram_size,
            prefix=sentences[0].prefix,
            length_penalty=settings.length_penalty,
        )
        if settings.sample:
            return _samples(decoder, rules, sentences, settings)
        if settings.beam_size == 1 and not constraints:
            return [[each] for each in greedy_search(decoder, rules, return_scores=settings.return_scores)]
        rank_fn = constraints[0].rank_fn(constraints) if constraints else None
        return beam_search(decoder, rules, beam_size=settings.beam_size, n_best=settings.n_best, rank_fn=rank_fn)


def _samples(
    decoder: StepDecoder, rules: SearchRules, sentences: Sequence[SearchRequest], settings: TranslationSettings
) -> list[list[Hypothesis]]:
    """Draw n_best samples of each sentence."""
    count, limits = settings.n_best, rules.max_tokens
    rules = replace(rules, max_tokens=limits.repeat_interleave(count))
    decoder.select(torch.arange(len(limits), device=limits.device).repeat_interleave(count))  # 0 0 0 1 1 1 for count 3
    # the key is last, because it may be long
    seeds = [(settings.seed, number, each.sample_key) for each in sentences for number in range(count)]
    uniform = uniform_numbers(seeds, int(limits.max())).to(limits.device)
    found = sample(
        decoder, rules, uniform, temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p
    )
    groups = [found[start : start + count] for start in range(0, len(found), count)]
    return [sorted(group, key=lambda each: -each.score) for group in groups]


class TransformerDecoder:
    """A `protocols.StepDecoder` of one Transformer, or of several as an ensemble.

    An ensemble averages the models' probabilities (its logits are log-probabilities) and their attention.
    """

    def __init__(self, models: Sequence[Transformer], source: Tensor, before_step: BeforeStep = never_stop) -> None:
        """source int64 (sentences, source): from <sos> to <eos>, padded at the end. Every model encodes it.

        before_step: called before each step; it ends the search by raising.
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
    """Returns a model's logits, (rows, vocabulary), and the attention of its last layer, (rows, heads, source)."""
    record = AttentionRecord()
    logits = model.next_logits(tokens, cache, record)
    return logits, cache.ungroup_by_sentence(record.cross[0].weights)[:, :, 0]


def mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """Returns the logarithm of the mean of the models' probabilities, (rows, vocabulary)."""
    log_probs = torch.stack([each.float().log_softmax(dim=1) for each in logits])
    return log_probs.logsumexp(dim=0) - math.log(len(logits))
