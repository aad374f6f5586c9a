"""Training text, cut into subwords anew each epoch: BPE-dropout, or unigram sampling. Knows no steps and no models.

The text is cut batch by batch, when its step comes or one step ahead (ahead.py): nothing of an epoch is kept, in memory
or on disk. The cut of batch b in epoch e is a pure function of (seed, e, b). So a run that
goes on in the middle of an epoch, or in another number of processes, learns from the same cuts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from transformer_cli.data.codec import Codec, WordCodec
from transformer_cli.data.dataset import EncodedSplit, MappedLines, Side
from transformer_cli.data.lengths import Rows, fits


@dataclass(frozen=True)
class SampledText:
    """The text of both sides of a split, and what cuts it."""

    split: EncodedSplit
    """the text's usual cut, which is the same in every epoch"""
    lines: tuple[MappedLines, MappedLines]
    """the source and the target text of the split"""
    codecs: tuple[Codec, Codec]
    """of the source and of the target; the text of a codec that does not sample keeps its usual cut"""
    seed: int
    max_length: int | None
    """a sentence whose new cut does not fit in so many positions keeps its usual cut"""

    def cut(self, batches: Sequence[Rows], *, epoch: int, first: int) -> tuple[EncodedSplit, list[Rows]]:
        """Cut some batches of an epoch. first: the number of the first of them in the epoch's plan, from 0.

        Returns their sentences one after another, and the rows of them that make each batch. For example, batches of
        the rows [5, 2] and [7] of the split become rows [0, 1] and [2] of a split of three sentences.
        """
        source, target = (
            Side.of(
                [ids for batch, rows in enumerate(batches, first) for ids in self._cut_side(side, rows, epoch, batch)]
            )
            for side in (0, 1)
        )
        ends = np.cumsum([0, *map(len, batches)])
        return EncodedSplit(source, target), [np.arange(start, end) for start, end in pairwise(ends)]

    def _cut_side(self, side: int, rows: Rows, epoch: int, batch: int) -> list[list[int]]:
        """Returns the ids of one side, 0 or 1, of the rows of a batch."""
        codec, lines = self.codecs[side], self.lines[side]
        usual = (self.split.source, self.split.target)[side]
        if not codec.samples:
            return [usual[row].tolist() for row in rows]
        cuts = self.sample(side, [lines[row] for row in rows], _seed(self.seed, epoch, batch, side))
        return [
            ids if fits(len(ids), self.max_length) else usual[row].tolist() for ids, row in zip(cuts, rows, strict=True)
        ]

    def sample(self, side: int, lines: list[str], seed: int) -> list[list[int]]:
        """Returns the ids of lines of one side, 0 or 1, whose codec samples: a function of the lines and the seed."""
        codec = self.codecs[side]
        assert not isinstance(codec, WordCodec)
        return codec.sample(lines, seed)


def _seed(seed: int, epoch: int, batch: int, side: int) -> int:
    """Returns a seed of 32 well-mixed bits."""
    mixed = np.random.SeedSequence([seed, epoch, batch, side + 1])  # not 0: NumPy takes a missing number for 0
    return int(mixed.generate_state(1)[0])
