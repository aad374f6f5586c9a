"""Loss of the real tokens against a loop over all of them, and label smoothing."""

import pytest
import torch

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.loss import sum_by_row, token_losses
from transformer_cli.model.transformer import Transformer

PAD = 1
SOURCE = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, PAD, PAD], [2, 4, 4, 3, PAD]])
TARGET = torch.tensor([[2, 8, 3, PAD, PAD, PAD], [2, 4, 6, 9, 7, 3], [2, 10, 5, 3, PAD, PAD]])
LENGTHS = [2, 5, 3]  # tokens to predict in each row


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    config = ModelConfig(d_model=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=24, dropout=0.0)
    return Transformer(config, source_vocabulary=11, target_vocabulary=12, pad_id=PAD)


def loss_of_each_token(model: Transformer) -> list[list[float]]:
    """-log p of each label, row by row, from the logits of every position."""
    log_p = model(SOURCE, TARGET[:, :-1]).log_softmax(dim=-1)
    return [
        [-log_p[row, t, TARGET[row, t + 1]].item() for t in range(TARGET.shape[1] - 1) if TARGET[row, t + 1] != PAD]
        for row in range(len(TARGET))
    ]


def test_token_losses_are_those_of_a_loop_over_real_tokens(model: Transformer) -> None:
    losses = token_losses(model, SOURCE, TARGET)
    expected = loss_of_each_token(model)
    assert [len(row) for row in expected] == LENGTHS
    assert len(losses.nll) == sum(LENGTHS)
    assert losses.nll.tolist() == pytest.approx([nll for row in expected for nll in row], abs=1e-5)
    assert losses.objective.item() == pytest.approx(sum(map(sum, expected)), abs=1e-4)
    assert not losses.nll.requires_grad


def test_label_smoothing_spreads_its_share_over_the_vocabulary(model: Transformer) -> None:
    """(1-ε)·(-log p of the label) + ε·(the mean of -log p over the vocabulary), for every real token."""
    log_p = model(SOURCE, TARGET[:, :-1]).log_softmax(dim=-1)[TARGET[:, 1:] != PAD]
    labels = TARGET[:, 1:][TARGET[:, 1:] != PAD]
    by_hand = -(0.9 * log_p[torch.arange(len(labels)), labels] + 0.1 * log_p.mean(dim=1)).sum()
    torch.testing.assert_close(token_losses(model, SOURCE, TARGET, label_smoothing=0.1).objective, by_hand)


def test_sum_by_row_equals_a_loop(model: Transformer) -> None:
    sums, counts = sum_by_row(token_losses(model, SOURCE, TARGET).nll, TARGET, PAD)
    assert sums.dtype == torch.float64
    assert sums.tolist() == pytest.approx([sum(row) for row in loss_of_each_token(model)], abs=1e-5)
    assert counts.tolist() == LENGTHS


def test_sum_by_row_of_a_row_without_tokens_is_zero() -> None:
    sums, counts = sum_by_row(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([[2, 5], [2, PAD], [2, 5], [2, 3]]), PAD)
    assert sums.tolist() == [1.0, 0.0, 2.0, 4.0]
    assert counts.tolist() == [1, 0, 1, 1]
