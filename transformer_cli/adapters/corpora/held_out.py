"""Chooses which pairs of the training text are held out, from the hashes of their sides. Knows no text and no files."""

import numpy as np
from numpy.typing import NDArray

from transformer_cli.config.schema import DataConfig

MAX_LINKED_PAIRS = 20  # larger groups are not held out, such as the headings "History" of all articles


def assign_splits(
    sources: NDArray[np.uint64], targets: NDArray[np.uint64], data: DataConfig
) -> tuple[NDArray[np.uint8], int]:
    """Returns the split of each pair, (pairs,): 0 is train, 1 valid and 2 test; and how many pairs a group has moved.

    sources, targets: (pairs,), the `sentence_hash` of each side. The source hash of a group's first pair, as a number
    between 0 and 1, decides. For example, with valid 0.01 and test 0.02, 0.004 means valid, 0.5 train and 0.985 test.
    A larger share holds out the same groups, and more. Groups of more than MAX_LINKED_PAIRS are train.
    """
    position = sources / 2**64
    alone = (position < data.held_out.valid) + np.uint8(2) * (position >= 1 - data.held_out.test)
    first = first_linked(sources, targets)
    splits = np.where(np.bincount(first)[first] > MAX_LINKED_PAIRS, np.uint8(0), alone[first])
    return splits, int((splits != alone).sum())


def first_linked(sources: NDArray[np.uint64], targets: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns the index of the first pair of each pair's group, (pairs,).

    Pairs with the same source or the same target are in one group: a connected component. Sources [a, b, c, c] and
    targets [x, y, z, x] give [0, 1, 0, 0], because pairs 2 and 3 share c, and 0 and 3 share x.
    """
    sides = [np.unique(hashes, return_inverse=True)[1] for hashes in (sources, targets)]
    first = np.arange(len(sources))
    while True:
        before = first.copy()
        for side in sides:
            least = np.full(len(first), len(first))
            np.minimum.at(least, side, first)
            np.minimum.at(first, before, least[side])  # a whole group follows when one of its pairs has joined another
            first = np.minimum(first, least[side])[first]
        if (first == before).all():
            return first
