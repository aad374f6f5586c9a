"""Which sentences of a dataset training sees. Knows lengths, nothing of steps or epochs."""

import logging
from dataclasses import dataclass

from transformer_cli.data.batching import rows_within, target_tokens
from transformer_cli.data.dataset import Dataset, EncodedSplit
from transformer_cli.data.lengths import Rows
from transformer_cli.errors import DataError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sentences:
    """A split, and those of its pairs that the model has positions for."""

    split: EncodedSplit
    rows: Rows

    @property
    def target_tokens(self) -> int:
        """Tokens to predict in one pass over them, <eos> included."""
        return int(target_tokens(self.split, self.rows).sum())


def usable_sentences(dataset: Dataset, name: str, max_length: int | None) -> Sentences:
    """The pairs of a split that fit in max_length positions; a warning counts the others.

    Raises DataError if none fits.
    """
    split = dataset.split(name)
    rows = rows_within(split, max_length)
    if len(rows) < len(split):
        log.warning("%s: left out %d pairs longer than max_length %s", name, len(split) - len(rows), max_length)
    if not len(rows):
        raise DataError(f"{dataset.folder}: no pair of {name} fits in model.max_length {max_length}")
    return Sentences(split, rows)
