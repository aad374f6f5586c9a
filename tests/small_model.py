"""The shape of a model of a few numbers, and a batch for it."""

import torch

from transformer_cli.config.schema import ModelConfig
from transformer_cli.text.vocabulary import PAD

SMALL = ModelConfig(
    d_model=16, num_heads=2, num_encoder_layers=2, num_decoder_layers=2, d_ff=24, dropout=0.0, max_length=8
)
SOURCE = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, PAD, PAD]])
TARGET = torch.tensor([[2, 8, 3, PAD], [2, 4, 6, 9]])
