"""Groups sentences into batches, and turns batches into padded tensors. Knows lengths and ids, not words.

The plan of an epoch depends on (lengths, settings, seed, epoch) alone, so (epoch, batch) is enough to resume.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.dataset import EncodedSplit, Rows, Side
from transformer_cli.text.vocabulary import EOS, N_SOS_EOS, PAD, SOS

LONG_SENTENCE = 512  # tokens; the attention of longer sentences needs more memory than the rest
BUCKET_POOL = 100  # batches; bucketing shuffles all sentences, then sorts those of so many batches by length


@dataclass(frozen=True)
class PaddedBatch:
    """Padded ids; each row goes from <sos> to <eos>. source (batch, source) and target (batch, target) are int64."""

    source: Tensor
    target: Tensor

    def to(self, device: torch.device) -> "PaddedBatch":
        """Returns the same batch on a device."""
        return PaddedBatch(self.source.to(device), self.target.to(device))


def plan_epoch(split: EncodedSplit, rows: Rows, training: TrainingConfig, epoch: int) -> list[Rows]:
    """Returns the batches of an epoch, in order. Each of `rows` is in exactly one; some batches may be smaller."""
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


def split_into_micro_batches(split: EncodedSplit, rows: Rows, max_tokens: int) -> list[Rows]:
    """Sort a batch by length and split it into micro-batches of at most max_tokens target tokens.

    A sentence with more tokens is a micro-batch of its own. Attention needs memory in proportion to the squared length,
    so micro-batches with sentences longer than LONG_SENTENCE are split again. The gradients of all micro-batches add up
    to the gradient of the batch.
    """
    micro_batches = []
    order = _sort_by_length(split, rows)
    for each in _split_by_size(order, target_token_counts(split, order), max_tokens):
        lengths = np.maximum(split.source.lengths[each], split.target.lengths[each])
        micro_batches += _split_by_size(each, lengths**2, max_tokens * LONG_SENTENCE)
    return micro_batches


def target_token_counts(split: EncodedSplit, rows: Rows) -> Rows:
    """Returns how many tokens the model has to predict for each of these sentences: its target tokens and <eos>."""
    return split.target.lengths[rows] + 1


def collate(split: EncodedSplit, rows: Rows) -> PaddedBatch:
    """Returns padded tensors of the sentences in `rows`, with <sos> and <eos> added."""
    return PaddedBatch(_pad_rows(split.source, rows), _pad_rows(split.target, rows))


def pad_ids(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Add <sos> and <eos> to each sentence's ids, and pad them at the end: int64 (batch, longest + N_SOS_EOS)."""
    return _pad_rows(Side.of(sentences), np.arange(len(sentences)))


def _pad_rows(side: Side, rows: Rows) -> Tensor:
    """Returns what `pad_ids` does, for these sentences of a side.

    For example, the sentences a b, at 10 in side.ids, and c d e, at 40, are read from the indices 10 11 40 41 42.
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


def _split_by_size(order: Rows, sizes: Rows, max_size: int) -> list[Rows]:
    """Split rows, in their order, so that the sizes (rows,) of each part add up to max_size or less.

    A row that is larger than that is a part of its own. For example, rows [7, 8, 9] of the sizes 3, 2 and 4 become
    [[7, 8], [9]] if max_size = 5.
    """
    batches, start, total = [], 0, 0
    for end, size in enumerate(sizes.tolist()):
        if start < end and total + size > max_size:
            batches.append(order[start:end])
            start, total = end, 0
        total += size
    return [*batches, order[start:]] if len(order) else []
