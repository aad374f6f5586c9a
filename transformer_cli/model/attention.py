"""Scaled dot-product and multi-head attention (Vaswani et al. 2017, section 3.2). Does not know tokens or decoding.

Masks are boolean: True where a target position may attend to a source position. Only model/ makes masks. The names of
dimensions are batch, heads, target (the positions of the queries), source (the positions of the keys and values; in
self-attention also those of the queries) and depth (the width of a head: d_k in the paper, head_dim in the config).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from transformer_cli.model.dropout import Dropout, replay_rng

RECOMPUTE_LENGTH = 128  # positions; the backward pass of longer sentences computes attention weights again


class RecordedAttention(NamedTuple):
    """The scores and weights of one call of `attention`, kept only on request."""

    scores: Tensor
    """QKᵀ/√d_k, -inf where a target position may not attend: (batch, heads, target, source)"""
    weights: Tensor
    """softmax of the scores, before dropout: (batch, heads, target, source)"""


Recording = list[RecordedAttention] | None
"""a list to which each call of `attention` appends its scores and weights; None: they are not recorded"""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout: nn.Dropout,
    *,
    may_attend: Tensor | None = None,
    record: Recording = None,
) -> Tensor:
    """softmax(QKᵀ/√d_k)·V (eq. 1): the mean of the values, weighted by how well their keys match the query.

    query (batch, heads, target, depth); key, value (batch, heads, source, depth); may_attend bool, broadcast to
    (batch, heads, target, source), at least one True in each row (else softmax is NaN); None: all may. dropout acts
    on the weights. Returns (batch, heads, target, depth).
    """
    if record is None and query.device.type != "cpu":  # fused: no weights; slower for short sentences on CPUs
        p = dropout.p if dropout.training else 0.0
        return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=may_attend, dropout_p=p)
    if record is None and torch.is_grad_enabled() and query.shape[-2] * key.shape[-2] > RECOMPUTE_LENGTH**2:
        return _RecomputedAttention.apply(query, key, value, dropout, may_attend)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (batch, heads, target, source)
    if may_attend is not None:
        scores = scores.masked_fill_(~may_attend, float("-inf"))
    weights = scores.softmax(dim=-1)  # (batch, heads, target, source): each row sums to 1
    if record is not None:
        record.append(RecordedAttention(scores, weights))
    return dropout(weights) @ value  # (batch, heads, target, depth)


class _RecomputedAttention(torch.autograd.Function):
    """Attention that stores neither scores nor weights, which grow with the square of the length.

    The backward pass computes them again from query, key and value, with the same dropout mask.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, dropout: nn.Dropout, may_attend: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, may_attend)
        ctx.dropout, ctx.replay_rng = dropout, replay_rng()
        ctx.is_autocast, ctx.dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        return attention(query, key, value, dropout, may_attend=may_attend)  # no graph is built here

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *saved, may_attend = ctx.saved_tensors
        query, key, value = inputs = [each.detach().requires_grad_() for each in saved]
        precision = torch.autocast("cpu", ctx.dtype, enabled=ctx.is_autocast, cache_enabled=False)
        with torch.enable_grad(), ctx.replay_rng(), precision:
            # With a record, `attention` does not call this class again.
            found = attention(query, key, value, ctx.dropout, may_attend=may_attend, record=[])
        return *torch.autograd.grad(found, inputs, gradients), None, None


AttentionFn = Callable[[Tensor, Tensor, Tensor, nn.Dropout], Tensor]
"""(queries, keys, values, dropout) → the output of each head, shaped like the queries.

Each layout has its own: for padded rows (`masked_attention`), for tokens without padding (layout.py), and for the
newest token, with the keys and values of earlier steps (cache.py)."""


def masked_attention(may_attend: Tensor, record: Recording = None) -> AttentionFn:
    """Returns `attention` with this mask and this record."""
    return partial(attention, may_attend=may_attend, record=record)


class KeysValues(NamedTuple):
    """Keys and values, split into heads: both (…, heads, source, depth)."""

    keys: Tensor
    values: Tensor


class QKVProjection(nn.Linear):
    """W_Q, W_K and W_V of all heads in one matrix, so that self-attention needs one product (3.2.2)."""

    def forward(self, x: Tensor, start: int = 0, stop: int = 3) -> Tensor:
        """Returns (queries, keys, values)[start:stop] of x (…, length, d_model), concatenated: (…, length, n)."""
        inner = self.out_features // 3
        rows = slice(start * inner, stop * inner)  # with 2 heads of 8: W_Q 0-15, W_K 16-31, W_V 32-47
        return nn.functional.linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h)·W_O, each head attending in its own projection of queries, keys and values (3.2.2)."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        head_dim: int,
        *,
        qkv_bias: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.inner_dim = num_heads * head_dim  # all heads concatenated
        self.qkv = QKVProjection(d_model, 3 * self.inner_dim, bias=qkv_bias)
        self.output = nn.Linear(self.inner_dim, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, memory: KeysValues | None, attend: AttentionFn) -> Tensor:
        """Let each position of x (…, target, d_model) attend to memory, or to x itself if memory is None.

        memory: from `keys_values`, each (…, heads, source, depth). Returns a tensor shaped like x.
        """
        queries, *own = self._project(x, 0, 3 if memory is None else 1)  # each (…, heads, target, depth)
        keys, values = own if memory is None else memory
        heads = attend(queries, keys, values, self.dropout)  # (…, heads, target, depth)
        return self.output(heads.transpose(-3, -2).flatten(-2))

    def keys_values(self, encoded: Tensor) -> KeysValues:
        """Returns keys and values of the encoder's output (…, source, d_model), each (…, heads, source, depth)."""
        return KeysValues(*self._project(encoded, 1, 3))

    def _project(self, x: Tensor, start: int, stop: int) -> tuple[Tensor, ...]:
        """Returns (queries, keys, values)[start:stop] of x, each (…, heads, length, depth)."""
        projected = self.qkv(x, start, stop)
        parts = projected.unflatten(-1, (stop - start, self.num_heads, -1))  # (…, length, part, heads, depth)
        return tuple(part.transpose(-3, -2) for part in parts.unbind(-3))


@dataclass
class AttentionRecord:
    """The attention of one forward pass: three lists with one entry per layer."""

    encoder_self: list[RecordedAttention] = field(default_factory=list)
    decoder_self: list[RecordedAttention] = field(default_factory=list)
    cross: list[RecordedAttention] = field(default_factory=list)
