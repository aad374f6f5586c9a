"""What scripts/check_device.py computes on any device, with made-up text, and measures beside the plain loop."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from measure.figures import Figure, alternate, say
from oracles.plain import PlainTransformer, plain_step
from transformer_cli.compute.devices import Precision, autocast
from transformer_cli.config.schema import ModelConfig, TrainingConfig, TranslationSettings
from transformer_cli.data.batching import PaddedBatch, collate, plan_epoch, target_token_counts
from transformer_cli.data.dataset import EncodedSplit, Rows, Side
from transformer_cli.model.loss import token_losses
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import set_moments
from transformer_cli.search.decoder import TransformerEngine
from transformer_cli.search.protocols import SearchRequest
from transformer_cli.text.vocabulary import PAD, SPECIALS
from transformer_cli.training.learner import Learner

VOCABULARIES = (7853, 5893)  # of Multi30k
LOG_LENGTHS = (2.48, 2.53)  # means of the logarithms of its sentences' lengths
CALLS = {  # of CUDA's runtime
    "kernels": ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"),
    "copies": ("cudaMemcpyAsync",),
    "host waits": ("cudaStreamSynchronize", "cudaEventSynchronize"),
}
MB = 1e6


@dataclass(frozen=True)
class Place:
    """Where something is computed: a device, and how many threads torch has on the CPU."""

    device: torch.device
    threads: int

    def model(self, config: ModelConfig) -> Transformer:
        """Returns a model, always with the same weights. From now on torch has this number of threads."""
        torch.set_num_threads(self.threads)
        torch.manual_seed(0)
        source, target = VOCABULARIES
        return Transformer(config, source_vocabulary=source, target_vocabulary=target, pad_id=PAD).to(self.device)

    def learner(self, config: ModelConfig, training: TrainingConfig) -> Learner:
        """Returns a learner of `model`."""
        return Learner(self.model(config), training, self.device)

    def resumed(self, learner: Learner) -> Learner:
        """Returns another learner with the weights and moments that a checkpoint of this one would have."""
        resumed = self.learner(learner.model.config, learner.training)
        resumed.model.load_state_dict(learner.model.state_dict())
        states = ((name, learner.optimizer.state[weight]) for name, weight in learner.model.named_parameters())
        moments = {f"{key}.{name}": each.cpu() for name, state in states for key, each in state.items()}
        set_moments(resumed.optimizer, resumed.model, moments)
        return resumed

    def losses_and_gradient(
        self, config: ModelConfig, batch: PaddedBatch, precision: Precision
    ) -> tuple[Tensor, Tensor]:
        """Returns -log p of each token, and the gradient of all weights, end to end; both are on the CPU."""
        model = self.model(config)
        with autocast(self.device, precision):
            found = token_losses(model, batch.source, batch.target, label_smoothing=0.1)
        found.objective.backward()
        gradients = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
        return found.nll.cpu(), torch.cat(gradients).cpu()

    def translations(
        self, config: ModelConfig, requests: Sequence[SearchRequest], settings: TranslationSettings
    ) -> list[list[int]]:
        """Returns the best translation of each sentence, by an untrained model."""
        found = TransformerEngine([self.model(config).eval()]).translate(requests, settings)
        best = {row: each[0].tokens for rows, hypotheses in found for row, each in zip(rows, hypotheses, strict=True)}
        return [best[row] for row in range(len(requests))]


@dataclass(frozen=True)
class Work:
    """What is computed at two places, and measured at the first."""

    places: tuple[Place, Place]
    """the device, and the reference"""
    config: ModelConfig
    split: EncodedSplit
    batch_sizes: Sequence[int]
    """in sentences; all are timed, and the first is for comparisons"""
    steps: int = 20
    precisions: Sequence[Precision] = ("float32", "bfloat16")

    def plan(self, batch_size: int) -> list[Rows]:
        """Returns a random batch for each step, at most those of one epoch."""
        training = TrainingConfig(batch_size=batch_size)
        return plan_epoch(self.split, np.arange(len(self.split)), training, epoch=1)[: self.steps]


def made_up_text(n_pairs: int) -> EncodedSplit:
    """Returns pairs of random ids with lengths like Multi30k's: on average 12.6 and 13.1 tokens, at most 45."""
    draw, sides = np.random.default_rng(0), []
    deviations = draw.normal(0, 0.29, n_pairs)  # of both sides: a long source has a long target
    for vocabulary, mean in zip(VOCABULARIES, LOG_LENGTHS, strict=True):
        lengths = np.exp(mean + deviations + draw.normal(0, 0.12, n_pairs)).round().clip(2, 45).astype(np.int64)
        ids = draw.zipf(1.3, lengths.sum()) % (vocabulary - len(SPECIALS)) + len(SPECIALS)
        sides.append(Side(ids.astype(np.int32), np.cumsum([0, *lengths])))
    return EncodedSplit(*sides)


def take_steps(learner: Learner, split: EncodedSplit, plan: Sequence[Rows], *, first: int = 1) -> list[float]:
    """Take a step with each batch. Returns their losses per token. first: the number of the first step."""
    losses = []
    for step, rows in enumerate(plan, first):
        loss = learner.backward(split, [rows], step=step)
        learner.step()
        losses.append(loss.nll / loss.tokens)
    return losses


def training_beside_plain(work: Work, batch_size: int, precision: Precision) -> Iterator[Figure]:
    """Measures target tokens/s of our steps and of the plain loop; on a GPU also memory, and CUDA's calls in a step.

    Both begin with the same weights and take the same batches in this precision; the first one is not timed.
    """
    place, split, (warm_up, *timed) = work.places[0], work.split, work.plan(batch_size)
    device, learner = place.device, place.learner(work.config, TrainingConfig(precision=precision))
    plain = PlainTransformer(learner.model).to(device)
    adam = torch.optim.Adam(plain.parameters(), lr=learner.learning_rate)

    def ours(plan: Sequence[Rows]) -> None:
        take_steps(learner, split, plan)
        _finish(device)

    def theirs(plan: Sequence[Rows]) -> None:
        for rows in plan:
            batch = collate(split, rows).to(device)
            with autocast(device, precision):
                plain_step(plain, adam, batch.source, batch.target)
        _finish(device)

    ways = (ours, theirs)
    for way in ways:
        way([warm_up])
    name = f"batches of {len(warm_up)}, {precision}"
    say(f"speed: {name}: {len(timed)} steps by ours, then by the plain loop")
    seconds = alternate([partial(way, timed) for way in ways], rounds=3)
    tokens = int(target_token_counts(split, np.concatenate(timed)).sum())
    yield Figure("speed", name, "target tokens/s", *(tokens / taken for taken in seconds))
    if device.type == "cuda":
        peaks = (_peak_memory(partial(way, timed), device) / MB for way in ways)
        yield Figure("memory", f"{name}, peak of a step", "MB", *peaks)
        counts = [_cuda_calls(partial(way, [warm_up])) for way in ways]
        yield from (Figure("calls", f"{name}, {kind}", "per step", *(each[kind] for each in counts)) for kind in CALLS)


def _finish(device: torch.device) -> None:
    """Waits until the device has computed everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _peak_memory(way: Callable[[], object], device: torch.device) -> int:
    """Returns the bytes that tensors take at most meanwhile, beyond those that exist before."""
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    way()
    return torch.cuda.max_memory_allocated(device) - before


def _cuda_calls(way: Callable[[], object]) -> dict[str, int]:
    """Returns how often something calls CUDA, by kind. All are 0 on the CPU."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        way()
    counts = {event.key: event.count for event in profiled.key_averages()}
    return {kind: sum(counts.get(name, 0) for name in names) for kind, names in CALLS.items()}
