"""The optimiser and its learning rate (section 5.3)."""

import math
from typing import Any

import torch

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.model.transformer import Transformer
from transformer_cli.training.muon import MOMENTUM_KEY, AdamAndMuon, layer_matrices

ADAM_KEYS = ("step", "exp_avg", "exp_avg_sq")  # what torch's Adam keeps for each weight


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


def state_names(model: Transformer, training: TrainingConfig) -> set[str]:
    """Returns the names, such as exp_avg.output.bias, of all that the optimiser keeps once it has taken a step."""
    matrices = layer_matrices(model) if training.optimizer == "muon" else {}
    return {
        f"{key}.{name}"
        for name, weight in model.named_parameters()
        if weight.requires_grad
        for key in ((MOMENTUM_KEY,) if weight in matrices else ADAM_KEYS)
    }


def learning_rate(training: TrainingConfig, step: int, progress: float) -> float:
    """Returns the learning rate of optimiser step 1, 2, …; `training.learning_rate` is the peak.

    progress: the share of training that is done before the step, 0 ≤ progress < 1; only cosine uses it.
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
