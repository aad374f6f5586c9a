"""Which sentences make a batch, and how a batch becomes padded tensors. Knows lengths and ids, not words.

The plan of an epoch is a pure function of (lengths, settings, seed, epoch), so (epoch, batch) is enough to resume.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.dataset import EncodedSplit, Rows, Side
from transformer_cli.text.vocabulary import EOS, N_SOS_EOS, PAD, SOS

LONG_SENTENCE = 512  # tokens of a sentence, from which on its squares bound the memory of a part
BUCKET_POOL = 100  # batches whose sentences are sorted together if bucketed; the pools themselves are drawn at random


@dataclass(frozen=True)
class PaddedBatch:
    """Padded ids; each row goes from <sos> to <eos>. source (batch, source) and target (batch, target) are int64."""

    source: Tensor
    target: Tensor

    def to(self, device: torch.device) -> "PaddedBatch":
        """Returns the same batch on a device."""
        return PaddedBatch(self.source.to(device), self.target.to(device))


def plan_epoch(split: EncodedSplit, rows: Rows, training: TrainingConfig, epoch: int) -> list[Rows]:
    """Returns the batches of an epoch, in order. Every row of `rows` is in exactly one; some may be smaller."""
    generator = np.random.default_rng([training.seed, epoch])
    order = generator.permutation(rows)
    if training.batch_order == "random":
        return _make_batches(order, split, training)
    size = training.batch_size  # sentences
    if training.batch_by == "tokens":
        size = max(1, int(size / (split.target.lengths[rows].mean() + 1)))
    pool = BUCKET_POOL * size
    pools = (order[start : start + pool] for start in range(0, len(order), pool))
    batches = [batch for rows in pools for batch in _make_batches(_sort_by_length(split, rows), split, training)]
    return [batches[index] for index in generator.permutation(len(batches))]


def split_into_micro_batches(split: EncodedSplit, rows: Rows, tokens: int) -> list[Rows]:
    """Sort a batch by length and cut it into parts of at most `tokens` target tokens; a longer sentence stands alone.

    Attention needs memory by the squares of the lengths, so parts of sentences longer than LONG_SENTENCE are cut again.
    The sum of the parts' gradients is the batch's gradient.
    """
    parts = []
    order = _sort_by_length(split, rows)
    for part in _split_by_size(order, target_token_counts(split, order), tokens):
        longest = np.maximum(split.source.lengths[part], split.target.lengths[part])
        parts += _split_by_size(part, longest**2, tokens * LONG_SENTENCE)
    return parts


def target_token_counts(split: EncodedSplit, rows: Rows) -> Rows:
    """Returns how many tokens the model has to predict for each of these sentences: its target tokens, and <eos>."""
    return split.target.lengths[rows] + 1


def collate(split: EncodedSplit, rows: Rows) -> PaddedBatch:
    """Returns padded tensors of the sentences in `rows`, with <sos> and <eos> added."""
    return PaddedBatch(_pad_rows(split.source, rows), _pad_rows(split.target, rows))


def pad_ids(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Add <sos> and <eos> to each sentence's ids, and pad them at the end: int64 (batch, longest + N_SOS_EOS)."""
    return _pad_rows(Side.of(sentences), np.arange(len(sentences)))


def _pad_rows(side: Side, rows: Rows) -> Tensor:
    """What `pad_ids` returns for these sentences of a side.

    For example, sentences a b and c d e that begin at 10 and 40 have the ids 10 11 40 41 42.
    """
    lengths = side.lengths[rows]
    padded = np.full((len(rows), lengths.max() + N_SOS_EOS), PAD, dtype=np.int64)
    padded[:, 0] = SOS
    padded[np.arange(len(rows)), lengths + 1] = EOS
    shifts = side.offsets[rows] - (np.cumsum(lengths) - lengths)  # [10 - 0, 40 - 2]
    is_token = np.arange(lengths.max()) < lengths[:, None]
    padded[:, 1:-1][is_token] = side.ids[np.arange(lengths.sum()) + np.repeat(shifts, lengths)]
    return torch.from_numpy(padded)


def _make_batches(order: Rows, split: EncodedSplit, training: TrainingConfig) -> list[Rows]:
    if training.batch_by == "sentences":
        return [order[start : start + training.batch_size] for start in range(0, len(order), training.batch_size)]
    return _split_by_size(order, target_token_counts(split, order), training.batch_size)


def _sort_by_length(split: EncodedSplit, rows: Rows) -> Rows:
    return rows[np.lexsort((split.source.lengths[rows], split.target.lengths[rows]))]


def _split_by_size(order: Rows, sizes: Rows, most: int) -> list[Rows]:
    """Cut rows, in their order, where their sizes (rows,) would add up to more than `most`; a larger one is alone.

    For example, rows [7, 8, 9] of the sizes 3, 2 and 4 become [[7, 8], [9]] if most = 5.
    """
    batches, start, total = [], 0, 0
    for end, size in enumerate(sizes.tolist()):
        if start < end and total + size > most:
            batches.append(order[start:end])
            start, total = end, 0
        total += size
    return [*batches, order[start:]] if len(order) else []
