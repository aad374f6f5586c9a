"""Adam and its learning rate (section 5.3)."""

import math

import torch

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.model.transformer import Transformer

STATE_KEYS = ("step", "exp_avg", "exp_avg_sq")  # what torch's Adam keeps for each weight


def make_optimizer(model: Transformer, training: TrainingConfig) -> torch.optim.Adam:
    """Returns Adam (Kingma and Ba 2015), as a fused kernel on devices for which torch has one."""
    device = next(model.parameters()).device
    return torch.optim.Adam(
        model.parameters(),
        lr=training.learning_rate,
        betas=training.betas,
        eps=training.eps,
        fused=device.type in ("cpu", "cuda"),
    )


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
