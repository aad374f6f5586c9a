"""The protocols of engines, searches and step decoders, and the records that they exchange.

An `Engine` translates many sentences: decoder.py has tfm's own, adapters/interop/ that of CTranslate2. tfm's search
runs a `StepDecoder` under `SearchRules` (rules.py) and returns hypotheses. Knows token ids, but not text, files or the
class of a model; does not import torch.

A row is one unfinished hypothesis. The rows of a sentence are neighbours: one in greedy search, up to beam_size in beam
search, where sentences may have different numbers of rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from transformer_cli.config.schema import DecodingConfig, TranslationSettings

if TYPE_CHECKING:
    from torch import Tensor

    from transformer_cli.model.transformer import Transformer

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
