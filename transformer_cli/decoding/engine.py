"""What translates many sentences at once, ids into ids: tfm's own models here, CTranslate2 in ctranslate2.py.

Knows lengths and batches. Knows no words and no files.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch

from transformer_cli.compute.threads import SideBySide
from transformer_cli.data.lengths import groups_by_length
from transformer_cli.decoding.decoder import decode
from transformer_cli.decoding.interface import BeforeStep, Hypothesis, nothing
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.model.transformer import Transformer

BATCH_POSITIONS = 2048  # padded source positions that one thread of a CPU decodes together
LARGE_BATCH_POSITIONS = 16_384  # other devices
MOST_ROWS = 1024  # hypotheses that are decoded together


Translated = tuple[Sequence[int], Sequence[list[Hypothesis]]]
"""Rows of sentences, and the n best translations of each, the best score first; fewer, if there are no more."""


class Engine(Protocol):
    """Translates ids into ids."""

    @property
    def max_length(self) -> int | None:
        """The most positions that a sentence may take, <sos> and <eos> included (None: no limit)."""

    def refuse(self, settings: SearchSettings) -> None:
        """Raises ConfigError for what this engine cannot do: callers ask before they read or translate anything."""

    def translate(
        self,
        sentences: Sequence[Sequence[int]],
        settings: SearchSettings,
        *,
        prefix: Sequence[int],
        keys: Sequence[int],
        before_step: BeforeStep = nothing,
    ) -> Iterator[Translated]:
        """Yields batches as they are done, in any order, while others are translated; each row comes once.

        sentences: ids without <sos> and <eos>, at least one each, and no more than there are positions for. prefix: ids
        with which every translation begins. keys: for each sentence the number that its samples are keyed by.
        before_step: is called before each step of a batch, where the engine takes steps one by one. Raises ConfigError
        or MemoryShortage, and what before_step raises.
        """


class TransformerEngine:
    """One Transformer, or several as an ensemble, in torch."""

    def __init__(self, models: Sequence[Transformer], *, batches_at_a_time: int | None = None) -> None:
        """batches_at_a_time: how many batches are decoded side by side (None: on the CPU one for each of torch's
        threads, elsewhere one). The products of a decoding step are small: if one were split between threads, these
        would mostly wait."""
        self.models = list(models)
        limits = (limit for model in models if (limit := model.config.max_length) is not None)
        self.max_length = min(limits, default=None)
        self._on_cpu = next(models[0].parameters()).device.type == "cpu"
        self._batches_at_a_time = batches_at_a_time or (torch.get_num_threads() if self._on_cpu else 1)

    def refuse(self, settings: SearchSettings) -> None:
        """See `Engine`: ours can do everything."""

    def translate(
        self,
        sentences: Sequence[Sequence[int]],
        settings: SearchSettings,
        *,
        prefix: Sequence[int],
        keys: Sequence[int],
        before_step: BeforeStep = nothing,
    ) -> Iterator[Translated]:
        """See `Engine`."""
        positions = BATCH_POSITIONS if self._on_cpu else LARGE_BATCH_POSITIONS
        batches = longest_first(sentences, positions, settings.rows_of_each)

        def decode_batch(rows: Sequence[int]) -> list[list[Hypothesis]]:
            ids, numbers = [sentences[row] for row in rows], [keys[row] for row in rows]
            return decode(self.models, ids, settings, prefix=prefix, keys=numbers, before_step=before_step)

        with SideBySide(min(self._batches_at_a_time, len(batches)) or 1) as workers:
            yield from zip(batches, workers.run(decode_batch, batches), strict=True)


def longest_first(sentences: Sequence[Sequence[int]], positions: int, rows_of_each: int = 1) -> list[list[int]]:
    """Returns the rows of batches of sentences of similar length.

    A batch has at most `positions` padded positions, and MOST_ROWS hypotheses, if each sentence has rows_of_each. The
    longest come first, so that batches that are decoded side by side end at about the same time.
    """
    lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
    most = max(1, MOST_ROWS // rows_of_each)
    groups = groups_by_length(lengths, positions)[::-1]
    return [group[start : start + most].tolist() for group in groups for start in range(0, len(group), most)]
