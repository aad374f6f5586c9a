"""How a batch's tokens are arranged in tensors: their positions, and how they attend to one another.

A layout is one side of a batch, source or target. `Padded` is (batch, length), each row padded at its end. `Packed` has
no padding: one sequence of the tokens of all sentences, (tokens,). Only attention pads them, in groups of neighbouring
sentences, and removes the padding again; a batch sorted by length needs little. Indices are computed on the CPU and
then moved, so that nothing waits for the GPU. Does not know layers. Without dropout both layouts give the same values
and gradients up to rounding (tests/parity/test_layouts.py); with dropout they draw different masks.

An example with GROUP_SIZE = 2: three sentences of 3, 2 and 5 tokens, a a a | b b | c c c c c.

    tokens   0 1 2 3 4 5 6 7 8 9          10 rows of x instead of the 15 of a padded batch
             a a a b b c c c c c
    groups   a a a     c c c c c          each is padded to its longest sentence
             b b .
    slots    0 1 2 3 4 5 6 7 8 9 10       all groups, one after another: 11 slots; slot 5 is padding
             a a a b b . c c c c c
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from transformer_cli.model.attention import AttentionFn, Recording, efficient_attention, masked_attention

GROUP_SIZE = 16  # sentences padded together: smaller groups have less padding, but smaller matrix products
GPU_GROUP_SIZE, MAX_GROUPS = 64, 16  # GPUs are faster with few large products
PAD_MULTIPLE, PAD_LENGTH_MULTIPLE = 64, 8  # of tokens and of a group's length, in bfloat16 on the CPU


class Layout(Protocol):
    """One side of a batch."""

    ids: Tensor
    """int64 (…, length)"""
    positions: Tensor
    """int64, shaped like ids: each token's position in its sentence, from 0"""

    def self_attention_fn(self, record: Recording = None, *, is_causal: bool = False) -> AttentionFn:
        """Returns the function with which tokens attend to the tokens of their own sentence.

        is_causal: later positions are masked (3.2.3). record: as in `efficient_attention`.
        """

    def cross_attention_fn(self, source: "Layout", record: Recording = None) -> AttentionFn:
        """Returns the function with which tokens attend to source: the same class and sentences, the other language."""


class Padded:
    """Rows of equal length, padded at the end."""

    def __init__(self, ids: Tensor, is_token: Tensor) -> None:
        """ids int64 and is_token bool, both (batch, length); each row has at least one token."""
        self.ids = ids
        self.is_token = is_token
        self.positions = (is_token.cumsum(dim=1) - 1).clamp_(min=0)  # the positions of padding are never used

    def self_attention_fn(self, record: Recording = None, *, is_causal: bool = False) -> AttentionFn:
        """As in `Layout`."""
        may_attend = self.is_token[:, None, None, :]  # (batch, 1, 1, length)
        if is_causal:
            # Padding is at the end, so the causal mask hides it from all tokens. The padding mask matters only for the
            # rows of padding: no loss reads them, but a record shows them.
            may_attend = may_attend & causal_mask(may_attend.shape[-1], may_attend.device)
        return masked_attention(may_attend, record)

    def cross_attention_fn(self, source: Layout, record: Recording = None) -> AttentionFn:
        """As in `Layout`."""
        assert isinstance(source, Padded)
        return masked_attention(source.is_token[:, None, None, :], record)

    def select(self, rows: Tensor) -> "Padded":
        """Returns the layout of some rows, int64 (rows,)."""
        return Padded(self.ids.index_select(0, rows), self.is_token.index_select(0, rows))


class Packed:
    """The tokens of all sentences one after another, and their slots in padded groups.

    The example above, with GROUP_SIZE = 2, is `Packed(ids, is_token, …)` with ids and is_token (3, 5). It has
    ids         (10,): the ids of a a a b b c c c c c
    positions   (10,): 0 1 2 0 1 0 1 2 3 4
    masks       one bool (sentences, longest) per group, True where there is a token: (2, 3) and (1, 5)

    A token has a vector for each head: with two heads, the vectors 2·t and 2·t + 1 are those of token t, and the first
    group has 12 slots, by sentence, head and position. They hold, with a vector of zeros behind the last token for .,
        0 2 4 | 1 3 5 | 6 8 . | 7 9 .

    In bfloat16 on the CPU, oneDNN compiles and keeps a matrix product for each new shape: memory would grow by 40 MB
    per step. To have few shapes, unused tokens are added up to a multiple of 64, and groups are padded to a multiple
    of 8. With PAD_MULTIPLE = 4 and PAD_LENGTH_MULTIPLE = 4 the example has 12 tokens, and groups of (2, 4) and (1, 8).
    """

    def __init__(self, ids: Tensor, is_token: Tensor, num_heads: int, device: torch.device) -> None:
        """ids int64 and is_token bool, both (batch, length), on any device; each row has at least one token.

        num_heads: of all attention. device: where the layout's own tensors will be.
        """
        size = GROUP_SIZE if device.type == "cpu" else max(GPU_GROUP_SIZE, math.ceil(len(ids) / MAX_GROUPS))
        pads_to_multiples = device.type == "cpu" and torch.is_autocast_enabled("cpu")
        n_tokens, length_multiple = int(is_token.sum()), PAD_LENGTH_MULTIPLE if pads_to_multiples else 1
        n_rows = math.ceil(n_tokens / PAD_MULTIPLE) * PAD_MULTIPLE if pads_to_multiples else n_tokens
        lengths = is_token.sum(dim=1)  # 3 2 5
        first = lengths.cumsum(0) - lengths  # the first token of each sentence: 0 3 5
        heads = torch.arange(num_heads, device=ids.device)
        masks, vectors = [], []
        for start in range(0, len(ids), size):
            group = slice(start, start + size)
            longest = math.ceil(int(lengths[group].max()) / length_multiple) * length_multiple
            columns = torch.arange(longest, device=ids.device)
            masks.append(columns < lengths[group, None])
            # 0 1 2 3 4 10, and 5 6 7 8 9: a padding slot holds the token behind the last one, whose vector is zero
            tokens = (first[group, None] + columns).masked_fill(~masks[-1], n_rows)
            vectors.append(tokens[:, None] * num_heads + heads[:, None])  # (sentences, heads, longest)
        vector_of_slot = torch.cat([each.flatten() for each in vectors])
        # The inverse. A token without a slot, which bfloat16 adds, reads zeros behind the last slot.
        slot_of_vector = vector_of_slot.new_full(((n_rows + 1) * num_heads,), len(vector_of_slot))
        slot_of_vector[vector_of_slot] = torch.arange(len(vector_of_slot), device=ids.device)
        padding = (0, n_rows - n_tokens)
        tensors = [
            nn.functional.pad(ids[is_token], padding),
            nn.functional.pad((is_token.cumsum(dim=1) - 1)[is_token], padding),
            slot_of_vector[: n_rows * num_heads].view(n_rows, num_heads),
            *masks,
            *vectors,
        ]
        self.ids, self.positions, self._slot_of_vector, *groups = move_together(tensors, device)
        self.masks, self._vector_of_slot = groups[: len(masks)], groups[len(masks) :]

    def pad(self, x: Tensor) -> Sequence[Tensor]:
        """x (heads, tokens, depth) → one (sentences, heads, longest, depth) per group, zero in padding slots."""
        found: tuple[Tensor, ...] = _Pad.apply(x, self)
        return found

    def unpad(self, groups: Sequence[Tensor]) -> Tensor:
        """The inverse of `pad`, (heads, tokens, depth); the contents of padding slots are dropped."""
        return _Unpad.apply(self, *groups)

    def gather_slots(self, x: Tensor) -> tuple[Tensor, ...]:
        """`pad`, without a gradient."""
        vectors = torch.cat((x.transpose(0, 1), x.new_zeros(1, len(x), x.shape[2]))).flatten(0, 1)
        return tuple(vectors.index_select(0, rows.flatten()).unflatten(0, rows.shape) for rows in self._vector_of_slot)

    def gather_tokens(self, groups: Sequence[Tensor]) -> Tensor:
        """`unpad`, without a gradient."""
        depth = groups[0].shape[-1]
        slots = torch.cat([*(group.reshape(-1, depth) for group in groups), groups[0].new_zeros(1, depth)])
        rows = self._slot_of_vector
        return slots.index_select(0, rows.flatten()).unflatten(0, rows.shape).transpose(0, 1)

    def self_attention_fn(self, record: Recording = None, *, is_causal: bool = False) -> AttentionFn:
        """As in `Layout`. Queries, keys, values and the result are (heads, tokens, depth), padded in groups inside."""
        masks = [mask[:, None, None, :] for mask in self.masks]
        if is_causal:  # hides the padding, too: it is at the end
            masks = [causal_mask(mask.shape[-1], mask.device) for mask in masks]
        return self._attention_fn(self, masks, record)

    def cross_attention_fn(self, source: Layout, record: Recording = None) -> AttentionFn:
        """As in `self_attention_fn`, but queries and the result are (heads, target tokens, depth)."""
        assert isinstance(source, Packed)
        return self._attention_fn(source, [mask[:, None, None, :] for mask in source.masks], record)

    def _attention_fn(self, source: "Packed", masks: list[Tensor], record: Recording) -> AttentionFn:
        def attend(queries: Tensor, keys: Tensor, values: Tensor, dropout: nn.Dropout) -> Tensor:
            outputs = []
            for q, k, v, mask in zip(self.pad(queries), source.pad(keys), source.pad(values), masks, strict=True):
                outputs.append(efficient_attention(q, k, v, dropout, may_attend=mask, record=record))
            return self.unpad(outputs)

        return attend


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Returns a mask (length, length), True at [i, j] if j ≤ i: a position may not attend to later ones (3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor on a device. Copies to a CUDA device begin in pinned memory, so that nothing waits for them."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def move_together(tensors: Sequence[Tensor], device: torch.device) -> Sequence[Tensor]:
    """Returns tensors of integers or bools on a device, moved there in one copy."""
    if tensors[0].device == device:
        return tensors
    moved = to_device(torch.cat([each.flatten() for each in tensors]), device).split([each.numel() for each in tensors])
    return [each.view(like.shape).to(like.dtype) for each, like in zip(moved, tensors, strict=True)]


class _Pad(torch.autograd.Function):
    """`Packed.pad`. Padding slots hold zeros that do not depend on x, so its transpose is `unpad`, and vice versa.

    With autograd's own gradients of the gathers instead, 35 lines less, a step takes 1.10 to 1.17 times as long.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: Packed) -> tuple[Tensor, ...]:
        ctx.layout = layout
        return layout.gather_slots(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.layout.gather_tokens(gradients), None


class _Unpad(torch.autograd.Function):
    """`Packed.unpad`."""

    @staticmethod
    def forward(ctx: Any, layout: Packed, *groups: Tensor) -> Tensor:
        ctx.layout = layout
        return layout.gather_tokens(groups)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.layout.gather_slots(gradients[0])
