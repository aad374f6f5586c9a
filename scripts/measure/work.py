"""How much there is to compute, and how fast this machine computes: the limit to which figures are compared."""

import torch

from measure.figures import alternate
from transformer_cli.model.transformer import Transformer

MATRIX = 2048  # rows and columns of the product that says how fast the machine multiplies


def matrix_rate(dtype: torch.dtype = torch.float32) -> float:
    """Returns the FLOP/s of a large matrix product with torch's threads: the best of several."""
    left, right = (torch.randn(MATRIX, MATRIX).to(dtype) for _ in range(2))
    ways = [lambda: left @ right] * 8
    return 2 * MATRIX**3 / min(alternate(ways, rounds=1))


def forward_flop(model: Transformer, *, source_positions: float, target_positions: float) -> float:
    """Returns the FLOP of a forward pass: 2 for each weight and position, without padding.

    Encoder layers and the decoder's cross-attention keys and values meet source positions, everything else target
    positions. The products inside attention (1 %) are left out.
    """
    per_source = per_target = 0
    for name, weight in model.named_parameters():
        if weight.ndim != 2 or "embedding" in name:
            continue
        if name.startswith("encoder."):
            per_source += weight.numel()
        elif "cross_attention.qkv" in name:
            per_source += weight.numel() * 2 // 3
            per_target += weight.numel() // 3
        else:
            per_target += weight.numel()
    return 2.0 * (per_source * source_positions + per_target * target_positions)
