"""One optimiser step: the gradient of some batches' mean loss, clipped, then an update. Knows no epochs, runs or files.

On the CPU each batch is computed in lanes: shares of it, each with a gradient of its own and each the work of one
thread. The gradients are added in the lanes' order. So threads wait for each other a few times a step, not in every
operation, and a step is a function of (weights, moments, batches, step number, number of lanes), whatever the number of
threads: dropout follows from (seed, step number, rank, lane), and each sum is formed by one thread.

    batch  ─┬─ lane 0: part, part, … → gradient ─┐
            └─ lane 1: part, part, … → gradient ─┴─ sum → clipped → update

On GPUs and under torchrun there is one lane, with all threads. Under torchrun every process takes the same step: each
computes its part of the batches, and gradients are shared.
"""

import math
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from transformer_cli.compute.devices import Precision, autocast, choose_lanes
from transformer_cli.compute.memory import room_for
from transformer_cli.compute.threads import IN_CALLER, SideBySide
from transformer_cli.compute.world import ALONE, World
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.batching import Batch, collate, parts_by_length, share_of, target_tokens
from transformer_cli.data.dataset import EncodedSplit
from transformer_cli.data.lengths import Rows
from transformer_cli.data.sampling import mixed_seed
from transformer_cli.model.fast.dropout import FastDropout, drawing_from
from transformer_cli.model.fast.packing import packed_token_losses
from transformer_cli.model.loss import TokenLoss, token_losses
from transformer_cli.model.transformer import Transformer
from transformer_cli.training.optimisers import make_optimizer

PART = 4096  # how many target tokens of a batch the CPU computes at a time, all lanes together, to bound memory
WHOLE = sys.maxsize


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
        form = packed_token_losses if settings.fast else token_losses
        loss = TokenLoss(self.model, form, label_smoothing=settings.label_smoothing)
        self.token_loss = world.share_gradients(loss)
        is_split = device.type == "cpu" and world.size == 1
        self.lanes = choose_lanes(settings.lanes) if is_split else 1
        self._draws_apart = device.type == "cpu" and any(isinstance(each, FastDropout) for each in model.modules())
        n_workers = min(self.lanes, torch.get_num_threads()) if self._draws_apart else 1  # torch's has one generator
        self.workers = SideBySide(n_workers, threads=1) if is_split else IN_CALLER
        self.optimizer = make_optimizer(self.model, settings, self.workers)
        self._weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self._is_warm = False

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
        loss = self.backward(split, batches, number=number)
        limit = self.settings.clip_grad_norm or math.inf
        (norm,) = self.workers.run_all(lambda weights: clip_grad_norm_(weights, limit), [self._weights])
        return loss if math.isfinite(norm) and math.isfinite(loss.nll) else None

    def update(self) -> None:
        """Change the weights by the gradient.

        Raises MemoryShortage, in a run's first step perhaps when some weights have changed: Adam's moments begin there.
        """
        with room_for(
            lambda: f"the optimiser's moments do not fit in the memory of {self.device}; lower model.d_model"
        ):
            self.optimizer.step()

    def backward(self, split: EncodedSplit, batches: Sequence[Rows], *, number: int) -> BatchLoss:
        """Set the weights' gradients to that of the batches' mean loss. number: as in `gradient`."""
        self.model.train()
        parts = [part for rows in batches for part in self._parts(split, rows)]
        weight = self.world.size  # undoes the division in the mean over the processes
        if not parts:  # more processes than sentences: this one takes part with weight 0
            parts, weight = [batches[0][:1]], 0
        tokens = int(target_tokens(split, np.concatenate(batches)).sum())  # of all processes

        def compute(lane: int) -> tuple[float, dict[Tensor, Tensor]]:
            share = [part[lane :: self.lanes] for part in parts if len(part) > lane]  # of all lengths
            with self._dropout_of(lane, number):
                return self._lane(split, share, weight, tokens)

        alone = 0 if self._is_warm else 1  # what libraries prepare at a first call, they prepare in a single thread
        found = self.workers.run_all(compute, range(alone)) + self.workers.run_all(compute, range(alone, self.lanes))
        self._is_warm = True
        self.workers.run_all(partial(_set_sums, [gradients for _, gradients in found]), [self._weights])
        return BatchLoss(sum(nll for (nll,) in self.world.gather(sum(nll for nll, _ in found))), tokens)

    def _lane(
        self, split: EncodedSplit, parts: Sequence[Rows], weight: int, tokens: int
    ) -> tuple[float, dict[Tensor, Tensor]]:
        """Returns the loss of a lane's parts, summed, and their gradient: weight → gradient."""
        nll, gradients = list[Tensor](), dict[Tensor, Tensor]()
        for index, part in enumerate(parts, start=1):
            batch = collate(split, part)
            with self._room_for(batch), self.world.pass_of(self.token_loss, is_last=index == len(parts)):
                there = batch if self.settings.fast else batch.to(self.device)  # `Packed` moves what it makes of it
                with autocast(self.device, self.precision):
                    losses = self.token_loss(there.source, there.target)
                nll.append(losses.nll.sum())
                objective = losses.objective * weight / tokens
                if self.world.size > 1:
                    nll[-1].item()  # waits for the device before nccl does, which might wait for the dead
                    objective.backward()  # leaves the mean of all processes in the weights
                else:
                    found = torch.autograd.grad(objective, self._weights, allow_unused=True)
                    for each, gradient in zip(self._weights, found, strict=True):
                        if gradient is not None:
                            so_far = gradients.get(each)
                            gradients[each] = gradient.contiguous() if so_far is None else so_far.add_(gradient)
        return sum(each.item() for each in nll) if weight else 0.0, gradients

    def _dropout_of(self, lane: int, number: int) -> AbstractContextManager[None]:
        """A block in which dropout draws the numbers of a lane of a step."""
        seed = mixed_seed(self.settings.seed, number, self.world.rank, lane)
        if self._draws_apart:
            return drawing_from(torch.Generator().manual_seed(seed))
        torch.manual_seed(seed)
        return nullcontext()

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
        most = PART if self.device.type == "cpu" else WHOLE
        return parts_by_length(split, share, most) if self.settings.fast else [share]


def _set_sums(gradients: Sequence[dict[Tensor, Tensor]], weights: Iterable[Tensor]) -> None:
    """Give the weights the sums of the lanes' gradients, added in the order of the lanes."""
    for weight in weights:
        for lane in gradients:
            if weight in lane:
                weight.grad = lane[weight] if weight.grad is None else weight.grad.add_(lane[weight])
