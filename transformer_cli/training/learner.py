"""One optimiser step: the gradient of some batches' mean loss, clipped, then an update. Knows no epochs, runs or files.

A batch is cut into parts of similar lengths, and each part is dealt out, sentence by sentence, to the shards of all
processes. A step is the sum of the gradients of all shards:

    batch ── parts ─┬─ process 0 ─┬─ shard 0: its sentences of part, part, … → gradient ─┐
                    │             └─ shard 1: its sentences of part, part, … → gradient ─┴─ sum ─┐
                    └─ process 1 ─── …                                                    sum ─┴─ sum → clipped → update

On the CPU a shard is the work of one thread. So threads wait for each other a few times a step, not in every operation,
and a step is a function of (weights, moments, batches, step number, number of processes and shards), whatever the
number of threads: dropout follows from (seed, step number, rank, shard), gradients are added in the shards' order, and
each sum is formed by one thread. On a GPU a process has one shard.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from transformer_cli.compute.devices import Precision, autocast, catch_oom, choose_shards
from transformer_cli.compute.threads import INLINE_POOL, WorkerPool
from transformer_cli.compute.world import SINGLE_PROCESS, World
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.batching import PaddedBatch, collate, split_into_micro_batches, target_token_counts
from transformer_cli.data.dataset import EncodedSplit, Rows
from transformer_cli.model.dropout import use_generator
from transformer_cli.model.loss import token_losses
from transformer_cli.model.transformer import Transformer
from transformer_cli.training.optimisers import make_optimizer

MICRO_BATCH_TOKENS = (
    4096  # how many target tokens of a batch a CPU computes at a time, in all shards together, to bound memory
)


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
        self,
        model: Transformer,
        training: TrainingConfig,
        device: torch.device,
        world: World = SINGLE_PROCESS,
        *,
        frozen_rows: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> None:
        """Moves the model to the device. training: `precision` must be resolved, not auto.

        frozen_rows: see `Checkpoint`.
        Raises DistributedError if another process has ended, MemoryShortage if the device cannot hold the model.
        """
        assert training.precision != "auto", "whoever opens a run chooses its precision"
        with catch_oom(lambda: f"the model does not fit in the memory of {device}; choose another training.device"):
            self.model = model.to(device)
        self.training = training
        self.device = device
        self.world = world
        self.precision: Precision = training.precision
        is_cpu = device.type == "cpu"
        self.shards = choose_shards(training.shards, world) if is_cpu else 1
        self.workers = WorkerPool(min(self.shards, torch.get_num_threads()), threads_each=1) if is_cpu else INLINE_POOL
        self.optimizer = make_optimizer(self.model, training, self.workers)
        self._weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.frozen_rows = {name: rows.to(device) for name, rows in frozen_rows.items()}
        self._is_warm = False

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step, and of the last one unless it has been set since."""
        return float(self.optimizer.param_groups[0]["lr"])

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the steps that follow."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def backward(self, split: EncodedSplit, batches: Sequence[Rows], *, number: int) -> BatchLoss:
        """Set the weights' gradients to that of the mean loss over the target tokens of all these batches.

        This is what takes long in a step; it changes no weight. number: the number of the step, from 1. Raises
        MemoryShortage for a batch that does not fit, DistributedError if another process has ended.
        """
        self.model.train()
        self.optimizer.zero_grad()  # frees memory
        tokens = int(target_token_counts(split, np.concatenate(batches)).sum())  # of all processes
        most = MICRO_BATCH_TOKENS * self.world.size if self.device.type == "cpu" else sys.maxsize  # tokens of a part
        parts = [part for rows in batches for part in split_into_micro_batches(split, rows, most)]
        compute = partial(self._lane, split, parts, tokens, number)
        # At a first call libraries prepare what they need: in the thread of one shard, before the others begin.
        found = self.workers.run_all(compute, range(0 if self._is_warm else 1))
        found += self.workers.run_all(compute, range(len(found), self.shards))
        self._is_warm = True
        nll = sum(nll for nll, _ in found)
        self.workers.run_all(
            partial(_set_summed_gradients, [gradients for _, gradients in found if gradients]), [self._weights]
        )
        del found  # `all_reduce` needs memory
        loss = BatchLoss(sum(nll for (nll,) in self.world.all_gather(nll)), tokens)
        self.world.all_reduce([weight.grad for weight in self._weights if weight.grad is not None])
        for name, rows in self.frozen_rows.items():
            if (gradient := self.model.get_parameter(name).grad) is not None:
                gradient[rows] = 0.0  # so Adam, without weight decay, leaves these vectors as they are, bit for bit
        return loss

    def step(self) -> bool:
        """Clip the gradient and change the weights by it. Changes nothing, and returns False, if it is not finite.

        Raises MemoryShortage, in a run's first step perhaps when some weights have changed: Adam's moments begin there.
        """
        limit = self.training.clip_grad_norm or math.inf
        (norm,) = self.workers.run_all(lambda weights: clip_grad_norm_(weights, limit), [self._weights])
        if not math.isfinite(norm):
            return False
        with catch_oom(
            lambda: f"the optimiser's moments do not fit in the memory of {self.device}; lower model.d_model"
        ):
            self.optimizer.step()
        return True

    def _lane(
        self, split: EncodedSplit, parts: Sequence[Rows], tokens: int, number: int, shard: int
    ) -> tuple[float, list[Tensor]]:
        """Returns the loss of a shard of this process, summed, and the gradient of each weight ([]: no sentences).

        For example, with 2 processes of 2 shards, shard 1 of the second takes the sentences 3, 7, 11, … of each part.
        """
        nll, gradients = list[Tensor](), list[Tensor]()
        first, stride = self.world.rank * self.shards + shard, self.world.size * self.shards
        with self._seed_dropout(shard, number):
            for rows in (part[first::stride] for part in parts if len(part) > first):  # of all lengths
                batch = collate(split, rows)
                with self._room_for(batch):
                    with autocast(self.device, self.precision):
                        smoothing = self.training.label_smoothing
                        losses = token_losses(self.model, batch.source, batch.target, label_smoothing=smoothing)
                    nll.append(losses.nll.sum())
                    found = torch.autograd.grad(losses.objective / tokens, self._weights, materialize_grads=True)
                    if gradients:
                        for so_far, gradient in zip(gradients, found, strict=True):
                            so_far.add_(gradient)
                    else:
                        gradients = [gradient.contiguous() for gradient in found]
        return sum(each.item() for each in nll), gradients

    def _seed_dropout(self, shard: int, number: int) -> AbstractContextManager[None]:
        """A block in which dropout draws the numbers of a shard of a step."""
        seed = mix_seed(self.training.seed, number, self.world.rank, shard)
        if self.device.type == "cpu":
            return use_generator(torch.Generator().manual_seed(seed))
        torch.manual_seed(seed)
        return nullcontext()

    def _room_for(self, batch: PaddedBatch) -> AbstractContextManager[None]:
        """A block that computes a batch, or a part of one. Raises MemoryShortage if that does not fit in memory."""
        (count, source), target = batch.source.shape, batch.target.shape[1]
        return catch_oom(
            lambda: (
                f"a batch of {count} sentences with up to {source} source and {target} target positions does not fit "
                f"in the memory of {self.device}; in a new run, which may begin with the weights of this one "
                "(training.initialize_from), lower training.batch_size (training.gradient_accumulation_steps makes one "
                "step of several batches) or leave long sentences out (model.max_length)"
            )
        )


def mix_seed(*numbers: int) -> int:
    """Returns a seed of 32 well-mixed bits: torch's CPU generator uses no more. NumPy takes a missing number for 0."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _set_summed_gradients(shards: Sequence[Sequence[Tensor]], weights: Sequence[Tensor]) -> None:
    """Give the weights the sums of the shards' gradients, added in the order of the shards; 0 if no shard has any."""
    for weight, *gradients in zip(weights, *shards, strict=True):
        weight.grad = gradients[0] if gradients else torch.zeros_like(weight)
        for gradient in gradients[1:]:
            weight.grad.add_(gradient)
