"""Cross-entropy of the target tokens without padding (section 5.4): sums and counts, never means of means.

Training minimises `objective`; all that is printed and kept, validation and `tfm score` included, is `nll`. Knows ids
and the model; does not know the batches of an epoch or the optimiser.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from transformer_cli.model.layout import Packed, moved
from transformer_cli.model.transformer import Output, Transformer

CHUNK = 512  # tokens
LARGE_CHUNK = 4096  # on other devices than the CPU, which want few large products


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
    # (tokens, d_model); in bfloat16 on the CPU followed by a few rows that have no label (see `Packed`)
    hidden = model.decode(written, model.decoder.keys_values(model.encode(read)), read)
    labels = moved(labels[is_label], device)  # (tokens,)
    objective, nll = losses_in_chunks(hidden, model.output, labels, label_smoothing=label_smoothing)
    return TokenLosses(objective, nll)


def cross_entropy(
    logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0, unwritable_ids: Sequence[int] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the objective, -log p of each label, and the objective's gradient for the logits, which it overwrites.

    The objective is (1-ε)·(-log p of the label) + ε·(the mean of -log p over all words), summed, where p is the softmax
    of the logits and ε label_smoothing (5.4). logits float32 (tokens, vocabulary), labels int64 (tokens,).
    unwritable_ids: words with the logit -inf, which are no part of that mean.
    """
    n_words, labels = logits.shape[1] - len(unwritable_ids), labels[:, None]
    log_p = torch.log_softmax(logits, dim=1, out=logits)
    nll = -log_p.gather(1, labels)[:, 0]
    objective = nll.sum()
    if label_smoothing:
        log_p[:, unwritable_ids] = 0.0  # instead of -inf
        objective = (1 - label_smoothing) * objective - label_smoothing / n_words * log_p.sum()
    # The derivative of the objective, by hand: p - (1-ε) at the label - ε/n. Who changes one has to change the other.
    gradient = log_p.exp_()
    gradient.scatter_add_(1, labels, torch.full_like(labels, label_smoothing - 1, dtype=logits.dtype))
    if label_smoothing:
        gradient -= label_smoothing / n_words
        gradient[:, unwritable_ids] = 0.0
    return objective, nll, gradient


@cache
def check_gradient(label_smoothing: float) -> None:
    """Raises AssertionError if the gradient that `cross_entropy` returns is not that of its objective.

    It is compared with quotients of differences, once in a process: an edit of one alone would change nothing that is
    learned, and nobody would be told.
    """
    logits, labels, little = torch.arange(12.0, dtype=torch.float64).sin().view(2, 6), torch.tensor([1, 4]), 1e-6

    def objective(logits: Tensor) -> float:
        return float(cross_entropy(logits, labels, label_smoothing=label_smoothing)[0])

    gradient = cross_entropy(logits.clone(), labels, label_smoothing=label_smoothing)[2].flatten()
    steps = little * torch.eye(12, dtype=torch.float64).view(12, 2, 6)
    quotients = [(objective(logits + step) - objective(logits - step)) / (2 * little) for step in steps]
    assert torch.allclose(gradient, gradient.new_tensor(quotients), atol=1e-6), (
        "model/loss.py: the gradient that cross_entropy returns is not that of its objective; change both"
    )


def sum_by_row(nll: Tensor, target: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    """Returns the sum of `nll` (tokens,) for each row of target (batch, target), float64, and each row's token count.

    Both are (batch,). For example, nll [1, 2, 4] for the rows <sos> a <eos> and <sos> <eos> <pad> gives the sums [3, 4]
    and the counts [2, 1].
    """
    counts = (target[:, 1:] != pad_id).sum(dim=1)
    rows = torch.repeat_interleave(torch.arange(len(counts), device=nll.device), counts)  # [0, 0, 1]
    return torch.zeros(len(counts), dtype=torch.float64, device=nll.device).index_add_(0, rows, nll.double()), counts


def losses_in_chunks(
    hidden: Tensor, output: Output, labels: Tensor, *, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Returns objective and nll of `cross_entropy` for output(hidden), never with all logits in memory.

    hidden (tokens, d_model), labels int64 (tokens,). hidden may have more rows than there are labels: those have no
    loss, and the gradient 0. Under autocast, products are computed in its type; sums, losses and the gradients of the
    weights are float32.
    """
    needs_gradient = torch.is_grad_enabled()
    if needs_gradient:
        check_gradient(label_smoothing)
    return _InChunks.apply(hidden, labels, output, label_smoothing, needs_gradient, *output.parameters())


class _InChunks(torch.autograd.Function):
    """The gradients are computed in the forward pass, while a chunk's logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        labels: Tensor,
        output: Output,
        label_smoothing: float,
        needs_gradient: bool,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        size = CHUNK if hidden.device.type == "cpu" else LARGE_CHUNK
        of_hidden = torch.empty_like(hidden)
        of_weights = [torch.zeros_like(weight) for weight in weights if needs_gradient]
        objectives, nlls = [], []
        for start in range(0, len(hidden), size):
            chunk = slice(start, start + size)
            with torch.set_grad_enabled(needs_gradient):
                x = hidden[chunk].detach().requires_grad_(needs_gradient)  # a graph of its own, freed with the chunk
                logits = output(x)  # (chunk, vocabulary)
            of_chunk = labels[chunk]
            objective, nll, gradient = cross_entropy(
                logits.detach()[: len(of_chunk)].float(),
                of_chunk,
                label_smoothing=label_smoothing,
                unwritable_ids=output.unwritable_ids,
            )
            objectives.append(objective)
            nlls.append(nll)
            if needs_gradient:
                if len(x) > len(of_chunk):  # `pad` copies also where there is nothing to add
                    gradient = nn.functional.pad(gradient, (0, 0, 0, len(x) - len(of_chunk)))
                wanted = [x, *(weight for weight in weights if weight.requires_grad)]
                of_hidden[chunk], *found = torch.autograd.grad(logits, wanted, gradient.to(logits.dtype))
                for so_far, weight in zip(of_weights, weights, strict=True):
                    if weight.requires_grad:
                        so_far += found.pop(0)
        ctx.save_for_backward(of_hidden, *of_weights)
        nll = torch.cat(nlls)
        ctx.mark_non_differentiable(nll)
        return torch.stack(objectives).sum(), nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_hidden, *of_weights = (each * gradients[0] for each in ctx.saved_tensors)
        return of_hidden, None, None, None, None, *of_weights
