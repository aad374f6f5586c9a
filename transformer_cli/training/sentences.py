"""Chooses the sentences of a dataset that are used in training. Knows lengths, nothing of steps or epochs."""

import logging
from dataclasses import dataclass

from transformer_cli.data.batching import rows_within, target_tokens
from transformer_cli.data.dataset import Dataset, EncodedSplit
from transformer_cli.data.lengths import Rows
from transformer_cli.errors import DataError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sentences:
    """A split, and the rows of the pairs that the model has enough positions for."""

    split: EncodedSplit
    rows: Rows

    @property
    def target_tokens(self) -> int:
        """How many tokens there are to predict in one pass over these pairs, <eos> included."""
        return int(target_tokens(self.split, self.rows).sum())


def usable_sentences(dataset: Dataset, name: str, max_length: int | None) -> Sentences:
    """Returns the pairs of a split that fit in max_length positions; a warning counts the others.

    Raises DataError if no pair fits.
    """
    split = dataset.split(name)
    rows = rows_within(split, max_length)
    if len(rows) < len(split):
        log.warning("%s: left out %d pairs longer than max_length %s", name, len(split) - len(rows), max_length)
    if not len(rows):
        raise DataError(f"{dataset.folder}: no pair of {name} fits in model.max_length {max_length}")
    return Sentences(split, rows)
