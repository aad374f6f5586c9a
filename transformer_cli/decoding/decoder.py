"""The Transformer as an engine, and as a decoder for a search: ids in, hypotheses out. Knows no words and no files."""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from transformer_cli.compute.devices import Precision, autocast, choose_precision, device_name
from transformer_cli.compute.memory import room_for
from transformer_cli.compute.threads import SideBySide
from transformer_cli.config.schema import DecodingConfig
from transformer_cli.datasets.batching import pad_ids
from transformer_cli.decoding.beam import beam_search
from transformer_cli.decoding.constraints import Constraints
from transformer_cli.decoding.engine import BATCH_POSITIONS, Translated, longest_first
from transformer_cli.decoding.greedy import greedy
from transformer_cli.decoding.interface import BeforeStep, Hypothesis, RequiredTerms, Rules, Step, StepDecoder, nothing
from transformer_cli.decoding.sampling import sample, uniform_numbers
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.decoding.terms import beam_search_with_terms
from transformer_cli.model.attention import AttentionRecord
from transformer_cli.model.cache import Cache
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import EOS, PAD, SOS, UNWRITTEN

LARGE_BATCH_POSITIONS = 16_384  # on other devices than CPUs


class TransformerEngine:
    """An `engine.Engine` of one Transformer, or of several as an ensemble, in torch: it can do everything.

    On the CPU, each of the caller's torch threads decodes a batch of its own. The products of a decoding step are
    small: if one were split between threads, these would mostly wait.
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        self.models = list(models)
        self.max_length = longest_of(models)
        self._device = next(models[0].parameters()).device
        self.device = device_name(self._device)
        self.is_on_cpu = self._device.type == "cpu"
        self.writes_terms = True

    @cached_property
    def _of_bfloat16(self) -> list[Transformer]:
        """The models with the matrices of layers and output in bfloat16, so that no step rounds them anew."""
        copies = deepcopy(self.models)
        for module in (each for model in copies for each in model.modules() if isinstance(each, nn.Linear)):
            module.bfloat16()
        return copies

    def precision(self, decoding: DecodingConfig) -> Precision:
        return choose_precision(decoding.precision, self._device)

    def refuse(self, settings: SearchSettings) -> None:
        """See `Engine`: ours can do everything."""

    def translate(
        self,
        sentences: Sequence[Sequence[int]],
        settings: SearchSettings,
        *,
        prefix: Sequence[int],
        keys: Sequence[int],
        terms: Sequence[RequiredTerms] = (),
        before_step: BeforeStep = nothing,
    ) -> Iterator[Translated]:
        positions = BATCH_POSITIONS if self.is_on_cpu else LARGE_BATCH_POSITIONS
        batches = longest_first(sentences, positions, settings.rows_of_each)
        precision = self.precision(settings.decoding)
        models = self.models if precision == "float32" else self._of_bfloat16

        def decode_batch(rows: Sequence[int]) -> list[list[Hypothesis]]:
            ids, numbers = [sentences[row] for row in rows], [keys[row] for row in rows]
            own = [terms[row] for row in rows] if terms else ()
            with autocast(self._device, precision):  # holds for one thread
                return decode(models, ids, settings, prefix=prefix, keys=numbers, terms=own, before_step=before_step)

        n_workers = min(torch.get_num_threads() if self.is_on_cpu else 1, len(batches)) or 1
        with SideBySide(n_workers) as workers:
            yield from zip(batches, workers.run(decode_batch, batches), strict=True)


def longest_of(models: Sequence[Transformer]) -> int | None:
    """Returns the most positions that a sentence may take in all of these models (None: no limit)."""
    return min((limit for model in models if (limit := model.config.max_length) is not None), default=None)


@torch.inference_mode()
def decode(
    models: Sequence[Transformer],
    sentences: Sequence[Sequence[int]],
    settings: SearchSettings,
    *,
    prefix: Sequence[int] = (),
    keys: Sequence[int] | None = None,
    terms: Sequence[RequiredTerms] = (),
    before_step: BeforeStep = nothing,
) -> list[list[Hypothesis]]:
    """Returns the n best translations of each sentence of a batch, or so many samples; the best score first.

    A sentence that has fewer translations gets fewer. models: one, or several of the same vocabularies and on the same
    device, which predict the mean of their probabilities. sentences: ids without <sos> and <eos>, at least one per
    sentence, and no more than any model has positions for. prefix: ids with which each translation has to begin. keys:
    for each sentence the number that its samples are keyed by (None: 0, 1, …). terms: what each has to write, in beam
    search. before_step: is called before each step.

    Raises MemoryShortage, and what before_step raises, which so ends the search.
    """
    decoding, device, longest = settings.decoding, next(models[0].parameters()).device, longest_of(models)
    more = [each.n_tokens for each in terms] or [0] * len(sentences)
    limits = [settings.limit(len(ids), longest, more=n) for ids, n in zip(sentences, more, strict=True)]
    with room_for(partial(_too_large, sentences, limits, settings)):
        decoder = TransformerDecoder(models, pad_ids(sentences).to(device), before_step)
        rules = Rules(
            max_tokens=torch.tensor(limits, device=device),
            sos=SOS,
            eos=EOS,
            never=torch.tensor(UNWRITTEN, device=device),
            constraints=Constraints(decoding.no_repeat_ngram, prefix),
            length_penalty=decoding.length_penalty,
        )
        if decoding.sample:
            return _samples(decoder, rules, range(len(sentences)) if keys is None else keys, settings)
        if terms:
            return beam_search_with_terms(decoder, rules, terms, beam_size=decoding.beam_size, n_best=settings.n_best)
        if decoding.beam_size == 1:
            return [[each] for each in greedy(decoder, rules)]
        return beam_search(decoder, rules, beam_size=decoding.beam_size, n_best=settings.n_best)


def _too_large(sentences: Sequence[Sequence[int]], limits: Sequence[int], settings: SearchSettings) -> str:
    return (
        f"translating {len(sentences)} sentences of up to {max(map(len, sentences))} tokens into up to {max(limits)}, "
        f"with {settings.rows_of_each} hypotheses each, does not fit in memory; use a smaller beam, or split long "
        "sentences"
    )


def _samples(
    decoder: StepDecoder, rules: Rules, keys: Sequence[int], settings: SearchSettings
) -> list[list[Hypothesis]]:
    """Draw n_best samples of each sentence: its rows."""
    decoding, count = settings.decoding, settings.n_best
    limits = rules.max_tokens
    rules = replace(rules, max_tokens=limits.repeat_interleave(count))
    decoder.select(torch.arange(len(keys), device=limits.device).repeat_interleave(count))  # 0 0 0 1 1 1 for count 3
    seeds = [(decoding.seed, number, key) for key in keys for number in range(count)]  # the key last: it may be long
    uniform = uniform_numbers(seeds, int(limits.max())).to(limits.device)
    found = sample(
        decoder, rules, uniform, temperature=decoding.temperature, top_k=decoding.top_k, top_p=decoding.top_p
    )
    groups = [found[first : first + count] for first in range(0, len(found), count)]
    return [sorted(group, key=lambda each: -each.score) for group in groups]


class TransformerDecoder:
    """An `interface.StepDecoder` that decodes a batch of sentences by the Transformer, or by several as an ensemble.

    The probabilities of an ensemble are the mean of the models' probabilities, and its logits log-probabilities. So is
    what it attends to: the mean of the models' attention, each over its heads.
    """

    def __init__(self, models: Sequence[Transformer], source: Tensor, before_step: BeforeStep = nothing) -> None:
        """Encodes source by each model: int64 (sentences, source), from <sos> to <eos>, padded at the end.

        before_step: is called before each `read`, and ends a search by raising.
        """
        self._models = models
        self._before_step = before_step
        self._caches = [model.start(source) for model in models]
        self._is_word = (source != PAD) & (source != SOS) & (source != EOS)  # (rows, source)

    def read(self, tokens: Tensor) -> Step:
        self._before_step()
        logits, attention = zip(*map(partial(_read, tokens), self._models, self._caches), strict=True)
        first, *others = (each.mean(dim=1) for each in attention)  # over all heads
        attended = sum(others, first).masked_fill(~self._is_word, -1.0).argmax(dim=1)
        return Step(logits[0].float() if len(logits) == 1 else mean_log_probs(logits), attended)

    def select(self, rows: Tensor) -> None:
        self._is_word = self._is_word[rows]
        for cache in self._caches:
            cache.select(rows)


def _read(tokens: Tensor, model: Transformer, cache: Cache) -> tuple[Tensor, Tensor]:
    """Returns a model's logits, (rows, vocabulary), and its last layer's attention, (rows, heads, source)."""
    record = AttentionRecord()
    logits = model.read(tokens, cache, record)
    return logits, cache.by_hypothesis(record.cross[0].weights)[:, :, 0]


def mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """Returns the logarithm of the mean of several models' probabilities, (rows, vocabulary)."""
    log_probs = torch.stack([each.float().log_softmax(dim=1) for each in logits])
    return log_probs.logsumexp(dim=0) - math.log(len(logits))
