"""Cross-entropy of the target tokens without padding (section 5.4), as sums and counts.

Training minimises `objective`. Printed and stored losses, also those of validation and `tfm score`, are `nll`. Knows
the model, but not the optimiser.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer_cli.model.layout import Packed, to_device
from transformer_cli.model.transformer import Output, Transformer

CHUNK_TOKENS = 256  # whose logits are in memory at a time
GPU_CHUNK_TOKENS = 4096  # GPUs are faster with few large products


@dataclass(frozen=True)
class TokenLosses:
    """The losses of a batch's target tokens in nats, <eos> included, padding excluded.

    objective: scalar, the sum that training minimises (label smoothing included). nll (tokens,): -log p of each token,
    row after row, without a gradient.
    """

    objective: Tensor
    nll: Tensor


def token_losses(
    model: Transformer, source: Tensor, target: Tensor, *, label_smoothing: float = 0.0, consistency: float = 0.0
) -> TokenLosses:
    """Predict each target token from those before it; fastest if neighbours in the batch have similar lengths.

    source int64 (batch, source), target int64 (batch, target): each row from <sos> to <eos>, then padding. Both may be
    on the CPU while the model is on a GPU. With consistency, the model reads the batch twice, side by side, each time
    with other dropout; both losses are the mean of the two readings (see `cross_entropy`).
    """
    if consistency:
        source, target = source.repeat(2, 1), target.repeat(2, 1)
    given, labels = target[:, :-1], target[:, 1:]  # teacher forcing: outputs shifted right (3.1)
    is_label = labels != model.pad_id  # padding is neither predicted nor read
    num_heads, device = model.config.num_heads, model.output.weight.device
    read = Packed(source, model.source_mask(source), num_heads, device)
    written = Packed(given, is_label, num_heads, device)
    # (tokens, d_model); in bfloat16 on the CPU a few rows without a label follow (see `Packed`)
    hidden = model.decode(written, model.decoder.keys_values(model.encode(read)), read)
    labels = to_device(labels[is_label], device)  # (tokens,)
    if consistency:  # both readings of a token become neighbours, so that a chunk of logits has both
        pairs = hidden[: len(labels)].unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)
        hidden = torch.cat((pairs, hidden[len(labels) :]))
        labels = labels[: len(labels) // 2].repeat_interleave(2)
    objective, nll = losses_in_chunks(
        hidden, model.output, labels, label_smoothing=label_smoothing, consistency=consistency
    )
    if consistency:
        objective, nll = objective / 2, nll.unflatten(0, (-1, 2)).mean(dim=1)
    return TokenLosses(objective, nll)


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    label_smoothing: float = 0.0,
    consistency: float = 0.0,
    suppressed_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the objective, a scalar, and -log p of each label, (tokens,).

    The objective is the sum of (1-ε)·(-log p of the label) + ε·(the mean of -log p over the vocabulary), where p is the
    softmax of the logits and ε label_smoothing (5.4). logits float32 (tokens, vocabulary), labels int64 (tokens,).
    suppressed_ids: int64 (ids,), whose logit is -inf; the mean leaves them out.

    With consistency α, the rows 2i and 2i + 1 are two readings of a token with different dropout, and the objective
    also has α·½·(KL(p‖q) + KL(q‖p)) of their softmaxes p and q (R-Drop, Liang et al. 2021).
    """
    log_p = torch.log_softmax(logits, dim=1)
    nll = -log_p.gather(1, labels[:, None])[:, 0]
    objective = nll.sum()
    n_words = logits.shape[1]
    if (label_smoothing or consistency) and suppressed_ids is not None and len(suppressed_ids):
        log_p = log_p.index_fill(1, suppressed_ids, 0.0)  # instead of -inf
        n_words -= len(suppressed_ids)
    if label_smoothing:
        objective = (1 - label_smoothing) * objective - label_smoothing / n_words * log_p.sum()
    if consistency:
        log_p, log_q = log_p[::2], log_p[1::2]
        objective = objective + consistency / 2 * ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()
    return objective, nll


def sum_by_row(nll: Tensor, target: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    """Returns the sum of nll (tokens,) for each row of target (batch, target), float64 (batch,), and the token counts.

    For example, nll [1, 2, 4] for the rows <sos> a <eos> and <sos> <eos> <pad> gives the sums [3, 4]
    and the counts [2, 1].
    """
    counts = (target[:, 1:] != pad_id).sum(dim=1)
    rows = torch.repeat_interleave(torch.arange(len(counts), device=nll.device), counts)  # [0, 0, 1]
    return torch.zeros(len(counts), dtype=torch.float64, device=nll.device).index_add_(0, rows, nll.double()), counts


def losses_in_chunks(
    hidden: Tensor, output: Output, labels: Tensor, *, label_smoothing: float = 0.0, consistency: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Returns objective and nll of `cross_entropy` for output(hidden), without holding all logits in memory.

    hidden (tokens, d_model), labels int64 (tokens,). Rows of hidden beyond the labels have no loss and a zero gradient.
    Under autocast, matrix products have its type; sums, losses and the gradients of weights are float32.
    """
    options = {"label_smoothing": label_smoothing, "consistency": consistency}
    return _ChunkedLosses.apply(hidden, labels, output, options, torch.is_grad_enabled(), *output.parameters())


class _ChunkedLosses(torch.autograd.Function):
    """Computes the gradients in the forward pass, chunk by chunk, while a chunk's logits are in memory."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        labels: Tensor,
        output: Output,
        options: dict[str, float],
        needs_gradient: bool,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        size = CHUNK_TOKENS if hidden.device.type == "cpu" else GPU_CHUNK_TOKENS
        hidden_gradient = torch.empty_like(hidden)
        weight_gradients = [torch.zeros_like(weight) for weight in weights if needs_gradient]
        objectives, nlls = [], []
        for start in range(0, len(hidden), size):
            chunk = slice(start, start + size)
            with torch.set_grad_enabled(needs_gradient):
                x = hidden[chunk].detach().requires_grad_(needs_gradient)  # a graph of its own, freed with the chunk
                logits = output(x)  # (chunk, vocabulary)
                if len(x) > len(labels[chunk]):  # slice only if needed: its backward pass costs a copy
                    logits = logits[: len(labels[chunk])]
                objective, nll = cross_entropy(
                    logits.float(), labels[chunk], **options, suppressed_ids=output.suppressed_ids
                )
            objectives.append(objective.detach())
            nlls.append(nll.detach())
            if needs_gradient:
                wanted = [x, *(weight for weight in weights if weight.requires_grad)]
                hidden_gradient[chunk], *found = torch.autograd.grad(objective, wanted)
                for so_far, weight in zip(weight_gradients, weights, strict=True):
                    if weight.requires_grad:
                        so_far += found.pop(0)
        ctx.save_for_backward(hidden_gradient, *weight_gradients)
        nll = torch.cat(nlls)
        ctx.mark_non_differentiable(nll)
        return torch.stack(objectives).sum(), nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden_gradient, *weight_gradients = (each * gradients[0] for each in ctx.saved_tensors)
        return hidden_gradient, None, None, None, None, *weight_gradients
