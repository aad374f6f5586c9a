"""One optimiser step: the gradient of some batches' mean loss, clipped, then an update. Knows no epochs, runs or files.

A step is a function of (weights, moments, batches, step number): dropout follows from (seed, step number, rank).

Under torchrun every process takes the same step: each computes its part of the batches, and gradients are shared.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from transformer_cli.compute.devices import Precision, autocast
from transformer_cli.compute.memory import room_for
from transformer_cli.compute.world import ALONE, World
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.batching import Batch, collate, parts_by_length, share_of, target_tokens
from transformer_cli.data.dataset import EncodedSplit
from transformer_cli.data.lengths import Rows
from transformer_cli.model.fast.packing import packed_token_losses
from transformer_cli.model.loss import TokenLoss, token_losses
from transformer_cli.model.transformer import Transformer
from transformer_cli.training.optimisers import make_optimizer

PART = 4096  # how many target tokens of a batch the CPU computes at a time, to bound memory


@dataclass(frozen=True)
class BatchLoss:
    """The loss of the batches of one step, over all processes."""

    nll: float
    """-log p of the target tokens, in nats, summed"""
    tokens: int
    """the number of target tokens, <eos> included"""


class Learner:
    """A model together with everything that changes its weights, on one device, in one of the world's processes."""

    def __init__(
        self, model: Transformer, settings: TrainingConfig, device: torch.device, world: World = ALONE
    ) -> None:
        """Moves the model to the device. settings: `precision` must be resolved, not auto.

        Raises DistributedError if another process has ended, MemoryShortage if the device cannot hold the model.
        """
        assert settings.precision != "auto", "whoever opens a run chooses its precision"
        with room_for(lambda: f"the model does not fit in the memory of {device}; choose another training.device"):
            self.model = model.to(device)
        self.settings = settings
        self.device = device
        self.world = world
        self.precision: Precision = settings.precision
        self.packs = settings.fast and device.type == "cpu"
        form = packed_token_losses if self.packs else token_losses
        loss = TokenLoss(self.model, form, label_smoothing=settings.label_smoothing)
        self.token_loss = world.share_gradients(loss)
        self.optimizer = make_optimizer(self.model, settings)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step, and of the last one unless it has been set since."""
        return float(self.optimizer.param_groups[0]["lr"])

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the steps that follow."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def gradient(self, split: EncodedSplit, batches: Sequence[Rows], *, number: int) -> BatchLoss | None:
        """Compute the gradient of the mean loss over the target tokens of all these batches, and clip it.

        This is what takes long in a step; it changes no weight. number: the number of the step, from 1. Returns None if
        the loss or the gradient is not finite. Raises MemoryShortage for a batch that does not fit.
        """
        self.optimizer.zero_grad()  # what is left of a batch that did not fit
        torch.manual_seed(dropout_seed(self.settings.seed, number, self.world.rank))
        loss = self.backward(split, batches)
        limit = self.settings.clip_grad_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        return loss if math.isfinite(norm) and math.isfinite(loss.nll) else None

    def update(self, loss: BatchLoss | None) -> BatchLoss | None:
        """Change the weights by the gradient, unless it is not finite. loss: what `gradient` returned; returned too."""
        if loss is not None:
            with room_for(
                lambda: f"the optimiser's moments do not fit in the memory of {self.device}; lower model.d_model"
            ):
                self.optimizer.step()  # it takes memory before it changes any weight
        self.optimizer.zero_grad()
        return loss

    def backward(self, split: EncodedSplit, batches: Sequence[Rows]) -> BatchLoss:
        """Add the gradient of the batches' mean loss to the weights' gradients, part by part."""
        self.model.train()
        parts = [part for rows in batches for part in self._parts(split, rows)]
        weight = self.world.size  # undoes the division in the mean over the processes
        if not parts:  # more processes than sentences: this one takes part with weight 0
            parts, weight = [batches[0][:1]], 0
        tokens = int(target_tokens(split, np.concatenate(batches)).sum())  # of all processes
        nll = 0.0
        for index, part in enumerate(parts, start=1):
            batch = collate(split, part)
            with self._room_for(batch), self.world.pass_of(self.token_loss, is_last=index == len(parts)):
                there = batch.to(self.device)
                with autocast(self.device, self.precision):
                    losses = self.token_loss(there.source, there.target)
                nll += losses.nll.sum().item() if weight else 0.0  # read before nccl: later it might wait for the dead
                (losses.objective * weight / tokens).backward()
        return BatchLoss(sum(share for (share,) in self.world.gather(nll)), tokens)

    def _room_for(self, batch: Batch) -> AbstractContextManager[None]:
        """A block that computes a batch, or a part of one. Raises MemoryShortage if that does not fit in memory."""
        (count, source), target = batch.source.shape, batch.target.shape[1]
        return room_for(
            lambda: (
                f"a batch of {count} sentences with up to {source} source and {target} target positions does not fit "
                f"in the memory of {self.device}; in a new run, which may begin with the weights of this one "
                "(training.initialize_from), lower training.batch_size (training.accumulate makes one step of several "
                "batches) or leave long sentences out (model.max_length)"
            )
        )

    def _parts(self, split: EncodedSplit, rows: Rows) -> list[Rows]:
        """Returns this process's share of a batch, in the parts that are computed one after another."""
        share = share_of(split, rows, self.world)
        if not len(share):
            return []
        return parts_by_length(split, share, PART) if self.packs else [share]


def dropout_seed(seed: int, step: int, rank: int) -> int:
    """Returns a seed of 32 well-mixed bits: torch's CPU generator uses no more bits of a seed."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1)[0])
