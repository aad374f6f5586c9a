"""Losses of the real tokens with label smoothing."""

import torch

from oracles.small import SMALL
from transformer_cli.model.loss import token_losses
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import PAD

SOURCE = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, PAD, PAD], [2, 4, 4, 3, PAD]])
TARGET = torch.tensor([[2, 8, 3, PAD, PAD, PAD], [2, 4, 6, 9, 7, 3], [2, 10, 5, 3, PAD, PAD]])


def test_label_smoothing_is_uniform_over_the_vocabulary() -> None:
    """(1-ε)·(-log p of the label) + ε·(the mean of -log p over the vocabulary), for every real token."""
    torch.manual_seed(0)
    model = Transformer(SMALL, source_vocabulary=11, target_vocabulary=12, pad_id=PAD)
    log_p = model(SOURCE, TARGET[:, :-1]).log_softmax(dim=-1)[TARGET[:, 1:] != PAD]
    labels = TARGET[:, 1:][TARGET[:, 1:] != PAD]
    nll = -log_p[torch.arange(len(labels)), labels]
    by_hand = (0.9 * nll - 0.1 * log_p.mean(dim=1)).sum()
    found = token_losses(model, SOURCE, TARGET, label_smoothing=0.1)
    torch.testing.assert_close((found.objective, found.nll), (by_hand, nll.detach()))
