"""Loss, perplexity, BLEU and chrF. The one owner of sacreBLEU. References never pass through the vocabulary."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from transformer_cli.data.batching import Rows, collate, interleaved
from transformer_cli.data.dataset import EncodedSplit
from transformer_cli.model.loss import sum_by_row, token_losses
from transformer_cli.model.transformer import Transformer

TUTORIAL_BATCH = 128  # the mean of batch means depends on the batches: these are the tutorials'
LOSS_TOKENS = 2048  # padded positions computed together


@dataclass(frozen=True)
class Losses:
    """Of a whole split, in nats."""

    tokens: int
    """target tokens, <eos> included"""
    loss: float
    """mean over target tokens"""
    loss_batch_mean: float
    """mean over batches of 128, sorted as torchtext sorts, of the means over their tokens: the tutorials' figure"""

    @property
    def ppl(self) -> float:
        """Perplexity: exp of the loss per token (inf beyond what a float holds)."""
        return math.exp(self.loss) if self.loss < 700 else math.inf


def corpus_losses(model: Transformer, split: EncodedSplit, rows: Rows) -> Losses:
    """The losses of the named sentences, without dropout or label smoothing, in float32."""
    device = next(model.parameters()).device
    source_lengths, target_lengths = split.source.lengths, split.target.lengths
    nll, tokens = np.zeros(len(split)), np.zeros(len(split), dtype=np.int64)
    model.eval()
    with torch.inference_mode():
        for chunk in _chunks_by_length(rows, np.maximum(source_lengths, target_lengths) + 2):
            batch = collate(split, chunk).to(device)
            losses = token_losses(model, batch.source, batch.target)
            sums, counts = sum_by_row(losses.nll.cpu(), batch.target.cpu(), model.pad_id)
            nll[chunk], tokens[chunk] = sums.numpy(), counts.numpy()
    order = sorted(rows, key=lambda row: interleaved(int(source_lengths[row]), int(target_lengths[row])))
    batches = [order[start : start + TUTORIAL_BATCH] for start in range(0, len(order), TUTORIAL_BATCH)]
    means = [nll[batch].sum() / tokens[batch].sum() for batch in batches]
    return Losses(int(tokens[rows].sum()), float(nll[rows].sum() / tokens[rows].sum()), float(np.mean(means)))


def _chunks_by_length(rows: Rows, lengths: Rows) -> list[Rows]:
    """Rows of similar length together, so many that the padded chunk has about LOSS_TOKENS positions."""
    order = rows[np.argsort(lengths[rows], kind="stable")]
    chunks, start = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end - start + 1) * lengths[order[end]] > LOSS_TOKENS:
            chunks.append(order[start:end])
            start = end
    return chunks
