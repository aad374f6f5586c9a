"""Losses of sentences, and of a whole split, as numbers. Imports no torch: sentence_losses.py computes them."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transformer_cli.datasets.dataset import EncodedSplit
from transformer_cli.text.lengths import Rows

TUTORIAL_BATCH = 128  # the mean of batch means depends on the batches; the tutorials use this size


@dataclass(frozen=True)
class SentenceLosses:
    """The losses of some sentences, one by one."""

    nll: NDArray[np.float64]
    """(sentences,): -log p of each sentence's target, in nats, summed over its tokens"""
    tokens: NDArray[np.int64]
    """(sentences,): the number of target tokens, <eos> included"""


@dataclass(frozen=True)
class Losses:
    """Losses of a whole split, in nats."""

    tokens: int
    """the number of target tokens, <eos> included"""
    loss: float
    """mean over target tokens"""
    loss_batch_mean: float
    """mean of the batches' mean losses, in batches of 128 in torchtext's order: the figure that tutorials report"""

    @property
    def ppl(self) -> float:
        """Perplexity: exp of the loss per token."""
        return perplexity(self.loss)


def perplexity(loss: float) -> float:
    """Returns exp(loss); a loss above 700 nats counts as 700, because a float, and JSON, cannot hold more."""
    return math.exp(min(loss, 700.0))


def perplexity_text(ppl: float, decimals: int = 3) -> str:
    """Returns a perplexity as it is printed: 6.750, and 1.01e+304 rather than three hundred digits."""
    return f"{ppl:.{decimals}f}" if ppl < 1e6 else f"{ppl:.3g}"


def corpus_losses_of(each: SentenceLosses, split: EncodedSplit, rows: Rows) -> Losses:
    """Returns what the losses of the sentences in `rows` are taken together."""
    lengths = zip(split.source.lengths[rows].tolist(), split.target.lengths[rows].tolist(), strict=True)
    order = np.argsort([interleaved(source, target) for source, target in lengths], kind="stable")
    batches = [order[start : start + TUTORIAL_BATCH] for start in range(0, len(order), TUTORIAL_BATCH)]
    means = [each.nll[batch].sum() / each.tokens[batch].sum() for batch in batches]
    return Losses(int(each.tokens.sum()), float(each.nll.sum() / each.tokens.sum()), float(np.mean(means)))


def interleaved(source_length: int, target_length: int) -> int:
    """Returns torchtext's sort key for test sets: the bits of both lengths in turns, the source's first.

    For example, 5 = 0b101 and 3 = 0b011 give 0b10_01_11 = 39.
    """
    key = 0
    for bit in reversed(range(max(source_length, target_length).bit_length())):
        key = key << 2 | (source_length >> bit & 1) << 1 | (target_length >> bit & 1)
    return key
