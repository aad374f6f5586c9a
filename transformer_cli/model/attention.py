"""Scaled dot-product and multi-head attention (section 3.2). Knows no layers, no tokens and no decoding.

Masks are boolean and say who *may* attend: True = may. The model makes them from the pad id; callers never do.
Shapes: batch, heads, target (positions that ask), source (positions that are asked), depth (of one head).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor, nn


class RecordedAttention(NamedTuple):
    """What one layer's attention computed on the way, for those who ask."""

    scores: Tensor
    """QKᵀ/√d_k, -inf where a target position may not attend: (batch, heads, target, source)"""
    weights: Tensor
    """softmax of the scores, before dropout: (batch, heads, target, source)"""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    may_attend: Tensor | None,
    *,
    dropout: Callable[[Tensor], Tensor] = lambda weights: weights,
    record: list[RecordedAttention] | None = None,
) -> Tensor:
    """softmax(QKᵀ/√d_k)·V (eq. 1): the mean of the values, weighted by how well their keys match the query.

    query (batch, heads, target, depth); key, value (batch, heads, source, depth); may_attend bool, broadcast to
    (batch, heads, target, source), at least one True in each row; None: everything. dropout acts on the weights.
    record: a list that scores and weights are added to. Returns (batch, heads, target, depth).
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (batch, heads, target, source)
    if may_attend is not None:
        scores = scores.masked_fill(~may_attend, float("-inf"))
    weights = scores.softmax(dim=-1)  # (batch, heads, target, source): each row sums to 1
    if record is not None:
        record.append(RecordedAttention(scores, weights))
    return dropout(weights) @ value  # (batch, heads, target, depth)


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, may_attend: Tensor | None, *, dropout: float = 0.0
) -> Tensor:
    """The same as `attention` in one kernel of torch, which keeps no scores and no weights; dropout: a share.

    Used on every device but the CPU, whose own kernel is slower than `attention` for short sentences. Shapes as there.
    """
    return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=may_attend, dropout_p=dropout)


class KeysValues(NamedTuple):
    """What is attended to, split in heads: keys and values, both (…, heads, source, depth)."""

    keys: Tensor
    values: Tensor


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h)·W_O, each head attending in its own projection of queries, keys and values (3.2.2).

    W_Q, W_K and W_V of all heads stand one below the other in one matrix, so that self-attention is one product.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        head_dim: int,
        *,
        qkv_bias: bool,
        dropout: float,
        dropout_class: type[nn.Dropout] = nn.Dropout,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.inner = num_heads * head_dim
        self.qkv = nn.Linear(d_model, 3 * self.inner, bias=qkv_bias)
        self.output = nn.Linear(self.inner, d_model)
        self.dropout = dropout_class(dropout)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, KeysValues]:
        """Self-attention: all three from the same x (…, length, d_model), each (…, heads, length, depth)."""
        query, keys, values = self._project(x, 0, 3)
        return query, KeysValues(keys, values)

    def queries(self, x: Tensor) -> Tensor:
        """Encoder–decoder attention: from the decoder's x (…, target, d_model) queries (…, heads, target, depth)."""
        return self._project(x, 0, 1)[0]

    def keys_values(self, memory: Tensor) -> KeysValues:
        """Encoder–decoder attention: from the encoder's output (…, source, d_model), each (…, heads, source, depth)."""
        return KeysValues(*self._project(memory, 1, 3))

    def forward(
        self,
        query: Tensor,
        source: KeysValues,
        may_attend: Tensor | None,
        record: list[RecordedAttention] | None = None,
    ) -> Tensor:
        """query (batch, heads, target, depth); keys and values (batch, heads, source, depth).

        may_attend: bool, broadcast to (batch, heads, target, source); None: everything.
        record: a list that the scores and weights of all heads are added to. Returns (batch, target, d_model).
        """
        return self.join_heads(self.attend(query, source, may_attend, record))

    def attend(
        self,
        query: Tensor,
        source: KeysValues,
        may_attend: Tensor | None,
        record: list[RecordedAttention] | None = None,
    ) -> Tensor:
        """Equation 1 in every head; parameters as in `forward`. Returns (batch, heads, target, depth)."""
        if record is None and query.device.type != "cpu":
            dropout = self.dropout.p if self.training else 0.0
            return fused_attention(query, source.keys, source.values, may_attend, dropout=dropout)
        return attention(query, source.keys, source.values, may_attend, dropout=self.dropout, record=record)

    def join_heads(self, heads: Tensor) -> Tensor:
        """Concat(head_1 … head_h)·W_O: (…, heads, length, depth) → (…, length, d_model)."""
        return self.output(heads.transpose(-3, -2).flatten(-2))

    def _project(self, x: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """Parts first … last-1 of (queries, keys, values) of x (…, length, d_model), each (…, heads, length, depth)."""
        rows = slice(first * self.inner, last * self.inner)  # with 2 heads of 8: W_Q 0-15, W_K 16-31, W_V 32-47
        bias = None if self.qkv.bias is None else self.qkv.bias[rows]
        projected = nn.functional.linear(x, self.qkv.weight[rows], bias)
        parts = projected.unflatten(-1, (last - first, self.num_heads, -1))  # (…, length, part, heads, depth)
        return tuple(part.transpose(-3, -2) for part in parts.unbind(-3))


@dataclass
class AttentionRecord:
    """What one forward pass attended to: a list for each of the model's three uses of attention, in layer order."""

    encoder_self: list[RecordedAttention] = field(default_factory=list)
    decoder_self: list[RecordedAttention] = field(default_factory=list)
    cross: list[RecordedAttention] = field(default_factory=list)
