"""A small model and a batch for it; one whose searches find translations of many lengths; how close float32 comes."""

import torch
from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import PAD

VOCABULARY = 12
SMALL = ModelConfig(
    d_model=16, num_heads=2, num_encoder_layers=2, num_decoder_layers=2, d_ff=24, dropout=0.0, max_length=8
)
SOURCE = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, PAD, PAD]])
TARGET = torch.tensor([[2, 8, 3, PAD], [2, 4, 6, 9]])


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0.0)


def make_model(seed: int = 8, **variant: object) -> Transformer:
    """Weights large enough that each position matters and that greedy search finds different tokens."""
    torch.manual_seed(seed)  # with 8, translations are of many lengths
    config = SMALL.model_copy(update={"dropout": 0.1, "max_length": 16, **variant})
    model = Transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, pad_id=PAD).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.3)
    return model.requires_grad_(False)
