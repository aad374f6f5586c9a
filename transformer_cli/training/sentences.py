"""Chooses the sentences of a dataset that are used in training, and their cut. Knows lengths, nothing of models."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from transformer_cli.data.batching import rows_within, target_tokens
from transformer_cli.data.codec import SIDES
from transformer_cli.data.dataset import Dataset, EncodedSplit
from transformer_cli.data.lengths import Rows
from transformer_cli.data.sampling import SampledText
from transformer_cli.errors import DataError
from transformer_cli.runs.run import Run
from transformer_cli.system.terminal import counted

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sentences:
    """A split, and the rows of the pairs that the model has enough positions for."""

    split: EncodedSplit
    rows: Rows
    sampled: SampledText | None = None
    """the text of the split, if training cuts it anew each epoch; plans and progress go by the cut in `split`"""

    def target_tokens(self, batches: Sequence[Rows]) -> int:
        """Returns how many tokens there are to predict in these batches of `split`, <eos> included."""
        return sum(int(target_tokens(self.split, rows).sum()) for rows in batches)

    def cut(self, batches: Sequence[Rows], *, epoch: int, first: int) -> tuple[EncodedSplit, Sequence[Rows]]:
        """Returns the sentences that a step learns from, and which rows of them make each of its batches.

        first: the number of the first of these batches in the plan of the epoch, from 0.
        """
        if self.sampled is None:
            return self.split, batches
        return self.sampled.cut(batches, epoch=epoch, first=first)


def usable_sentences(dataset: Dataset, name: str, max_length: int | None) -> Sentences:
    """Returns the pairs of a split that fit in max_length positions; a warning counts the others.

    Raises DataError if no pair fits.
    """
    split = dataset.split(name)
    rows = rows_within(split, max_length)
    if len(rows) < len(split):
        n_long = len(split) - len(rows)
        log.warning("%s: left out %s longer than max_length %s", name, counted(n_long, "pair"), max_length)
    if not len(rows):
        raise DataError(f"{dataset.folder}: no pair of {name} fits in model.max_length {max_length}")
    return Sentences(split, rows)


def training_sentences(run: Run, dataset: Dataset) -> Sentences:
    """Returns the usable pairs of the training split, which are cut anew each epoch if a codec of the run samples.

    Raises DataError if no pair fits the model, or the text is not that of the split.
    """
    max_length = run.config.model.max_length
    usable = usable_sentences(dataset, "train", max_length)
    codecs = (run.codecs.source, run.codecs.target)
    if not any(codec.samples for codec in codecs):
        return usable
    source, target = (dataset.lines("train", side) for side in SIDES)
    text = SampledText(usable.split, (source, target), codecs, seed=run.config.training.seed, max_length=max_length)
    return replace(usable, sampled=text)
