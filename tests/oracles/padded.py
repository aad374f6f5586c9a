"""The loss of a padded batch with all logits at once, as tutorials write it: the oracle of `token_losses`."""

import torch
from torch import Tensor, nn

from transformer_cli.model.loss import TokenLosses
from transformer_cli.model.transformer import Transformer


def padded_losses(model: Transformer, source: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> TokenLosses:
    """As `token_losses`, through the padded layout and torch's cross-entropy."""
    is_label = target[:, 1:] != model.pad_id
    logits, labels = model(source, target[:, :-1])[is_label].float(), target[:, 1:][is_label]
    written = torch.tensor([index for index in range(logits.shape[1]) if index not in model.output.suppressed_ids])
    logits, labels = logits[:, written], torch.searchsorted(written, labels)  # smoothing gives nothing to the others
    objective = nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=label_smoothing)
    return TokenLosses(objective, nn.functional.cross_entropy(logits.detach(), labels, reduction="none"))
