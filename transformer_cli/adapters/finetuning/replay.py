"""Replay: text, usually of the old domain, that makes up half of each epoch of finetuning (`training.replay`).

A source-only file is first translated by the initial model, as in knowledge distillation.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from transformer_cli.adapters.corpora.formats import ONE_SIDE, pair_format, read_one_side
from transformer_cli.adapters.finetuning.copied_text import CopiedText
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import EncodedSplit, Pair, Rows, Side
from transformer_cli.system.terminal import pluralize, show_status
from transformer_cli.training.callbacks import TrainerView
from transformer_cli.training.texts import SplitRows


class Replay(CopiedText):
    """Mixes the pairs of `training.replay` into the training text."""

    implements = "training.replay"

    def __init__(self, translate: Callable[[Sequence[str]], Iterable[str]]) -> None:
        """translate: translates lines by the initial model."""
        self.translate = translate

    def read(self, paths: Sequence[Path], config: Config) -> Iterable[Pair]:
        """Returns the pairs in files. Lines of a source-only file are paired with their translations."""
        if len(paths) > 1 or pair_format(paths[0], config.data) != ONE_SIDE:
            return super().read(paths, config)
        lines = read_one_side(self.implements, paths[0], config.data)
        show_status(f"{paths[0]}: translating {pluralize(len(lines), 'line')} by {config.training.initialize_from}")
        return zip(lines, self.translate(lines), strict=True)

    def on_begin(self, trainer: TrainerView) -> None:
        """Append the pairs to the training text, whose own rows stay the same."""
        own, more = trainer.texts.train, self.load_split(trainer.run)
        trainer.texts.train = SplitRows(concatenate_splits(own.split, more.split), own.rows)
        self.rows = len(own.split) + more.rows

    def epoch_rows(self, trainer: TrainerView, rows: Rows) -> Rows:
        """Returns the given rows, and as many rows of the pairs to replay."""
        seed, epoch = trainer.run.config.training.seed, trainer.state.epoch
        return np.concatenate((rows, replay_rows(self.rows, len(rows), seed=seed, epoch=epoch)))


def concatenate_splits(one: EncodedSplit, other: EncodedSplit) -> EncodedSplit:
    """Returns a split in memory with the pairs of both, those of `one` first."""

    def concatenate(a: Side, b: Side) -> Side:
        return Side(np.concatenate((a.ids, b.ids)), np.concatenate((a.offsets, a.offsets[-1] + b.offsets[1:])))

    return EncodedSplit(concatenate(one.source, other.source), concatenate(one.target, other.target))


def replay_rows(rows: Rows, size: int, *, seed: int, epoch: int) -> Rows:
    """Returns a random permutation of rows, repeated or truncated to `size`; it depends on seed and epoch only.

    For example, 5 of the rows 7 and 8 are 8 7 8 7 8, or 7 8 7 8 7.
    """
    return np.resize(np.random.default_rng([seed, epoch]).permutation(rows), size)
