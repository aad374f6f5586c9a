"""Cross-entropy of the target tokens without padding (section 5.4): sums and counts, never means of means.

Knows ids and the model. Does not know the batches of an epoch, the optimiser, or how its fast form is computed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transformer_cli.model.transformer import Transformer


@dataclass(frozen=True)
class TokenLosses:
    """The losses of a padded batch's real target tokens, <eos> included, row after row, in nats.

    objective: scalar, the sum that training minimises (label smoothing included). nll (tokens,): -log p for each
    token, without a gradient.
    """

    objective: Tensor
    nll: Tensor


def token_losses(model: Transformer, source: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> TokenLosses:
    """Predict each target token from the tokens before it. The wide output projection is computed for real tokens only.

    source int64 (batch, source); target int64 (batch, target) from <sos> to <eos>, padded at the end.
    """
    labels = target[:, 1:]
    mask = labels != model.pad_id
    hidden = model.decode(target[:, :-1], model.encode(source), source)
    logits = model.output(hidden[mask]).float()  # (tokens, vocabulary)
    gold = labels[mask]
    if never := model.output.never:  # label smoothing gives nothing to these either
        written = torch.tensor([index for index in range(logits.shape[1]) if index not in never], device=gold.device)
        logits, gold = logits[:, written], torch.searchsorted(written, gold)
    if not label_smoothing:
        nll = nn.functional.cross_entropy(logits, gold, reduction="none")
        return TokenLosses(nll.sum(), nll.detach())
    objective = nn.functional.cross_entropy(logits, gold, reduction="sum", label_smoothing=label_smoothing)
    return TokenLosses(objective, nn.functional.cross_entropy(logits.detach(), gold, reduction="none"))


def sum_by_row(nll: Tensor, target: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    """Returns the sum of `nll` (tokens,) for each row of target (batch, target), float64, and each row's token count.

    Both are (batch,). For example, nll [1, 2, 4] for the rows <sos> a <eos> and <sos> <eos> <pad> gives the sums [3, 4]
    and the counts [2, 1].
    """
    counts = (target[:, 1:] != pad_id).sum(dim=1)
    rows = torch.repeat_interleave(torch.arange(len(counts), device=nll.device), counts)  # [0, 0, 1]
    return torch.zeros(len(counts), dtype=torch.float64, device=nll.device).index_add_(0, rows, nll.double()), counts
