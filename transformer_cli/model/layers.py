"""The layers of both stacks: attention and feed-forward, each in a residual connection with LayerNorm (3.1, 3.3).

Knows vectors and masks. Knows neither tokens nor how many layers there are.
"""

from collections.abc import Callable

from torch import Tensor, nn

from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.attention import KeysValues, MultiHeadAttention, RecordedAttention


class FeedForward(nn.Module):
    """FFN(x) = max(0, x·W_1 + b_1)·W_2 + b_2, at each position alone (eq. 2), with dropout after the activation."""

    def __init__(self, config: ModelConfig, dropout_class: type[nn.Dropout] = nn.Dropout) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.activation = nn.ReLU() if config.activation == "relu" else nn.GELU()
        self.dropout = dropout_class(
            config.dropout if config.feed_forward_dropout is None else config.feed_forward_dropout
        )
        self.outer = nn.Linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x (…, d_model). Returns a tensor shaped like x."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))) as in the paper, or x + Dropout(Sublayer(LayerNorm(x))) with norm: pre."""

    def __init__(self, config: ModelConfig, dropout_class: type[nn.Dropout] = nn.Dropout) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = dropout_class(config.dropout)
        self.norm_first = config.norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """x (…, d_model). Returns a tensor shaped like x."""
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig, dropout_class: type[nn.Dropout] = nn.Dropout) -> None:
        super().__init__()
        self.self_attention = _attention(config, dropout_class)
        self.feed_forward = FeedForward(config, dropout_class)
        self.residuals = nn.ModuleList(Residual(config, dropout_class) for _ in range(2))

    def forward(self, x: Tensor, may_attend: Tensor, record: list[RecordedAttention] | None = None) -> Tensor:
        """x (batch, source, d_model); may_attend bool (batch, 1, 1, source). Returns a tensor shaped like x.

        record: a list to which the layer's attention is appended.
        """

        def attend_to_source(x: Tensor) -> Tensor:
            query, source = self.self_attention.queries_keys_values(x)
            return self.self_attention(query, source, may_attend, record)

        x = self.residuals[0](x, attend_to_source)
        return self.residuals[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, feed-forward."""

    def __init__(self, config: ModelConfig, dropout_class: type[nn.Dropout] = nn.Dropout) -> None:
        super().__init__()
        self.self_attention = _attention(config, dropout_class)
        self.cross_attention = _attention(config, dropout_class)
        self.feed_forward = FeedForward(config, dropout_class)
        self.residuals = nn.ModuleList(Residual(config, dropout_class) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        may_attend_target: Tensor | None,
        memory: KeysValues,
        may_attend_source: Tensor,
        *,
        remember: Callable[[KeysValues], KeysValues] = lambda new: new,
        together: Callable[[Tensor], Tensor] = lambda queries: queries,
        apart: Callable[[Tensor], Tensor] = lambda heads: heads,
        self_record: list[RecordedAttention] | None = None,
        cross_record: list[RecordedAttention] | None = None,
    ) -> Tensor:
        """x (batch, target, d_model). Returns a tensor shaped like x.

        may_attend_target: bool (batch, 1, target, target); None: to everything that `remember` returns.
        memory: `cross_attention.keys_values` of the encoder's output, each (batch, heads, source, depth); the batch of
        memory and of may_attend_source may be smaller, see `together`.
        may_attend_source: bool, broadcast to (memory's rows, 1, 1, source).
        remember: turns the keys and values of x into the keys and values of all target positions so far.
        together, apart: where several rows of x attend to one row of memory (model/cache.py), turn their queries into
        those of one row, and what these found into rows again.
        self_record, cross_record: lists to which the layer's attention is appended.
        """

        def attend_to_target(x: Tensor) -> Tensor:
            query, new = self.self_attention.queries_keys_values(x)
            return self.self_attention(query, remember(new), may_attend_target, self_record)

        def attend_to_memory(x: Tensor) -> Tensor:
            query = together(self.cross_attention.queries(x))
            found = self.cross_attention.attend(query, memory, may_attend_source, cross_record)
            return self.cross_attention.join_heads(apart(found))

        x = self.residuals[0](x, attend_to_target)
        x = self.residuals[1](x, attend_to_memory)
        return self.residuals[2](x, self.feed_forward)


def _attention(config: ModelConfig, dropout_class: type[nn.Dropout]) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        config.head_dim or config.d_model // config.num_heads,
        qkv_bias=config.qkv_bias,
        dropout=config.dropout if config.attention_dropout is None else config.attention_dropout,
        dropout_class=dropout_class,
    )
