"""One optimiser step: the gradient of some batches' mean loss, clipped, then an update. Knows no epochs, runs or files.

A batch is split into micro-batches of sentences of similar lengths. The sentences of each micro-batch are divided among
the shards of all processes. The gradient of a step is the sum over all shards:

    batch ── micro-batches ─┬─ process 0 ─┬─ shard 0: its sentences → gradient ─┐
                            │             └─ shard 1: its sentences → gradient ─┴─ sum ─┐
                            └─ process 1 ─── …                                     sum ─┴─ sum → clipped → update

On the CPU, one thread computes a shard. So threads wait for each other a few times per step, not in every operation,
and the result depends on (weights, moments, batches, step, number of processes and shards), but not on the number of
threads: dropout follows from (seed, step, rank, shard), gradients are added in the order of the shards, and each sum is
formed by one thread. On a GPU a process has one shard.
"""

import math
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from transformer_cli.compute.devices import Precision, autocast, catch_oom, choose_precision, choose_shards
from transformer_cli.compute.threads import INLINE_POOL, WorkerPool
from transformer_cli.compute.world import SINGLE_PROCESS, World
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.batching import PaddedBatch, collate, split_into_micro_batches, target_token_counts
from transformer_cli.data.dataset import EncodedSplit, Rows
from transformer_cli.errors import ConfigError
from transformer_cli.model.dropout import use_generator
from transformer_cli.model.loss import token_losses
from transformer_cli.model.transformer import Transformer
from transformer_cli.training.optimisers import make_optimizer

MICRO_BATCH_TOKENS = 4096  # target tokens that a CPU computes at once, in all shards of a process, to bound memory


@dataclass(frozen=True)
class BatchLoss:
    """The loss of the batches of one step, over all processes."""

    nll: float
    """-log p of the target tokens, in nats, summed"""
    tokens: int
    """the number of target tokens, <eos> included"""


class Learner:
    """A model, and everything that changes its weights, on one device, in one process."""

    def __init__(
        self, model: Transformer, training: TrainingConfig, device: torch.device, world: World = SINGLE_PROCESS
    ) -> None:
        """Moves the model to the device.

        Raises DistributedError if another process has ended, MemoryShortage if the model does not fit on the device.
        """
        with catch_oom(lambda: f"the model does not fit in the memory of {device}; choose another training.device"):
            self.model = model.to(device)
        self.precision: Precision = choose_precision(training.precision, device)
        self.training = training.model_copy(update={"precision": self.precision})
        self.device = device
        self.world = world
        is_cpu = device.type == "cpu"
        self.n_shards = choose_shards(training.shards, world) if is_cpu else 1
        n_threads = min(self.n_shards, torch.get_num_threads())
        self.workers = WorkerPool(n_threads, threads_each=1) if is_cpu else INLINE_POOL
        self.optimizer = make_optimizer(self.model, self.training, self.workers)
        self._weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self._is_warm = False

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next steps."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def backward(self, split: EncodedSplit, batches: Sequence[Rows], *, step: int) -> BatchLoss:
        """Compute the gradients of the mean loss over the target tokens of all these batches. step: its number, from 1.

        Raises MemoryShortage if a micro-batch does not fit in memory, DistributedError if another process has ended,
        and ConfigError if several shards draw from torch's global generator: the order of their draws would vary.
        """
        self.model.train()
        torch.manual_seed(mix_seed(self.training.seed, step, self.world.rank, self.n_shards))  # for draws of one's own
        state = None if self._is_warm or self.n_shards == 1 else torch.get_rng_state()  # noticed in the first step
        self.optimizer.zero_grad()  # frees memory
        tokens = int(target_token_counts(split, np.concatenate(batches)).sum())  # of all processes
        readings = 2 if self.training.consistency else 1
        max_tokens = MICRO_BATCH_TOKENS // readings * self.world.size if self.device.type == "cpu" else sys.maxsize
        micro_batches = [each for rows in batches for each in split_into_micro_batches(split, rows, max_tokens)]
        compute = partial(self._shard_gradients, split, micro_batches, tokens, step)
        # In the first call libraries initialise themselves, so the first shard is computed alone.
        shards = self.workers.run_all(compute, range(0 if self._is_warm else 1))
        shards += self.workers.run_all(compute, range(len(shards), self.n_shards))
        if state is not None and not torch.get_rng_state().equal(state):
            raise ConfigError(
                f"training.shards: {self.n_shards}, but the model draws from torch's global random generator, which "
                "shards share: use transformer_cli.model.dropout.Dropout instead of nn.Dropout, give "
                "generator=dropout.current_generator() to other draws, or set training.shards: 1"
            )
        self._is_warm = True
        nll = sum(nll for nll, _ in shards)
        gradients = [each for _, each in shards if each]
        self.workers.run_all(partial(_set_summed_gradients, gradients), [self._weights])
        del shards, gradients  # `all_reduce` needs memory
        loss = BatchLoss(sum(nll for (nll,) in self.world.all_gather(nll)), tokens)
        self.world.all_reduce([weight.grad for weight in self._weights if weight.grad is not None])
        return loss

    def step(self) -> float:
        """Clip the gradient and update the weights. Returns the gradient's norm before; if not finite, nothing changes.

        Raises MemoryShortage; in the first step, which allocates Adam's moments, after some weights may have changed.
        """
        limit = self.training.clip_grad_norm or math.inf
        (norm,) = self.workers.run_all(lambda weights: clip_grad_norm_(weights, limit), [self._weights])
        if not math.isfinite(norm):
            return math.nan
        with catch_oom(
            lambda: f"the optimiser's moments do not fit in the memory of {self.device}; lower model.d_model"
        ):
            self.optimizer.step()
        return float(norm)

    def _shard_gradients(
        self, split: EncodedSplit, micro_batches: Sequence[Rows], tokens: int, step: int, shard: int
    ) -> tuple[float, list[Tensor]]:
        """Returns the summed loss of a shard of this process, and the gradient of each weight ([] without sentences).

        For example, with 2 processes of 2 shards, shard 1 of the second process takes the sentences 3, 7, 11, … of each
        micro-batch.
        """
        nll, gradients = list[Tensor](), list[Tensor]()
        first, stride = self.world.rank * self.n_shards + shard, self.world.size * self.n_shards
        with self._seed_dropout(step, shard):
            for rows in (each[first::stride] for each in micro_batches if len(each) > first):
                batch = collate(split, rows)
                with self._catch_oom(batch):
                    with autocast(self.device, self.precision):
                        losses = token_losses(
                            self.model,
                            batch.source,
                            batch.target,
                            label_smoothing=self.training.label_smoothing,
                            consistency=self.training.consistency,
                        )
                    nll.append(losses.nll.sum())
                    found = torch.autograd.grad(losses.objective / tokens, self._weights, materialize_grads=True)
                    if gradients:
                        for so_far, gradient in zip(gradients, found, strict=True):
                            so_far.add_(gradient)
                    else:
                        gradients = [gradient.contiguous() for gradient in found]
        return sum(torch.stack(nll).tolist()) if nll else 0.0, gradients  # on a GPU, one wait for all

    def _seed_dropout(self, step: int, shard: int) -> AbstractContextManager[None]:
        """Seed `Dropout` for a shard of a step, during the block; on a GPU, seeds torch's generators."""
        seed = mix_seed(self.training.seed, step, self.world.rank, shard)
        if self.device.type == "cpu":
            return use_generator(torch.Generator().manual_seed(seed))
        torch.manual_seed(seed)
        return nullcontext()

    def _catch_oom(self, batch: PaddedBatch) -> AbstractContextManager[None]:
        """Raises MemoryShortage if computing a batch in the block takes too much memory."""
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
    """Returns a seed of 32 well-mixed bits, as many as torch's CPU generator uses. A missing number counts as 0."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _set_summed_gradients(shards: Sequence[Sequence[Tensor]], weights: Sequence[Tensor]) -> None:
    """Set each weight's gradient to the sum over the shards, added in their order; to 0 if there are none."""
    for weight, *gradients in zip(weights, *shards, strict=True):
        weight.grad = gradients[0] if gradients else torch.zeros_like(weight)
        for gradient in gradients[1:]:
            weight.grad.add_(gradient)
