"""Training text, cut into subwords anew each epoch by BPE-dropout. Knows no steps and no models.

The text is cut batch by batch, when its step comes, or by a worker process during the step before it: a thread would
hold Python's lock, and the step would wait for it. Nothing of an epoch is kept, in memory or on disk. The cut of batch
b in epoch e is a pure function of (seed, e, b). So a run that goes on in the middle of an epoch, or in another number
of processes, learns from the same cuts.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from transformer_cli.datasets.dataset import EncodedSplit, MappedLines, Side
from transformer_cli.system.workers import workers_of
from transformer_cli.text.codec import SubwordCodec
from transformer_cli.text.lengths import Rows, fits

Cut = tuple[EncodedSplit, list[Rows]]
Sample = Callable[[int, list[str], int], list[list[int]]]


@dataclass(frozen=True)
class SampledText:
    """The text of both sides of a split, and what cuts it."""

    split: EncodedSplit
    """the text's usual cut, which is the same in every epoch"""
    lines: Sequence[MappedLines]
    """[source, target]: the text of the split"""
    codecs: Sequence[SubwordCodec]
    """[source, target]"""
    seed: int
    max_length: int | None
    """a sentence whose new cut does not fit in so many positions keeps its usual cut"""

    def cut(self, batches: Sequence[Rows], *, epoch: int, first: int, sample: Sample | None = None) -> Cut:
        """Cut some batches of an epoch. first: the number of the first of them in the epoch's plan, from 0.

        sample: another way to do what `self.sample` does. Returns the batches' sentences one after another, and the
        rows of them that make each batch. For example, batches of the rows [5, 2] and [7] of the split become rows
        [0, 1] and [2] of a split of three sentences.
        """
        sides: tuple[list[list[int]], list[list[int]]] = ([], [])
        for batch, rows in enumerate(batches, first):
            for side, usual in enumerate((self.split.source, self.split.target)):
                lines, seed = [self.lines[side][row] for row in rows], mixed_seed(self.seed, epoch, batch, side + 1)
                cuts = (sample or self.sample)(side, lines, seed)
                sides[side].extend(
                    ids if fits(len(ids), self.max_length) else usual[row].tolist()
                    for ids, row in zip(cuts, rows, strict=True)
                )
        ends = np.cumsum([0, *map(len, batches)])
        return EncodedSplit(*map(Side.of, sides)), [np.arange(start, end) for start, end in pairwise(ends)]

    def sample(self, side: int, lines: list[str], seed: int) -> list[list[int]]:
        """Returns the ids of lines of one side, 0 or 1, cut at random: a function of the lines and the seed."""
        return self.codecs[side].sample(lines, seed)


def mixed_seed(*numbers: int) -> int:
    """Returns a seed of 32 well-mixed bits: torch's CPU generator uses no more. NumPy takes a missing number for 0."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


class CutAhead:
    """A text that is cut batch by batch; in a `with` block, which has a worker, the next ones can be cut ahead."""

    def __init__(self, text: SampledText) -> None:
        self.text = text
        self._held = ExitStack()  # the worker, and the thread that waits for it
        self._thread: ThreadPoolExecutor | None = None
        self._begun: tuple[int, Sequence[Rows], Future[Cut]] | None = None  # the epoch, the batches, their cuts

    def __enter__(self) -> "CutAhead":
        self._ask = self._held.enter_context(workers_of(open_sampler, list(map(astuple, self.text.codecs))))
        self._thread = self._held.enter_context(ThreadPoolExecutor(1))
        return self

    def __exit__(self, *_: object) -> None:
        self._thread = self._begun = None
        self._held.close()

    def cut(self, batches: Sequence[Rows], *, epoch: int, first: int, following: Sequence[Rows] = ()) -> Cut:
        """As `SampledText.cut`. following: the batches of the epoch that come next, which are then cut ahead."""
        begun, self._begun = self._begun, None
        is_begun = begun and begun[0] == epoch and list(map(id, begun[1])) == list(map(id, batches))
        found = begun[2].result() if begun and is_begun else self.text.cut(batches, epoch=epoch, first=first)
        if self._thread and len(following):
            cut = partial(self.text.cut, following, epoch=epoch, first=first + len(batches), sample=self._sample)
            self._begun = epoch, following, self._thread.submit(cut)
        return found

    def _sample(self, side: int, lines: list[str], seed: int) -> list[list[int]]:
        with suppress(EOFError):  # somebody has killed the worker: this takes longer, but the cuts are the same
            return self._ask((side, lines, seed))
        return self.text.sample(side, lines, seed)


def open_sampler(settings: Sequence[Sequence[Any]]) -> Callable[[tuple[int, list[str], int]], list[list[int]]]:
    """Returns a function like `SampledText.sample`. settings: the fields of both codecs."""
    codecs = [SubwordCodec(*each) for each in settings]
    return lambda request: codecs[request[0]].sample(*request[1:])
