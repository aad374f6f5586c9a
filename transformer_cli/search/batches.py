"""Groups sentences into batches of similar lengths, for a search or for losses. Knows lengths only."""

from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.text.vocabulary import N_SOS_EOS

BATCH_POSITIONS, MAX_BATCH_ROWS = 2048, 1024  # padded positions and hypotheses that a thread of a CPU computes at once
GPU_BATCH_POSITIONS, GPU_MAX_BATCH_ROWS = 16_384, 4096  # GPUs are faster with few large products


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
