"""Losses of encoded sentences under a model, one by one or together. Knows ids, not text.

Training validates with these functions, so this module imports nothing that translates.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer_cli.compute.memory import room_for
from transformer_cli.compute.threads import IN_CALLER, SideBySide
from transformer_cli.compute.world import ALONE, World
from transformer_cli.datasets.batching import PaddedBatch, collate
from transformer_cli.datasets.dataset import EncodedSplit
from transformer_cli.evaluation.losses import Losses, SentenceLosses, corpus_losses_of
from transformer_cli.model.loss import sum_by_row, token_losses
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.lengths import Rows, groups_by_length

LOSS_POSITIONS = 2048  # padded positions whose losses are computed together
MOST_GROUPS = 4  # so many times that many positions at a time, to bound memory


def sentence_losses(
    model: Transformer,
    split: EncodedSplit,
    rows: Rows,
    world: World = ALONE,
    *,
    others: Sequence[Transformer] = (),
) -> SentenceLosses:
    """Returns the losses of the sentences in `rows`, in that order, without dropout or label smoothing, in float32.

    others: the other models of an ensemble, which gives each token the mean of their probabilities. Several processes
    that hold the same models share the work, and all of them return the same losses. On the CPU one thread computes a
    group of sentences, so the number of threads changes nothing. Raises MemoryShortage.
    """
    device = next(model.parameters()).device
    nll, tokens = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
    longest = np.maximum(split.source.lengths[rows], split.target.lengths[rows])
    models = [each.eval() for each in (model, *others)]

    @torch.inference_mode()
    def losses_of(group: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        batch = collate(split, rows[group])
        with room_for(partial(_too_large, batch, device)):
            source, target = batch.source.to(device), batch.target.to(device)
            losses = _of_mean([token_losses(each, source, target).nll for each in models])
        sums, counts = sum_by_row(losses.cpu(), batch.target, model.pad_id)
        return sums.numpy(), counts.numpy()

    groups = groups_by_length(longest, LOSS_POSITIONS)[world.rank :: world.size]
    n_workers = min(torch.get_num_threads(), MOST_GROUPS, len(groups)) or 1
    with SideBySide(n_workers, threads=1) if device.type == "cpu" else IN_CALLER as workers:
        for group, (sums, counts) in zip(groups, workers.run(losses_of, groups), strict=True):
            nll[group], tokens[group] = sums, counts
    return SentenceLosses(world.total(nll), world.total(tokens))  # for each sentence, all processes but one have 0


def corpus_losses(model: Transformer, split: EncodedSplit, rows: Rows, world: World = ALONE) -> Losses:
    """Returns the losses of the sentences in `rows` taken together; otherwise like `sentence_losses`."""
    return corpus_losses_of(sentence_losses(model, split, rows, world), split, rows)


def _too_large(batch: PaddedBatch, device: torch.device) -> str:
    (count, source), target = batch.source.shape, batch.target.shape[1]
    return (
        f"the losses of {count} sentences with up to {source} source and {target} target positions do not fit in the "
        f"memory of {device}; free memory, or split the longest sentences"
    )


def _of_mean(losses: Sequence[Tensor]) -> Tensor:
    """Returns -log of the mean of the probabilities whose -log several models give: float32 (tokens,), like each.

    For example, probabilities of 0.2 and 0.4, which are losses of 1.61 and 0.92, give -log 0.3 = 1.20.
    """
    if len(losses) == 1:
        return losses[0]
    return math.log(len(losses)) - torch.stack([-each for each in losses]).logsumexp(dim=0)
