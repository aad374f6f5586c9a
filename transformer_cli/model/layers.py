"""The layers of both stacks: attention and feed-forward, each in a residual connection with LayerNorm (3.1, 3.3).

Does not know tokens, masks or the number of layers: the `AttentionFn` that a layer receives has the mask.
"""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.attention import AttentionFn, KeysValues, MultiHeadAttention
from transformer_cli.model.dropout import Dropout

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "swish": nn.SiLU}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x·W_1 + b_1)·W_2 + b_2 (eq. 2) at each position, with dropout after the activation."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.activation = ACTIVATIONS[config.activation]()
        self.dropout = Dropout(config.dropout if config.activation_dropout is None else config.activation_dropout)
        self.outer = nn.Linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x (…, d_model). Returns a tensor shaped like x."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class Residual(nn.Module):
    """The residual connection of a sublayer: LayerNorm(x + Dropout(Sublayer(x))) (3.1, 5.4).

    With norm: pre it is x + Dropout(Sublayer(LayerNorm(x))). A layer calls `pre_norm` before the sublayer, and the
    module itself after it: x = residual(x, sublayer(residual.pre_norm(x))).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.norm_first = config.norm == "pre"

    def pre_norm(self, x: Tensor) -> Tensor:
        """Returns the sublayer's input for x (…, d_model)."""
        return self.norm(x) if self.norm_first else x

    def forward(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Add the sublayer's output to x, both (…, d_model). Returns a tensor shaped like x."""
        x = x + self.dropout(sublayer_output)
        return x if self.norm_first else self.norm(x)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.feed_forward = FeedForward(config)
        self.residuals = _residuals(config, 2)

    def forward(self, x: Tensor, attend: AttentionFn) -> Tensor:
        """x (…, source, d_model). Returns a tensor shaped like x."""
        first, second = self.residuals
        x = first(x, self.self_attention(first.pre_norm(x), memory=None, attend=attend))
        return second(x, self.feed_forward(second.pre_norm(x)))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.cross_attention = _attention(config)
        self.feed_forward = FeedForward(config)
        self.residuals = _residuals(config, 3)

    def forward(
        self, x: Tensor, memory: KeysValues, attend_to_target: AttentionFn, attend_to_source: AttentionFn
    ) -> Tensor:
        """x (…, target, d_model). Returns a tensor shaped like x.

        memory: `cross_attention.keys_values` of the encoder's output, each (…, heads, source, depth).
        """
        first, second, third = self.residuals
        x = first(x, self.self_attention(first.pre_norm(x), memory=None, attend=attend_to_target))
        x = second(x, self.cross_attention(second.pre_norm(x), memory, attend_to_source))
        return third(x, self.feed_forward(third.pre_norm(x)))


def _attention(config: ModelConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        config.head_dim or config.d_model // config.num_heads,
        qkv_bias=config.qkv_bias,
        dropout=config.dropout if config.attention_dropout is None else config.attention_dropout,
    )


def _residuals(config: ModelConfig, number: int) -> Sequence[Residual]:
    return cast(Sequence[Residual], nn.ModuleList(Residual(config) for _ in range(number)))
