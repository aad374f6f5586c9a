"""Cross-entropy of the target tokens without padding (section 5.4): sums and counts, never means of means.

What training, validation, scores and evaluations call. Knows ids and the model; does not know the batches of an epoch
or the optimiser.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer_cli.model.layout import Packed, moved
from transformer_cli.model.transformer import Output, Transformer

CHUNK = 512  # tokens
LARGE_CHUNK = 4096  # on other devices than the CPU, which want few large products
ALIGNED = 16  # numbers; MKL is half again as fast at writing rows that begin at a multiple of 64 bytes


@dataclass(frozen=True)
class TokenLosses:
    """The losses of a batch's real target tokens, <eos> included, row after row, in nats.

    objective: scalar, the sum that training minimises (label smoothing included). nll (tokens,): -log p for each
    token, without a gradient.
    """

    objective: Tensor
    nll: Tensor


def token_losses(model: Transformer, source: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> TokenLosses:
    """Predict each target token from the tokens before it; fastest if neighbours in the batch are of similar length.

    source int64 (batch, source), target int64 (batch, target): each row from <sos> to <eos>, then padding. Both may be
    on the CPU, wherever the model is.
    """
    given, labels = target[:, :-1], target[:, 1:]  # teacher forcing: outputs shifted right (3.1)
    is_label = labels != model.pad_id  # nothing is predicted where padding would come, nor read there
    device = model.output.weight.device
    read, written = Packed(source, model.source_mask(source), device), Packed(given, is_label, device)
    hidden = model.decode(written, model.decoder.keys_values(model.encode(read)), read)  # (tokens, d_model)
    gold = moved(labels[is_label], device)  # (tokens,)
    objective, nll = projected_losses(hidden, model.output, gold, label_smoothing=label_smoothing)
    return TokenLosses(objective, nll)


def sum_by_row(nll: Tensor, target: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    """Returns the sum of `nll` (tokens,) for each row of target (batch, target), float64, and each row's token count.

    Both are (batch,). For example, nll [1, 2, 4] for the rows <sos> a <eos> and <sos> <eos> <pad> gives the sums [3, 4]
    and the counts [2, 1].
    """
    counts = (target[:, 1:] != pad_id).sum(dim=1)
    rows = torch.repeat_interleave(torch.arange(len(counts), device=nll.device), counts)  # [0, 0, 1]
    return torch.zeros(len(counts), dtype=torch.float64, device=nll.device).index_add_(0, rows, nll.double()), counts


def projected_losses(
    hidden: Tensor, output: Output, gold: Tensor, *, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Returns (1 - ε)·(-log p of the labels) + ε·(the mean of -log p over all words), summed, and -log p of each label.

    p is softmax(output(hidden)) and ε label_smoothing (5.4); hidden (tokens, d_model), gold int64 (tokens,). They are
    computed chunk by chunk, so that the logits are never in memory as a whole. Under autocast, products are computed in
    its type; sums, losses and the gradients of the weights are float32.
    """
    weights, needs_gradient = (output.weight, output.bias), torch.is_grad_enabled()
    return _ProjectedLosses.apply(hidden, *weights, gold, label_smoothing, output.never, needs_gradient)


class _ProjectedLosses(torch.autograd.Function):
    """The gradient is computed in the forward pass, while a chunk's logits are at hand: softmax minus the target."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        gold: Tensor,
        label_smoothing: float,
        never: list[int],
        has_gradient: bool,
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
                if not has_gradient:
                    continue
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
        return hidden * gradients[0], weight * gradients[0], bias * gradients[0], None, None, None, None
