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

from transformer_cli.model.attention import AttentionFn, Recording, attention, masked_attention

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
        """Returns how tokens attend to the tokens of their own sentence.

        is_causal: later positions are masked (3.2.3). record: as in `attention`.
        """

    def cross_attention_fn(self, source: "Layout", record: Recording = None) -> AttentionFn:
        """Returns how tokens attend to those of source, a layout of the same class with the same sentences."""


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

    The example above, with GROUP_SIZE = 2, is `Packed(ids, is_token)` with ids and is_token (3, 5). It has
    ids         (10,): the ids of a a a b b c c c c c
    positions   (10,): 0 1 2 0 1 0 1 2 3 4
    masks       one bool (sentences, longest) per group, True where there is a token: (2, 3) and (1, 5)

    In bfloat16 on the CPU, oneDNN compiles and keeps a matrix product for each new shape: memory would grow by 40 MB
    per step. To have few shapes, unused tokens are added up to a multiple of 64, and groups are padded to a multiple
    of 8. With PAD_MULTIPLE = 4 and PAD_LENGTH_MULTIPLE = 4 the example has 12 tokens, and groups of (2, 4) and (1, 8).
    """

    def __init__(self, ids: Tensor, is_token: Tensor, device: torch.device) -> None:
        """ids int64 and is_token bool, both (batch, length), on any device; each row has at least one token.

        device: where the layout's own tensors will be.
        """
        size = GROUP_SIZE if device.type == "cpu" else max(GPU_GROUP_SIZE, math.ceil(len(ids) / MAX_GROUPS))
        pads_to_multiples = device.type == "cpu" and torch.is_autocast_enabled("cpu")
        n_tokens, length_multiple = int(is_token.sum()), PAD_LENGTH_MULTIPLE if pads_to_multiples else 1
        self.n_rows = math.ceil(n_tokens / PAD_MULTIPLE) * PAD_MULTIPLE if pads_to_multiples else n_tokens
        padding = (0, self.n_rows - n_tokens)
        self.ids = to_device(nn.functional.pad(ids[is_token], padding), device)
        self.positions = to_device(nn.functional.pad((is_token.cumsum(dim=1) - 1)[is_token], padding), device)
        lengths = is_token.sum(dim=1)  # 3 2 5
        first = lengths.cumsum(0) - lengths  # the first token of each sentence: 0 3 5
        masks, tokens = [], []
        for start in range(0, len(ids), size):
            group = slice(start, start + size)
            longest = math.ceil(int(lengths[group].max()) / length_multiple) * length_multiple
            columns = torch.arange(longest, device=ids.device)
            masks.append(columns < lengths[group, None])
            tokens.append((first[group, None] + columns).flatten())  # 0 1 2 3 4 5, and 5 6 7 8 9
        self.masks = [to_device(group, device) for group in masks]
        slot_mask = torch.cat([group.flatten() for group in masks])
        # The token in each slot: 0 1 2 3 4 0 5 6 7 8 9. A padding slot holds token 0: it is masked as a key, and
        # `unpad` drops its output.
        self._token_of_slot = to_device(torch.cat(tokens).masked_fill_(~slot_mask, 0), device)
        self._slot_of_token = to_device(slot_mask.nonzero()[:, 0], device)  # 0 1 2 3 4 6 7 8 9 10

    def pad(self, x: Tensor) -> list[Tensor]:
        """x (heads, tokens, depth) → one (sentences, heads, longest, depth) per group."""
        # (slots, heads, depth)
        slots = _Pad.apply(x.transpose(0, 1), self._token_of_slot, self._slot_of_token, self.n_rows)
        groups = slots.split([mask.numel() for mask in self.masks])
        return [group.unflatten(0, mask.shape).transpose(1, 2) for group, mask in zip(groups, self.masks, strict=True)]

    def unpad(self, groups: Sequence[Tensor]) -> Tensor:
        """The inverse of `pad`, (heads, tokens, depth); the contents of padding slots are dropped."""
        slots = torch.cat([group.transpose(1, 2).flatten(0, 1) for group in groups])  # (slots, heads, depth)
        return _Unpad.apply(slots, self._slot_of_token, self.n_rows).transpose(0, 1)

    def self_attention_fn(self, record: Recording = None, *, is_causal: bool = False) -> AttentionFn:
        """As in `Layout`, group by group: queries, keys, values and the result are (heads, tokens, depth)."""
        masks = [mask[:, None, None, :] for mask in self.masks]
        if is_causal:
            masks = [mask & causal_mask(mask.shape[-1], mask.device) for mask in masks]
        return self._attention_fn(self, masks, record)

    def cross_attention_fn(self, source: Layout, record: Recording = None) -> AttentionFn:
        """As in `Layout`, group by group: queries and the result are (heads, target tokens, depth)."""
        assert isinstance(source, Packed)
        return self._attention_fn(source, [mask[:, None, None, :] for mask in source.masks], record)

    def _attention_fn(self, source: "Packed", masks: list[Tensor], record: Recording) -> AttentionFn:
        def attend(queries: Tensor, keys: Tensor, values: Tensor, dropout: nn.Dropout) -> Tensor:
            outputs = []
            for q, k, v, mask in zip(self.pad(queries), source.pad(keys), source.pad(values), masks, strict=True):
                outputs.append(attention(q, k, v, dropout, may_attend=mask, record=record))
            return self.unpad(outputs)

        return attend


def causal_mask(length: int, device: torch.device) -> Tensor:
    """Returns a mask (length, length), True at [i, j] if j ≤ i: a position may not attend to later ones (3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor on a device, without waiting for a CUDA device to finish its work."""
    return tensor.to(device, non_blocking=device.type == "cuda")


class _Pad(torch.autograd.Function):
    """Tokens → slots. In the backward pass each token gets the gradient of its own slot.

    Padding slots hold token 0, too, but their gradient is zero, since no output depends on them. So it is faster than
    torch's backward pass, which would sum the gradients of all slots of a token.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, token_of_slot: Tensor, slot_of_token: Tensor, n_rows: int) -> Tensor:
        ctx.save_for_backward(slot_of_token)
        ctx.n_rows = n_rows
        return x.index_select(0, token_of_slot)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (slot_of_token,) = ctx.saved_tensors
        return _gather_rows(gradients[0], slot_of_token, ctx.n_rows), None, None, None


class _Unpad(torch.autograd.Function):
    """Slots → tokens. In the backward pass padding slots get zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slot_of_token: Tensor, n_rows: int) -> Tensor:
        ctx.save_for_backward(slot_of_token)
        ctx.shape = x.shape
        return _gather_rows(x, slot_of_token, n_rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slot_of_token,) = ctx.saved_tensors
        of_tokens = gradients[0][: len(slot_of_token)]
        return gradients[0].new_zeros(ctx.shape).index_copy_(0, slot_of_token, of_tokens), None, None


def _gather_rows(x: Tensor, rows: Tensor, n_rows: int) -> Tensor:
    """Returns rows of x, int64 (rows,), followed by zeros: (n_rows, …)."""
    found = x.index_select(0, rows)
    return found if len(rows) == n_rows else torch.cat((found, x.new_zeros(n_rows - len(rows), *x.shape[1:])))
