"""Adam and its learning rate (section 5.3), and Muon for the matrices of the layers. Knows weights and gradients.

A matrix of a layer acts on vectors, so the size of its update is measured by how far it moves a vector. Muon (Jordan et
al. 2024) takes the momentum of the gradient, U·Σ·Vᵀ, and replaces all of its singular values by about 1: U·Vᵀ. Rare
directions are then learned as fast as frequent ones. Embeddings, the output projection, biases and LayerNorm are
indexed or element by element, not matrices in this sense; Adam updates them.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.model.attention import MultiHeadAttention
from transformer_cli.model.layers import FeedForward
from transformer_cli.model.transformer import Transformer

MOMENTUM = 0.95
MOMENTUM_KEY = "momentum_buffer"  # as in torch.optim.Muon
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic Newton–Schulz iteration (Jordan et al. 2024)
ITERATIONS = 5


def make_optimizer(model: Transformer, training: TrainingConfig) -> torch.optim.Adam:
    """Returns Adam (Kingma and Ba 2015), as a fused kernel on devices for which torch has one; or Muon beside it."""
    adam: dict[str, Any] = {
        "lr": training.learning_rate,
        "betas": training.betas,
        "eps": training.eps,
        "fused": next(model.parameters()).device.type in ("cpu", "cuda"),
    }
    if training.optimizer == "muon":
        dtype = torch.bfloat16 if training.precision == "bfloat16" else torch.float32
        times_lr = training.muon_learning_rate / training.learning_rate
        return AdamAndMuon(model, matrices=layer_matrices(model), times_lr=times_lr, dtype=dtype, **adam)
    return torch.optim.Adam(model.parameters(), **adam)


def learning_rate(training: TrainingConfig, step: int, progress: float) -> float:
    """Returns the learning rate of optimiser step 1, 2, …; `training.learning_rate` is the peak.

    progress: the share of training that is done before the step, 0 ≤ progress < 1; only the schedules use it that are
    planned to the last epoch (`TrainingConfig.is_planned_to_the_end`).
    inverse_sqrt is the paper's eq. 3 with d_model^-0.5 · warmup^-0.5 written as the peak: lr·min(step/w, √(w/step)).
    cosine falls from the peak to 0 along half a wave (Loshchilov and Hutter 2017, without restarts).
    """
    warmup = training.warmup_steps
    if training.schedule == "inverse_sqrt":
        return training.learning_rate * min(step / warmup, math.sqrt(warmup / step))
    rate = training.learning_rate * min(1.0, step / warmup if warmup else 1.0)
    if training.schedule == "cosine":
        rate *= (1.0 + math.cos(math.pi * progress)) / 2
    return rate


class AdamAndMuon(torch.optim.Adam):
    """Adam, but for the weights in `matrices`, which Muon updates.

    torch.optim.Muon knows neither stacked matrices, such as queries, keys and values, nor another precision than
    bfloat16, which is slow on many CPUs.
    """

    def __init__(
        self, model: nn.Module, *, matrices: Mapping[Tensor, int], times_lr: float, dtype: torch.dtype, **adam: Any
    ) -> None:
        """matrices: weight → how many matrices are stacked in its rows. dtype: of the products of Newton–Schulz.

        times_lr: Muon's learning rate is Adam's times this number.
        """
        super().__init__(model.parameters(), **adam)
        self._matrices = matrices
        self._times_lr = times_lr
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient.

        All that takes memory comes before any weight or moment changes: where it does not suffice, nothing has changed.
        """
        gradients = {weight: weight.grad for weight in self._matrices if weight.grad is not None}
        updates: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}  # matrices of one shape, and their momenta
        for weight, gradient in gradients.items():
            parts = self._matrices[weight]
            momentum = self._momentum(weight, gradient)
            for matrix, update in zip(weight.chunk(parts), momentum.chunk(parts), strict=True):
                updates.setdefault(matrix.shape, []).append((matrix, update))
        moves = []
        while updates:  # each shape's momenta are freed when their directions are known
            shape, pairs = updates.popitem()
            rate = self._times_lr * self.param_groups[0]["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
            directions = orthogonalized(torch.stack([update for _, update in pairs]).to(self._dtype))
            moves += [(matrix, direction, rate) for (matrix, _), direction in zip(pairs, directions, strict=True)]
        for weight in gradients:
            weight.grad = None  # Adam leaves out weights without a gradient
        super().step(closure)
        for matrix, direction, rate in moves:
            matrix.sub_(direction, alpha=rate)
        for weight, gradient in gradients.items():
            self.state[weight][MOMENTUM_KEY].lerp_(gradient, 1.0 - MOMENTUM)
            weight.grad = gradient

    def _momentum(self, weight: Tensor, gradient: Tensor) -> Tensor:
        """Returns Nesterov's momentum of the gradients so far and this one, which the state does not have yet."""
        state = self.state[weight]
        if MOMENTUM_KEY not in state:
            state[MOMENTUM_KEY] = torch.zeros_like(weight)
        return gradient.lerp(state[MOMENTUM_KEY].lerp(gradient, 1.0 - MOMENTUM), MOMENTUM)


def layer_matrices(model: nn.Module) -> dict[Tensor, int]:
    """Returns the matrices of attention and of the feed-forward networks → how many each stacks in its rows."""
    found: dict[Tensor, int] = {}
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            found |= {module.qkv.weight: 3, module.output.weight: 1}
        elif isinstance(module, FeedForward):
            found |= {module.inner.weight: 1, module.outer.weight: 1}
    return found


def orthogonalized(matrices: Tensor) -> Tensor:
    """Returns matrices (n, rows, columns) with singular values near 1 (0.7 to 1.2) and the same singular vectors.

    Each iteration replaces a singular value s by a·s + b·s³ + c·s⁵; these are all products of matrices. A matrix of
    zeros stays as it is.
    """
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices  # the smaller side first: x·xᵀ is small
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # no singular value is above 1
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x
