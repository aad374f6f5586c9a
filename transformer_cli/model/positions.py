"""Position vectors, added to the token embeddings so that the order of tokens counts (section 3.5).

Knows positions as numbers from 0. Knows no tokens.
"""

import torch
from torch import Tensor, nn


class LearnedPositions(nn.Module):
    """A trained vector for each of the first max_length positions (Gehring et al. 2017; table 3, row E)."""

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, d_model))

    def forward(self, positions: Tensor) -> Tensor:
        """positions int64 (…), 0 … max_length-1. Returns their vectors (…, d_model)."""
        return nn.functional.embedding(positions, self.weight)


class SinusoidalPositions(nn.Module):
    """Sines and cosines, without weights and without a last position: the paper's, or of other frequencies."""

    frequencies: Tensor

    def __init__(self, frequencies: Tensor) -> None:
        """frequencies: float32 (d_model/2,)."""
        super().__init__()
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """positions int64 (…), from 0. Returns their vectors (…, d_model).

        With d_model = 4 the paper's frequencies are 1 and 1/100, and the vector of position 3 is
        [sin 3, cos 3, sin 0.03, cos 0.03].
        """
        angles = positions[..., None] * self.frequencies  # (…, d_model/2)
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # (…, d_model/2, 2) → (…, d_model)


def frequencies(d_model: int) -> Tensor:
    """Returns 1 / 10000^(2i/d_model) for i = 0 … d_model/2-1, float32 (d_model/2,).

    PE(pos, 2i) is the sine of pos times frequency i, and PE(pos, 2i+1) is the cosine.
    """
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64)
    return (10000.0 ** (-two_i / d_model)).float()


def marian_frequencies(d_model: int) -> Tensor:
    """Returns 1 / 10000^(i/(d_model/2-1)) for i = 0 … d_model/2-1, float32 (d_model/2,), as Marian has them.

    The last one is 1/10000, which the paper's never reach.
    """
    i = torch.arange(d_model // 2, dtype=torch.float64)
    return (10000.0 ** (-i / max(1, d_model // 2 - 1))).float()
