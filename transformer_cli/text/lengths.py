"""How long sentences are: what fits in a model, and which sentences are of similar length. Knows no ids and no words.

A length counts a sentence's own tokens, without <sos> and <eos>.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.text.vocabulary import MARKERS

Rows = NDArray[np.int64]


def fits(length: int, max_length: int | None) -> bool:
    """Whether `length` tokens, <sos> and <eos> fit in max_length positions (None: any number fits)."""
    return max_length is None or length + MARKERS <= max_length


def groups_by_length(lengths: NDArray[Any], most: int) -> list[Rows]:
    """Group sentences of similar length: at most `most` padded positions per group, <sos> and <eos> included.

    lengths (sentences,). Returns the indices of each group, the shortest sentences first; a sentence that is longer
    than `most` is a group of its own. For example, lengths [5, 1, 4] with 14 positions give [[1, 2], [0]]:
    2 × (4 + 2) = 12 positions fit, and 3 × (5 + 2) = 21 do not.
    """
    order = np.argsort(lengths, kind="stable")
    groups, start = [], 0
    for end, width in enumerate((lengths[order] + MARKERS).tolist()):  # the last of a group is its longest
        if start < end and (end + 1 - start) * width > most:
            groups.append(order[start:end])
            start = end
    return [*groups, order[start:]] if len(order) else []
