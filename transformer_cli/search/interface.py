"""What translates ids, and how a search and a decoder, which is run step by step, work together.

Three things stand here. An `Engine` translates many sentences at once: tfm's own models in decoder.py, CTranslate2 in
adapters/interop/. A search of ours works with any `StepDecoder`, keeps `SearchRules`, and finds `Hypothesis`es.

Knows token ids, positions and lengths. Knows no text, no files and no class of model; imports no torch. A row is one
hypothesis in the making. Rows of a sentence are neighbours: one in greedy search, up to `beam_size` in beam search,
where sentences may have different numbers of them.
"""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from transformer_cli.config.schema import DecodingConfig, TranslationSettings
from transformer_cli.text.vocabulary import N_SOS_EOS

if TYPE_CHECKING:
    from torch import Tensor

    from transformer_cli.model.transformer import Transformer

BATCH_POSITIONS = 2048  # padded source positions that one thread of a CPU decodes together
MAX_BATCH_ROWS = 1024  # hypotheses that are decoded together
NEG_INF = float("-inf")  # the logit of what may not be written

BeforeStep = Callable[[], object]
"""What is called before each step of a search, and ends it by raising: a server looks whether anybody still waits"""


def never_stop() -> None:
    """The `BeforeStep` of a search that always goes on."""


Ids = tuple[int, ...]


class Constraints(Protocol):
    """What a beam search has to write in a translation, such as the terms of a glossary."""

    @property
    def min_tokens(self) -> int:
        """How many tokens that takes at least."""

    def rank_fn(self, of_batch: Sequence[Any]) -> Callable[..., Any]:
        """Returns the `beam.RankFn` of a batch.

        of_batch: the constraints of each of its sentences, all of this class.
        """


@dataclass(frozen=True)
class SearchRequest:
    """A sentence that waits for its translation."""

    ids: Sequence[int]
    """without <sos> and <eos>, at least one, and no more than there are positions for"""
    max_tokens: int
    """how many tokens its translation may have, at least 1, <eos> not counted"""
    sample_key: int = 0
    """what its samples are drawn by, together with the seed"""
    prefix: Ids = ()
    """ids that its translation begins with: the same for all sentences that are given together"""
    constraints: Constraints | None = None
    """what its translation has to write, in a beam search of an engine that `takes_constraints`"""


def max_target_tokens(
    settings: TranslationSettings, source_tokens: int, max_length: int | None, *, more: int = 0
) -> int:
    """Returns how many tokens the translation of a sentence of `source_tokens` tokens may have.

    max_length: how many positions the model has (None: no limit). more: the tokens of constraints, which may take more
    room than what stands in their place.
    """
    wanted = more + (2 * source_tokens + 10 if settings.max_tokens is None else settings.max_tokens)
    return wanted if max_length is None else min(wanted, max_length - N_SOS_EOS)


@dataclass(frozen=True)
class Hypothesis:
    """A decoded row."""

    tokens: list[int]
    """without <sos> and <eos>"""
    alignment: list[int]
    """for each token, the index of the source token that the step which chose it attended to most; <sos> has no
    index"""
    log_prob: float
    """sum of the log-probabilities of the tokens, and of <eos> if it was reached; NaN if it was not wanted"""
    score: float
    """what hypotheses of a sentence are compared by: log_prob / length^α, <eos> counted if it was reached"""


SearchResult = tuple[Sequence[int], Sequence[list[Hypothesis]]]
"""Rows of sentences, and the n best translations of each, the best score first; fewer, if there are no more."""


def score(log_prob: float, length: int, length_penalty: float) -> float:
    """Returns log_prob / length^α, as CTranslate2, fairseq and Marian score hypotheses.

    length: how many log-probabilities were added up, <eos> counted, at least 1. length_penalty: α; 0 leaves log_prob.
    """
    return log_prob / length**length_penalty


class Engine(Protocol):
    """Translates ids into ids."""

    device: str
    """what it computes on: cpu, NVIDIA H200"""
    is_on_cpu: bool
    takes_constraints: bool
    """whether its beam search can be given constraints"""

    @property
    def models(self) -> "Sequence[Transformer]":
        """What can be looked into: one model, or those of an ensemble. Raises ConfigError if they are none of ours."""

    @property
    def max_length(self) -> int | None:
        """The most positions that a sentence may take, <sos> and <eos> included (None: no limit)."""

    def precision(self, settings: DecodingConfig) -> str:
        """Returns the type in which matrices are multiplied, such as bfloat16, or int8_float32 of an exported model."""

    def check_supported(self, settings: TranslationSettings) -> None:
        """Raises ConfigError for what this engine cannot do: callers ask before they read or translate anything."""

    def translate(
        self, sentences: Sequence[SearchRequest], settings: TranslationSettings, *, before_step: BeforeStep = never_stop
    ) -> Iterator[SearchResult]:
        """Yields batches as they are done, in any order, while others are translated; each row comes once.

        before_step: is called before each step of a batch, where the engine takes steps one by one. Raises ConfigError
        or MemoryShortage, and what before_step raises.
        """


@runtime_checkable
class TargetScorer(Protocol):
    """An `Engine` whose models are not ours, so that it finds the log-probabilities of given translations itself."""

    def log_probs(self, sentences: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns the log-probability of each target's tokens, and of the <eos> after them, in nats.

        sentences, targets: ids without <sos> and <eos>, perhaps none, and no more than there are positions for. Raises
        MemoryShortage.
        """


def batches_longest_first(
    sentences: Sequence[Sized], positions: int, rows_per_sentence: int = 1, n_batches: int = 1
) -> list[list[int]]:
    """Returns the rows of batches of sentences of similar length.

    A batch has at most `positions` padded positions, and MAX_BATCH_ROWS hypotheses, if each sentence has
    rows_per_sentence. The longest come first, so that batches that are decoded side by side end at about the same time.
    There are at least n_batches of them if there are as many sentences.
    """
    lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
    most = max(1, MAX_BATCH_ROWS // rows_per_sentence)
    groups = group_by_length(lengths, positions)[::-1]
    if len(groups) < (least := min(n_batches, len(lengths))):  # 5 sentences for 4 batches: 2, 1, 1, 1
        shares = [np.array_split(group, -(-len(group) * least // len(lengths)))[::-1] for group in groups]
        groups = [share for of_group in shares for share in of_group]
    return [group[start : start + most].tolist() for group in groups for start in range(0, len(group), most)]


def batch_too_large(sentences: Sequence[Sized], rows_per_sentence: int) -> str:
    """Returns what is said if the sentences of a batch do not fit in memory, with so many hypotheses of each."""
    longest = max(map(len, sentences))
    what = f"{len(sentences)} sentences of up to {longest} tokens, with {rows_per_sentence} hypotheses each,"
    return f"{what} do not fit in memory; use a smaller beam, or split long sentences"


def group_by_length(lengths: NDArray[Any], most: int) -> list[NDArray[np.int64]]:
    """Group sentences of similar length: at most `most` padded positions per group, <sos> and <eos> included.

    lengths (sentences,). Returns the indices of each group, the shortest sentences first; a sentence that is longer
    than `most` is a group of its own. For example, lengths [5, 1, 4] with 14 positions give [[1, 2], [0]]:
    2 × (4 + 2) = 12 positions fit, and 3 × (5 + 2) = 21 do not.
    """
    order = np.argsort(lengths, kind="stable")
    groups, start = [], 0
    for end, width in enumerate((lengths[order] + N_SOS_EOS).tolist()):  # the last of a group is its longest
        if start < end and (end + 1 - start) * width > most:
            groups.append(order[start:end])
            start = end
    return [*groups, order[start:]] if len(order) else []


@dataclass(frozen=True)
class Step:
    """What a decoder returns after it has read one more token of each row."""

    logits: "Tensor"
    """(rows, vocabulary), for the next token; the search may change them in place"""
    alignment: "Tensor"
    """int64 (rows,): the index of the source token that the last layer attended to most, the mean of its heads

    Indices count the sentence's own tokens from 0: <sos>, <eos> and padding have none.
    """


class StepDecoder(Protocol):
    """A batch of sentences being decoded, one step at a time. It owns what has been computed so far (the cache)."""

    def decode_step(self, tokens: "Tensor") -> Step:
        """Read the newest token of each row, int64 (rows,): <sos> in the first call."""

    def select(self, rows: "Tensor") -> None:
        """Let row i continue what is now row rows[i]: int64 (rows from now on,), at least one.

        A row may be continued more than once, or not at all. Sentences stay in their order; one without rows is
        dropped. For example, in greedy search, when the second of four sentences is finished: [0, 2, 3]. If then the
        old sentence 2 is finished: [0, 2]. When [0, 0, 0, 1, 1] follows, the one row of the first sentence becomes
        three, and that of the other one two.
        """


@dataclass(frozen=True)
class SearchRules:
    """What may be written, in every search of ours; ctranslate2.py tells CTranslate2 the same."""

    max_tokens: "Tensor"
    """int64 (sentences,): how many tokens each sentence's translation may have, at least 1, <eos> not counted"""
    sos: int
    eos: int
    unwritable_ids: "Tensor"
    """int64: ids that are never chosen"""
    no_repeat_ngram_size: int = 0
    """the length of sequences that may not occur twice in a translation (0: all may)"""
    prefix: Sequence[int] = ()
    """ids that each translation begins with, even if it has a sequence twice"""
    length_penalty: float = 1.0
    """α of the scores"""

    def mask_logits(self, logits: "Tensor", tokens: "Tensor") -> None:
        """Set the logits (rows, vocabulary) of all tokens that may not follow to -inf, in place.

        tokens int64 (rows, length): the tokens so far. After the prefix <eos> always may follow.
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
    """Returns rows and ids, both int64 (n,): ids[i] after rows[i] of tokens make an n-gram that this row has already.

    For example, after 7 8 9 7 8 with size 3: the last two tokens, 7 8, stood before a 9, so 9 would be one.
    """
    seen = tokens.unfold(1, size, 1)  # (rows, n-grams, size)
    newest = tokens[:, None, tokens.shape[1] - size + 1 :]  # (rows, 1, size - 1)
    rows, which = (seen[:, :, :-1] == newest).all(dim=2).nonzero(as_tuple=True)
    return rows, seen[rows, which, -1]
