"""What translates many sentences at once, ids into ids: tfm's own models in decoder.py, CTranslate2 in ctranslate2.py.

Knows lengths and batches. Knows no words and no files; imports no torch.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from transformer_cli.config.schema import DecodingConfig
from transformer_cli.decoding.interface import BeforeStep, Hypothesis, RequiredTerms, nothing
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.text.lengths import groups_by_length

if TYPE_CHECKING:
    from transformer_cli.model.transformer import Transformer

BATCH_POSITIONS = 2048  # padded source positions that one thread of a CPU decodes together
MOST_ROWS = 1024  # hypotheses that are decoded together


Translated = tuple[Sequence[int], Sequence[list[Hypothesis]]]
"""Rows of sentences, and the n best translations of each, the best score first; fewer, if there are no more."""


class Engine(Protocol):
    """Translates ids into ids."""

    device: str
    """what it computes on: cpu, NVIDIA H200"""
    is_on_cpu: bool
    writes_terms: bool
    """whether its beam search can be given terms"""

    @property
    def models(self) -> "Sequence[Transformer]":
        """What can be looked into: one model, or those of an ensemble. Raises ConfigError if they are none of ours."""

    @property
    def max_length(self) -> int | None:
        """The most positions that a sentence may take, <sos> and <eos> included (None: no limit)."""

    def precision(self, decoding: DecodingConfig) -> str:
        """Returns the type in which matrices are multiplied, such as bfloat16, or int8_float32 of an exported model."""

    def refuse(self, settings: SearchSettings) -> None:
        """Raises ConfigError for what this engine cannot do: callers ask before they read or translate anything."""

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
        """Yields batches as they are done, in any order, while others are translated; each row comes once.

        sentences: ids without <sos> and <eos>, at least one each, and no more than there are positions for. prefix: ids
        with which every translation begins. keys: for each sentence the number that its samples are keyed by. terms:
        what each translation has to write, in beam search, where `writes_terms`. before_step: is called before each
        step of a batch, where the engine takes steps one by one. Raises ConfigError or MemoryShortage, and what
        before_step raises.
        """


def longest_first(sentences: Sequence[Sequence[int]], positions: int, rows_of_each: int = 1) -> list[list[int]]:
    """Returns the rows of batches of sentences of similar length.

    A batch has at most `positions` padded positions, and MOST_ROWS hypotheses, if each sentence has rows_of_each. The
    longest come first, so that batches that are decoded side by side end at about the same time.
    """
    lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
    most = max(1, MOST_ROWS // rows_of_each)
    groups = groups_by_length(lengths, positions)[::-1]
    return [group[start : start + most].tolist() for group in groups for start in range(0, len(group), most)]
