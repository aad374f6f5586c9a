"""Scaled dot-product and multi-head attention (Vaswani et al. 2017, section 3.2). Knows no tokens and no decoding.

Masks are boolean, one entry for each pair of a target and a source position: True = may attend. The code in model/
makes them; whoever uses a model never does. Names of shapes: batch; heads; target, the positions that queries come
from; source, those that keys and values come from (in self-attention, both are positions of one sentence); depth, the
width of a head, which is d_k in the paper and head_dim in the config.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from transformer_cli.model.dropout import Dropout, replay_rng

RECOMPUTE_LENGTH = 128  # positions: of longer sentences, training keeps no weights of attention for the way back


class RecordedAttention(NamedTuple):
    """The scores and weights of one call of `attention`, kept only on request."""

    scores: Tensor
    """QKᵀ/√d_k, -inf where a target position may not attend: (batch, heads, target, source)"""
    weights: Tensor
    """softmax of the scores, before dropout: (batch, heads, target, source)"""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout: nn.Dropout,
    *,
    may_attend: Tensor | None = None,
    record: list[RecordedAttention] | None = None,
) -> Tensor:
    """softmax(QKᵀ/√d_k)·V (eq. 1): the mean of the values, weighted by how well their keys match the query.

    query (batch, heads, target, depth); key, value (batch, heads, source, depth); may_attend bool, broadcast to
    (batch, heads, target, source), at least one True in each row (softmax of none is NaN); None: everything. dropout
    acts on the weights.
    record: a list; the call appends its scores and weights. Returns (batch, heads, target, depth).
    """
    if record is None and query.device.type != "cpu":  # torch's kernel keeps no weights; slower on CPUs if n is small
        share = dropout.p if dropout.training else 0.0
        return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=may_attend, dropout_p=share)
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
    """Scores and weights of long sentences, which grow with the square of the length, are computed again backwards.

    Until then only what is linear in the length is kept. The mask of dropout is drawn again from the same state.
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
            found = attention(query, key, value, ctx.dropout, may_attend=may_attend, record=[])  # which keeps all
        return *torch.autograd.grad(found, inputs, gradients), None, None


AttentionFn = Callable[[Tensor, Tensor, Tensor, nn.Dropout], Tensor]
"""How queries attend: queries, keys and values of all heads, and the dropout of weights → what each head finds, shaped
like the queries. Layouts make it: by a mask over padded rows (`masked_attention`), without padding (layout.py), or with
the keys and values of earlier steps (cache.py)."""


def masked_attention(may_attend: Tensor, record: list[RecordedAttention] | None = None) -> AttentionFn:
    """Returns `attention` with this mask and this record."""
    return partial(attention, may_attend=may_attend, record=record)


class KeysValues(NamedTuple):
    """What is attended to, split in heads: keys and values, both (…, heads, source, depth)."""

    keys: Tensor
    values: Tensor


class QKVProjection(nn.Linear):
    """The rows of W_Q, W_K and W_V, of all heads, in one matrix: self-attention needs one product (3.2.2)."""

    def forward(self, x: Tensor, start: int = 0, stop: int = 3) -> Tensor:
        """Parts start … stop-1 of (queries, keys, values) of x (…, length, d_model), side by side: (…, length, n)."""
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
        self.inner_dim = num_heads * head_dim  # all heads side by side
        self.qkv = QKVProjection(d_model, 3 * self.inner_dim, bias=qkv_bias)
        self.output = nn.Linear(self.inner_dim, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, memory: KeysValues | None, attend: AttentionFn) -> Tensor:
        """Let each position of x (…, target, d_model) attend to x itself (None), or to a memory.

        memory: what `keys_values` returned, each (…, heads, source, depth). Returns a tensor shaped like x.
        """
        queries, *own = self._project(x, 0, 3 if memory is None else 1)  # each (…, heads, target, depth)
        keys, values = own if memory is None else memory
        heads = attend(queries, keys, values, self.dropout)  # (…, heads, target, depth)
        return self.output(heads.transpose(-3, -2).flatten(-2))

    def keys_values(self, encoded: Tensor) -> KeysValues:
        """The encoder's output (…, source, d_model) → keys and values, each (…, heads, source, depth)."""
        return KeysValues(*self._project(encoded, 1, 3))

    def _project(self, x: Tensor, start: int, stop: int) -> tuple[Tensor, ...]:
        """Parts start … stop-1 of (queries, keys, values) of x (…, length, d_model), each (…, heads, length, depth)."""
        projected = self.qkv(x, start, stop)
        parts = projected.unflatten(-1, (stop - start, self.num_heads, -1))  # (…, length, part, heads, depth)
        return tuple(part.transpose(-3, -2) for part in parts.unbind(-3))


@dataclass
class AttentionRecord:
    """All attention of one pass of the model: a list for each of its three uses, with one entry per layer."""

    encoder_self: list[RecordedAttention] = field(default_factory=list)
    decoder_self: list[RecordedAttention] = field(default_factory=list)
    cross: list[RecordedAttention] = field(default_factory=list)
