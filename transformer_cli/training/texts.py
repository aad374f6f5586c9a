"""The encoded text of training and validation, and which of its pairs fit the model. Knows neither steps nor files."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from transformer_cli.data.batching import target_token_counts
from transformer_cli.data.dataset import Dataset, EncodedSplit, Rows
from transformer_cli.errors import DataError
from transformer_cli.system.terminal import pluralize

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SplitRows:
    """A split, and the rows of its pairs that fit the model."""

    split: EncodedSplit
    rows: Rows

    def count_target_tokens(self, batches: Sequence[Rows]) -> int:
        """Returns the number of target tokens in these batches of `split`, <eos> included."""
        return sum(int(target_token_counts(self.split, rows).sum()) for rows in batches)


@dataclass
class TrainingTexts:
    """The text of training, and that of validation."""

    train: SplitRows
    valid: SplitRows
    extra_valid: SplitRows | None = None
    """further validation text, such as text of the old domain in finetuning"""

    @property
    def validation_splits(self) -> list[SplitRows]:
        """The validation texts: `valid`, and `extra_valid` if there is any."""
        return [each for each in (self.valid, self.extra_valid) if each is not None]


def read_texts(dataset: Dataset, max_length: int | None) -> TrainingTexts:
    """Returns a dataset's splits train and valid. Raises DataError if one has no pair that fits in max_length."""
    return TrainingTexts(*(usable_split(dataset.split(name), name, max_length) for name in ("train", "valid")))


def usable_split(split: EncodedSplit, name: str, max_length: int | None) -> SplitRows:
    """Returns a split with the rows that fit in max_length positions. Raises DataError if none fits."""
    rows = split.rows_within(max_length)
    if not len(rows):
        raise DataError(f"no pair of {name} fits in model.max_length {max_length}; shorten its sentences")
    if n_long := len(split) - len(rows):
        log.warning("%s: left out %s longer than max_length %s", name, pluralize(n_long, "pair"), max_length)
    return SplitRows(split, rows)
