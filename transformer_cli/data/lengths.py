"""How long sentences are: what fits in a model, and which sentences are of similar length. Knows no ids and no words.

A length counts a sentence's own tokens, without <sos> and <eos>.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.data.vocabulary import MARKERS

Rows = NDArray[np.int64]


def fits(length: int, max_length: int | None) -> bool:
    """Whether `length` tokens, <sos> and <eos> fit in max_length positions (None: any number fits)."""
    return max_length is None or length + MARKERS <= max_length


def rows_that_fit(lengths: NDArray[Any], max_length: int | None) -> Rows:
    """Returns the indices of the lengths (sentences,) that `fits` is true of."""
    return np.arange(len(lengths)) if max_length is None else np.flatnonzero(lengths + MARKERS <= max_length)


def groups_by_length(lengths: NDArray[Any], most: int) -> list[Rows]:
    """Group sentences of similar length: at most `most` padded positions per group, <sos> and <eos> included.

    lengths (sentences,). Returns the indices of each group, the shortest sentences first; a sentence that is longer
    than `most` is a group of its own. For example, lengths [5, 1, 4] with 14 positions give [[1, 2], [0]]:
    2 × (4 + 2) = 12 positions fit, and 3 × (5 + 2) = 21 do not.
    """
    order = np.argsort(lengths, kind="stable")
    widths = lengths[order] + MARKERS
    return _cut(order, most, lambda start, end: int((end - start) * widths[end - 1]))  # the last is longest


def cut_by_total(order: Rows, sizes: NDArray[Any], most: int) -> list[Rows]:
    """Cut rows, in their order, into pieces whose sizes add up to at most `most`; a larger row is a piece of its own.

    sizes (rows,): the size of each row in `order`. For example, rows [7, 8, 9] of sizes [3, 2, 4] with most = 5 give
    [[7, 8], [9]].
    """
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return _cut(order, most, lambda start, end: int(ends[end] - ends[start]))


def _cut(order: Rows, most: int, cost: Callable[[int, int], int]) -> list[Rows]:
    """Returns pieces order[start:end], each as long as possible while cost(start, end) is at most `most`."""
    pieces, start = [], 0
    for end in range(1, len(order) + 1):
        if end - start > 1 and cost(start, end) > most:
            pieces.append(order[start : end - 1])
            start = end - 1
    return [*pieces, order[start:]] if len(order) else []
