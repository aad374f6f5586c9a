"""The interfaces of engines, searches and step decoders.

An `Engine` translates many sentences: decoder.py has tfm's own, adapters/interop/ that of CTranslate2. tfm's search
runs a `StepDecoder` under `SearchRules` and returns hypotheses. Knows token ids, but not text, files or the class of a
model; does not import torch.

A row is one unfinished hypothesis. The rows of a sentence are neighbours: one in greedy search, up to beam_size in beam
search, where sentences may have different numbers of rows.
"""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from transformer_cli.config.schema import DecodingConfig, TranslationSettings
from transformer_cli.text.vocabulary import N_SOS_EOS

if TYPE_CHECKING:
    from torch import Tensor

    from transformer_cli.model.transformer import Transformer

BATCH_POSITIONS, MAX_BATCH_ROWS = 2048, 1024  # padded positions and hypotheses that a thread of a CPU computes at once
GPU_BATCH_POSITIONS, GPU_MAX_BATCH_ROWS = 16_384, 4096  # GPUs are faster with few large products
NEG_INF = float("-inf")  # the logit of a forbidden token

Number = TypeVar("Number", float, "Tensor")

BeforeStep = Callable[[], object]
"""Called before each step of a search, which it can end by raising: a server does so when the client has gone"""


def never_stop() -> None:
    """The `BeforeStep` that never ends a search."""


Ids = tuple[int, ...]


class Constraints(Protocol):
    """Phrases that a translation must contain, such as the terms of a glossary."""

    @property
    def min_tokens(self) -> int:
        """The smallest number of tokens in which all phrases can be written."""

    def rank_fn(self, constraints: Sequence[Any]) -> Callable[..., Any]:
        """Returns the `beam.RankFn` of a batch. constraints: those of each sentence, all of this class."""


@dataclass(frozen=True)
class SearchRequest:
    """A sentence to translate."""

    ids: Sequence[int]
    """without <sos> and <eos>; at least one, at most as many as the model has positions for"""
    max_tokens: int
    """the maximum length of the translation, at least 1, <eos> not counted"""
    sample_key: int = 0
    """seeds the samples of this sentence, together with `settings.seed`"""
    prefix: Ids = ()
    """ids with which the translation begins: the same for all sentences of a call"""
    constraints: Constraints | None = None
    """for a beam search of an engine that `takes_constraints`"""


def max_target_tokens(
    settings: TranslationSettings, source_tokens: int, max_length: int | None, *, extra_tokens: int = 0
) -> int:
    """Returns the maximum length of a translation.

    source_tokens: the length of the source. max_length: the model's number of positions (None: no limit). extra_tokens:
    those of constraints, which may be longer than the words they replace.
    """
    n_tokens = extra_tokens + (2 * source_tokens + 10 if settings.max_tokens is None else settings.max_tokens)
    return n_tokens if max_length is None else min(n_tokens, max_length - N_SOS_EOS)


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation."""

    tokens: list[int]
    """without <sos> and <eos>"""
    alignment: list[int]
    """for each token, the index of the source token with the most attention; <sos> is not counted"""
    log_prob: float
    """the sum over all tokens, and <eos> if the hypothesis ends in it; NaN if not asked for"""
    score: float
    """log_prob / length^α, by which hypotheses are ranked; the length includes <eos> if log_prob does"""


SearchResult = tuple[Sequence[int], Sequence[list[Hypothesis]]]
"""Indices of sentences, and up to n best translations of each, the best score first."""


def score(log_prob: Number, length: Number | int, length_penalty: float) -> Number:
    """Returns log_prob / length^α, as in CTranslate2, fairseq and Marian, for one hypothesis or many.

    length: the number of summed log-probabilities, at least 1. length_penalty: α.
    """
    return log_prob / length**length_penalty


class Engine(Protocol):
    """Translates ids into ids."""

    device: str
    """such as cpu, NVIDIA H200"""
    is_on_cpu: bool
    takes_constraints: bool
    """whether its beam search supports constraints"""

    @property
    def models(self) -> "Sequence[Transformer]":
        """One model, or those of an ensemble. Raises ConfigError if they are not tfm's own."""

    @property
    def max_length(self) -> int | None:
        """The maximum length of a sentence, <sos> and <eos> included (None: no limit)."""

    def precision(self, settings: DecodingConfig) -> str:
        """Returns the type of matrix products, such as bfloat16, or int8_float32 of an exported model."""

    def check_supported(self, settings: TranslationSettings) -> None:
        """Raises ConfigError for settings that this engine does not support; call it before any input is read."""

    def translate(
        self, sentences: Sequence[SearchRequest], settings: TranslationSettings, *, before_step: BeforeStep = never_stop
    ) -> Iterator[SearchResult]:
        """Yields batches as they are finished, in any order, while others are still translated.

        before_step: called before each step of a batch, or before each batch if the engine does not expose steps.
        Raises ConfigError or MemoryShortage, and what before_step raises.
        """


@runtime_checkable
class TargetScorer(Protocol):
    """An `Engine` of another program's models, which computes the log-probabilities of given translations itself."""

    def log_probs(self, sentences: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns the log-probabilities of each target's tokens and of <eos>, in nats.

        sentences, targets: ids without <sos> and <eos>, possibly none. Raises MemoryShortage.
        """


def batches_longest_first(
    sentences: Sequence[Sized],
    max_positions: int,
    rows_per_sentence: int = 1,
    n_batches: int = 1,
    *,
    max_rows: int | None = None,
) -> list[list[int]]:
    """Returns batches of sentences of similar length, as indices.

    A batch has at most max_positions padded positions and max_rows hypotheses (rows_per_sentence each; None:
    MAX_BATCH_ROWS). The longest sentences come first, so that threads finish at about the same time. There are at least
    n_batches, if there are enough sentences.
    """
    lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
    max_sentences = max(1, (max_rows or MAX_BATCH_ROWS) // rows_per_sentence)
    groups = group_by_length(lengths, max_positions)[::-1]
    if len(groups) < (n_needed := min(n_batches, len(lengths))):  # 5 sentences for 4 batches: 2, 1, 1, 1
        shares = [np.array_split(group, -(-len(group) * n_needed // len(lengths)))[::-1] for group in groups]
        groups = [share for of_group in shares for share in of_group]
    starts = ((group, start) for group in groups for start in range(0, len(group), max_sentences))
    return [group[start : start + max_sentences].tolist() for group, start in starts]


def batch_too_large(sentences: Sequence[Sized], rows_per_sentence: int) -> str:
    """Returns the error message for a batch that does not fit in memory."""
    longest = max(map(len, sentences))
    what = f"{len(sentences)} sentences of up to {longest} tokens, with {rows_per_sentence} hypotheses each,"
    return f"{what} do not fit in memory; use a smaller beam, or split long sentences"


def group_by_length(lengths: NDArray[Any], max_positions: int) -> list[NDArray[np.int64]]:
    """Group sentences of similar length, with at most max_positions padded positions per group.

    lengths (sentences,): without <sos> and <eos>, which this adds. Returns the indices of each group, the shortest
    sentences first; a sentence longer than max_positions is a group of its own. For example, lengths [5, 1, 4] and
    max_positions = 14 give [[1, 2], [0]]: 2 × (4 + 2) = 12 positions fit, and 3 × (5 + 2) = 21 do not.
    """
    order = np.argsort(lengths, kind="stable")
    groups, start = [], 0
    for end, width in enumerate((lengths[order] + N_SOS_EOS).tolist()):  # the last of a group is its longest
        if start < end and (end + 1 - start) * width > max_positions:
            groups.append(order[start:end])
            start = end
    return [*groups, order[start:]] if len(order) else []


@dataclass(frozen=True)
class Step:
    """A decoder's output after it has read one more token of each row."""

    logits: "Tensor"
    """(rows, vocabulary), for the next token; the search may change them in place"""
    alignment: "Tensor"
    """int64 (rows,): the source token with the most attention, averaged over the last layer's heads

    It is an index among the sentence's own tokens: 0 is the token after <sos>.
    """


class StepDecoder(Protocol):
    """Decodes a batch of sentences step by step, and owns the cache."""

    def decode_step(self, tokens: "Tensor") -> Step:
        """Read the newest token of each row, int64 (rows,): <sos> in the first call."""

    def select(self, rows: "Tensor") -> None:
        """Let the new row i continue the old row rows[i]: int64 (new rows,), at least one.

        A row may be continued several times, or not at all. Sentences keep their order; a sentence without rows is
        dropped. For example, when the second of four sentences is finished in greedy search: [0, 2, 3]. In beam search,
        [0, 0, 0, 1, 1] gives three rows to the first sentence and two to the second.
        """


@dataclass(frozen=True)
class SearchRules:
    """Which tokens may be generated, in all searches here; ctranslate2.py passes the same rules to CTranslate2."""

    max_tokens: "Tensor"
    """int64 (sentences,): the maximum length of each translation, at least 1, <eos> not counted"""
    sos: int
    eos: int
    unwritable_ids: "Tensor"
    """int64: ids that are never generated"""
    no_repeat_ngram_size: int = 0
    """n-grams of this length may not occur twice in a translation (0: no such rule)"""
    prefix: Sequence[int] = ()
    """ids with which each translation begins, even if they repeat an n-gram"""
    length_penalty: float = 1.0
    """α of the scores"""

    def mask_logits(self, logits: "Tensor", tokens: "Tensor") -> None:
        """Set the logits (rows, vocabulary) of forbidden next tokens to -inf, in place.

        tokens int64 (rows, length): the tokens so far. After the prefix, <eos> is always allowed.
        """
        logits.index_fill_(1, self.unwritable_ids, NEG_INF)
        position = tokens.shape[1]
        if position < len(self.prefix):
            forced = logits[:, self.prefix[position]].clone()
            logits.fill_(NEG_INF)
            logits[:, self.prefix[position]] = forced
        elif 0 < self.no_repeat_ngram_size <= position:
            logits[_banned_ngram_tokens(tokens, self.no_repeat_ngram_size)] = NEG_INF


def _banned_ngram_tokens(tokens: "Tensor", size: int) -> "tuple[Tensor, Tensor]":
    """Returns rows and ids, both int64 (n,): ids[i] would repeat an n-gram of row rows[i] of tokens.

    For example, after 7 8 9 7 8 with size 3, the id 9 would repeat 7 8 9.
    """
    seen = tokens.unfold(1, size, 1)  # (rows, n-grams, size)
    newest = tokens[:, None, tokens.shape[1] - size + 1 :]  # (rows, 1, size - 1)
    rows, which = (seen[:, :, :-1] == newest).all(dim=2).nonzero(as_tuple=True)
    return rows, seen[rows, which, -1]
