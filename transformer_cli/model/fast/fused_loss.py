"""Output projection and cross-entropy in one, chunk by chunk, so that the logits are never in memory as a whole.

The fast form of the end of `loss.token_losses`; tests/parity/test_fast_forms.py compares the two. The
gradient is computed in the forward pass, while a chunk's logits are at hand: softmax minus the target distribution.
"""

import math
from typing import Any

import torch
from torch import Tensor

from transformer_cli.model.loss import TokenLosses
from transformer_cli.model.transformer import Output

CHUNK = 512  # tokens
LARGE_CHUNK = 4096  # on other devices than the CPU, which want few large products
ALIGNED = 16  # numbers; MKL is half again as fast at writing rows that begin at a multiple of 64 bytes


def projected_losses(hidden: Tensor, output: Output, gold: Tensor, *, label_smoothing: float = 0.0) -> TokenLosses:
    """Returns the losses of the labels `gold` int64 (tokens,) under softmax(output(hidden)); hidden (tokens, d_model).

    Under autocast, products are computed in its type; sums, losses and the gradients of the weights are float32.
    """
    objective, nll = _ProjectedLosses.apply(hidden, output.weight, output.bias, gold, label_smoothing, output.never)
    return TokenLosses(objective, nll)


class _ProjectedLosses(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, gold: Tensor, label_smoothing: float, never: list[int]
    ) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        autocasts = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if autocasts else hidden.dtype
        vocabulary, n_written = len(bias), len(bias) - len(never)
        with torch.autocast(device, enabled=False):
            hidden_gradient = torch.empty_like(hidden)
            weight_gradient, bias_gradient = torch.zeros_like(weight), torch.zeros_like(bias)
            nll = torch.empty(len(hidden), device=hidden.device)
            smoothed = torch.zeros((), device=hidden.device)
            narrow = weight.to(dtype)
            width = math.ceil(vocabulary / ALIGNED) * ALIGNED  # 5904 for 5893 columns
            size = CHUNK if device == "cpu" else LARGE_CHUNK
            space = torch.empty(min(size, len(hidden)), width, dtype=dtype, device=hidden.device)[:, :vocabulary]
            for first in range(0, len(hidden), size):
                chunk = slice(first, first + size)
                x, labels = hidden[chunk].to(dtype), gold[chunk, None]  # (chunk, d_model), (chunk, 1)
                # All that follows is (chunk, vocabulary), or (chunk, 1) where a row becomes a number.
                logits = torch.mm(x, narrow.t(), out=space[: len(x)]).float().add_(bias)
                logits -= logits.amax(dim=1, keepdim=True)  # softmax does not change
                wanted, mean = logits.gather(1, labels), logits.mean(dim=1, keepdim=True)
                if never:
                    mean = (logits.sum(dim=1, keepdim=True) - logits[:, never].sum(dim=1, keepdim=True)) / n_written
                    logits[:, never] = float("-inf")
                gradient = logits.exp_()
                z = gradient.sum(dim=1, keepdim=True)
                gradient /= z  # softmax
                log_z = z.log()
                nll[chunk] = (log_z - wanted)[:, 0]
                smoothed += (log_z - mean).sum()
                gradient -= label_smoothing / n_written
                if never:
                    gradient[:, never] = 0.0
                gradient.scatter_add_(1, labels, torch.full_like(z, label_smoothing - 1.0))
                bias_gradient += gradient.sum(dim=0)
                gradient = gradient.to(dtype)
                hidden_gradient[chunk] = gradient @ narrow
                weight_gradient += gradient.t() @ x
        ctx.save_for_backward(hidden_gradient, weight_gradient, bias_gradient)
        ctx.mark_non_differentiable(nll)
        return (1.0 - label_smoothing) * nll.sum() + label_smoothing * smoothed, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        return hidden * gradients[0], weight * gradients[0], bias * gradients[0], None, None, None
