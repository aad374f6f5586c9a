"""Adam and the schedules of its learning rate (5.3), and Muon for the layers' matrices. Knows weights and gradients.

Muon (Jordan et al. 2024) takes the momentum of a matrix's gradient, U·Σ·Vᵀ, and replaces its singular values by about
1: U·Vᵀ. So rare directions are learned as fast as frequent ones. It is for matrices that multiply vectors; embeddings,
the output projection, biases and LayerNorm are updated by Adam.

Several threads update weights, but each weight is updated by one thread. Otherwise torch would split a large tensor
between its threads, and the last digits would depend on their number.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from transformer_cli.compute.threads import INLINE_POOL, WorkerPool
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.model.attention import MultiHeadAttention
from transformer_cli.model.transformer import Transformer

MOMENTUM = 0.95
MOMENTUM_KEY = "momentum_buffer"  # as in torch.optim.Muon
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # of the quintic Newton–Schulz iteration (Jordan et al. 2024)
NEWTON_SCHULZ_STEPS = 5
MAX_STACKED_MATRICES = 8  # of one shape, that a thread orthogonalises at once


def make_optimizer(model: Transformer, training: TrainingConfig, workers: WorkerPool = INLINE_POOL) -> Optimizer:
    """Returns Adam (Kingma and Ba 2015), fused where torch can, or Adam and Muon. workers: threads that update."""
    adam: dict[str, Any] = {
        "lr": training.learning_rate,
        "betas": training.betas,
        "eps": training.eps,
        "fused": next(model.parameters()).device.type in ("cpu", "cuda"),
    }
    if training.optimizer == "muon":
        dtype = torch.bfloat16 if training.precision == "bfloat16" else torch.float32
        lr_ratio = training.muon_learning_rate / training.learning_rate
        matrices = layer_matrices(model)
        return AdamAndMuon(model, workers, matrices=matrices, lr_ratio=lr_ratio, dtype=dtype, **adam)
    return Adam(model, workers, **adam)


def learning_rate(training: TrainingConfig, step: int, progress: float | None) -> float:
    """Returns the learning rate of optimiser step 1, 2, …; `training.learning_rate` is the peak.

    progress: the share of training that is done before the step, 0 ≤ progress < 1, for schedules that depend on the end
    of training (`TrainingConfig.needs_horizon`); else None, so that no other schedule reads it.
    inverse_sqrt is the paper's eq. 3 with d_model^-0.5 · warmup^-0.5 written as the peak: lr·min(step/w, √(w/step)).
    cosine falls from the peak to 0 along half a wave (Loshchilov and Hutter 2017, without restarts).
    """
    warmup = training.warmup_steps
    if training.schedule == "inverse_sqrt":
        return training.learning_rate * min(step / warmup, math.sqrt(warmup / step))
    rate = training.learning_rate * min(1.0, step / warmup if warmup else 1.0)
    if training.schedule == "cosine":
        assert progress is not None, "the config ensures it"
        return rate * (1.0 + math.cos(math.pi * progress)) / 2
    assert training.schedule == "constant", training.schedule
    return rate


class Adam(torch.optim.Adam):
    """torch's Adam, with the weights divided among workers."""

    def __init__(self, model: nn.Module, workers: WorkerPool = INLINE_POOL, **adam: Any) -> None:
        """adam: what torch.optim.Adam takes."""
        shares = split_evenly([each for each in model.parameters() if each.requires_grad], workers.n_workers)
        super().__init__([{"params": share} for share in shares], **adam)
        self._workers = workers
        self._parts = [torch.optim.Adam([group], **adam) for group in self.param_groups]

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient."""
        for part, group in zip(self._parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state  # load_state_dict replaces both
        self._workers.run_all(torch.optim.Adam.step, self._parts)


def split_evenly(tensors: Sequence[Tensor], count: int) -> list[list[Tensor]]:
    """Divide tensors into `count` lists, or fewer, of about the same total size.

    For example, tensors of 5, 2, 3 and 1 numbers make two lists: those of 5 and 1, and those of 3 and 2.
    """
    shares: list[list[Tensor]] = [[] for _ in range(count)]
    for tensor in sorted(tensors, key=torch.numel, reverse=True):
        min(shares, key=lambda share: sum(map(torch.numel, share))).append(tensor)
    return [share for share in shares if share]


class AdamAndMuon(Adam):
    """Muon for the weights in `matrices`, and Adam for the others.

    torch.optim.Muon supports neither stacked matrices, such as queries, keys and values, nor another precision than
    bfloat16, which is slow on many CPUs.
    """

    def __init__(
        self,
        model: nn.Module,
        workers: WorkerPool = INLINE_POOL,
        *,
        matrices: Mapping[Tensor, int],
        lr_ratio: float,
        dtype: torch.dtype,
        **adam: Any,
    ) -> None:
        """matrices: weight → how many matrices are stacked in its rows. lr_ratio: Muon's learning rate / Adam's.

        dtype: of the matrix products of Newton–Schulz.
        """
        super().__init__(model, workers, **adam)
        self._matrices = matrices
        self._lr_ratio = lr_ratio
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient.

        Allocates memory before it changes anything, so that nothing has changed if there is too little.
        """
        gradients = {weight: weight.grad for weight in self._matrices if weight.grad is not None}
        momenta = self._workers.run_all(self._momentum, gradients.items())
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}  # matrices of one shape, and their momenta
        for weight, momentum in zip(gradients, momenta, strict=True):
            parts = self._matrices[weight]
            for pair in zip(weight.chunk(parts), momentum.chunk(parts), strict=True):
                by_shape.setdefault(pair[0].shape, []).append(pair)
        stacks = [
            pairs[at : at + MAX_STACKED_MATRICES]
            for pairs in by_shape.values()
            for at in range(0, len(pairs), MAX_STACKED_MATRICES)
        ]
        directions = self._workers.run_all(self._directions, stacks)
        for weight in gradients:
            weight.grad = None  # Adam skips weights without a gradient
        super().step(closure)
        self._workers.run_all(self._apply_directions, zip(stacks, directions, strict=True))
        self._workers.run_all(self._store_momentum, gradients.items())

    def _momentum(self, gradient_of: tuple[Tensor, Tensor]) -> Tensor:
        """Returns Nesterov's momentum of a weight's gradients, including this one; does not change the state."""
        weight, gradient = gradient_of
        state = self.state[weight]
        if MOMENTUM_KEY not in state:
            state[MOMENTUM_KEY] = torch.zeros_like(weight)
        return gradient.lerp(state[MOMENTUM_KEY].lerp(gradient, 1.0 - MOMENTUM), MOMENTUM)

    def _directions(self, stack: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        return orthogonalize(torch.stack([momentum for _, momentum in stack]).to(self._dtype))

    @torch.no_grad()
    def _apply_directions(self, found: tuple[Sequence[tuple[Tensor, Tensor]], Tensor]) -> None:
        stack, directions = found
        rows, columns = directions.shape[1:]
        rate = self._lr_ratio * self.param_groups[0]["lr"] * max(1.0, rows / columns) ** 0.5
        for (matrix, _), direction in zip(stack, directions, strict=True):
            matrix.sub_(direction, alpha=rate)

    def _store_momentum(self, gradient_of: tuple[Tensor, Tensor]) -> None:
        weight, gradient = gradient_of
        self.state[weight][MOMENTUM_KEY].lerp_(gradient, 1.0 - MOMENTUM)
        weight.grad = gradient


def layer_matrices(model: Transformer) -> dict[Tensor, int]:
    """Returns the weight matrices of all layers → how many matrices each stacks in its rows."""
    layers = [module for stack in (model.encoder, model.decoder) for module in stack.modules()]
    matrices = {module.weight: 1 for module in layers if isinstance(module, nn.Linear)}
    return matrices | {module.qkv.weight: 3 for module in layers if isinstance(module, MultiHeadAttention)}


def orthogonalize(matrices: Tensor) -> Tensor:
    """Returns matrices (n, rows, columns) with the same singular vectors and singular values near 1 (0.7 to 1.2).

    Each iteration replaces a singular value s by a·s + b·s³ + c·s⁵, by matrix products. Zeros stay zeros.
    """
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices  # the smaller side first: x·xᵀ is small
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # no singular value is above 1
    a, b, c = NEWTON_SCHULZ
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x
