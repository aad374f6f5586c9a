"""A small random model whose searches find different translations of different lengths."""

import torch
from torch import nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.vocabulary import PAD

VOCABULARY = 12


def make_model(seed: int = 8, **variant: object) -> Transformer:
    """Weights large enough that each position matters and that greedy search finds different tokens."""
    torch.manual_seed(seed)  # with 8, translations are of many lengths
    small = ModelConfig(d_model=16, num_heads=2, num_encoder_layers=2, num_decoder_layers=2, d_ff=24, max_length=16)
    config = small.model_copy(update=variant)
    model = Transformer(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, pad_id=PAD).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.3)
    return model.requires_grad_(False)
