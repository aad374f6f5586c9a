"""Scaled dot-product and multi-head attention (Vaswani et al. 2017, section 3.2). Does not know tokens or decoding.

Masks are boolean: True where a target position may attend to a source position. Only model/ makes masks. The names of
dimensions are batch, heads, target (the positions of the queries), source (the positions of the keys and values; in
self-attention also those of the queries) and depth (the width of a head: d_k in the paper, head_dim in the config).
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transformer_cli.model.dropout import Dropout, replay_rng

RECOMPUTE_LENGTH = 128  # positions; the backward pass of longer sentences computes attention weights again


class RecordedAttention(NamedTuple):
    """The scores and weights of one call of `attention`."""

    scores: Tensor
    """QKᵀ/√d_k, -inf where a target position may not attend: (batch, heads, target, source)"""
    weights: Tensor
    """softmax of the scores, before dropout: (batch, heads, target, source)"""


Recording = list[RecordedAttention] | None
"""a list to which each call of `efficient_attention` appends its scores and weights; None: they are not recorded"""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout: nn.Dropout,
    *,
    may_attend: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, RecordedAttention]:
    """softmax(QKᵀ/√d_k)·V (eq. 1): the mean of the values, weighted by how well their keys match the query.

    query (batch, heads, target, depth); key, value (batch, heads, source, depth). may_attend bool, broadcast to
    (batch, heads, target, source), at least one True in each row (else softmax is NaN); None: all may. bias: added to
    the scores, broadcast like may_attend. dropout acts on the weights.
    Returns (batch, heads, target, depth), with the scores and weights.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (batch, heads, target, source)
    if bias is not None:
        scores = scores + bias
    if may_attend is not None:
        scores = scores.masked_fill_(~may_attend, float("-inf"))
    weights = scores.softmax(dim=-1)  # (batch, heads, target, source): each row sums to 1
    return dropout(weights) @ value, RecordedAttention(scores, weights)


def efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout: nn.Dropout,
    *,
    may_attend: Tensor | None = None,
    bias: Tensor | None = None,
    record: Recording = None,
) -> Tensor:
    """The output of `attention`, computed as suits the device and the lengths; the arguments are the same.

    A GPU uses torch's fused kernels, unless the weights are recorded; on CPUs these are slower for short sentences.
    """
    if record is None and query.device.type != "cpu":
        mask = may_attend if bias is None or may_attend is None else bias.masked_fill(~may_attend, float("-inf"))
        p = dropout.p if dropout.training else 0.0
        return nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias if mask is None else mask, dropout_p=p
        )
    compute = partial(attention, may_attend=may_attend, bias=bias)
    if record is None and torch.is_grad_enabled() and query.shape[-2] * key.shape[-2] > RECOMPUTE_LENGTH**2:
        # Scores and weights grow with the square of the length: the backward pass computes them again, from the same
        # random state.
        def output(*inputs: Any) -> Tensor:
            return compute(*inputs)[0]

        replay = replay_rng()
        return checkpoint(
            output, *(query, key, value, dropout), use_reentrant=False, context_fn=lambda: (nullcontext(), replay())
        )
    found, recorded = compute(query, key, value, dropout)
    if record is not None:
        record.append(recorded)
    return found


AttentionFn = Callable[[Tensor, Tensor, Tensor, nn.Dropout], Tensor]
"""(queries, keys, values, dropout) → the output of each head, shaped like the queries.

Each layout has its own: for padded rows (`masked_attention`), for tokens without padding (layout.py), and for the
newest token, with the keys and values of earlier steps (cache.py)."""


def masked_attention(may_attend: Tensor, record: Recording = None) -> AttentionFn:
    """Returns `efficient_attention` with this mask and this record."""
    return partial(efficient_attention, may_attend=may_attend, record=record)


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

    def __init__(self, d_model: int, num_heads: int, head_dim: int, *, qkv_bias: bool, dropout: float) -> None:
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
