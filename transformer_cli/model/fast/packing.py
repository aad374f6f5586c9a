"""Sentences in one row: what works token by token computes no padding. The fast form of training on the CPU.

Three sentences of 3, 2 and 5 tokens are (10, d_model) here, not (3, 5, d_model). Only attention needs them side by
side: it pads them in groups of similar length and takes the padding out again. Values and gradients are those of the
plain form, `loss.token_losses`, but for rounding: tests/parity/test_fast_forms.py.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from transformer_cli.model.attention import Attend, KeysValues
from transformer_cli.model.fast.fused_loss import projected_losses
from transformer_cli.model.loss import TokenLosses
from transformer_cli.model.transformer import Transformer, look_ahead_mask

GROUP = 16  # sentences that attention pads together: fewer compute less padding, but in smaller products


def packed_token_losses(
    model: Transformer, source: Tensor, target: Tensor, *, label_smoothing: float = 0.0
) -> TokenLosses:
    """As `loss.token_losses`; fastest where sentences of similar length stand beside each other in the batch."""
    labels = target[:, 1:]
    read = Row(target[:, :-1], labels != model.pad_id)
    asked = Row(source, source != model.pad_id)
    x = model.source_embedding(asked.ids, asked.positions)
    memory = model.encoder(x, Groups(asked, asked))
    x = model.target_embedding(read.ids, read.positions)
    hidden = model.decoder(x, Groups(read, read, look_ahead=True), memory, Groups(read, asked))
    return projected_losses(hidden, model.output, labels[labels != model.pad_id], label_smoothing=label_smoothing)


class Row:
    """One side of a batch: the tokens of all sentences one after another, and where they stand when padded in groups.

    ids, positions: int64 (tokens,). real: of each group, bool (sentences, longest), True where there is a token.
    """

    def __init__(self, ids: Tensor, real: Tensor) -> None:
        """ids int64 and real bool, both (batch, length); padding stands at the end."""
        self.ids = ids[real]
        self.positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)[real]
        numbers = (real.flatten().cumsum(0) - 1).view_as(real)  # of each token in the row
        self.real: list[Tensor] = []
        padded = []
        for first in range(0, len(ids), GROUP):
            group = real[first : first + GROUP]
            longest = int(group.sum(dim=1).max())
            self.real.append(group[:, :longest])
            padded.append(numbers[first : first + GROUP, :longest].flatten())
        is_token = torch.cat([group.flatten() for group in self.real])
        self._tokens = torch.cat(padded).masked_fill_(~is_token, 0)  # of each slot; a padded one holds any
        self._slots = is_token.nonzero()[:, 0]  # of each token

    def pad(self, x: Tensor) -> list[Tensor]:
        """x (heads, tokens, depth) → of each group (sentences, heads, longest, depth)."""
        slots = _Pad.apply(x.transpose(0, 1), self._tokens, self._slots)
        groups = slots.split([group.numel() for group in self.real])
        return [group.unflatten(0, real.shape).transpose(1, 2) for group, real in zip(groups, self.real, strict=True)]

    def unpad(self, groups: Sequence[Tensor]) -> Tensor:
        """The inverse of `pad`; what stands in padded slots is dropped."""
        slots = torch.cat([group.transpose(1, 2).flatten(0, 1) for group in groups])
        return _Unpad.apply(slots, self._slots).transpose(0, 1)


class Groups:
    """Which tokens of one row may attend to which of another: the masks of attention, group by group."""

    def __init__(self, target: Row, source: Row, *, look_ahead: bool = False) -> None:
        """Both rows are of the same sentences. look_ahead: only to those that are not later."""
        self.target, self.source = target, source
        self.may_attend = [real[:, None, None, :] for real in source.real]  # (sentences, 1, 1, source)
        if look_ahead:
            self.may_attend = [mask & look_ahead_mask(mask.shape[-1], mask.device) for mask in self.may_attend]

    def attend(self, query: Tensor, source: KeysValues, attend: Attend) -> Tensor:
        """query (heads, target tokens, depth), keys and values (heads, source tokens, depth) → as query."""
        padded = zip(self.target.pad(query), self.source.pad(source.keys), self.source.pad(source.values), strict=True)
        return self.target.unpad(
            [
                attend(queries, KeysValues(keys, values), mask)
                for (queries, keys, values), mask in zip(padded, self.may_attend, strict=True)
            ]
        )


class _Pad(torch.autograd.Function):
    """Tokens → slots. Backwards each token's gradient is taken from its slot: faster than adding up by index."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tokens: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        return x.index_select(0, tokens)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slots,) = ctx.saved_tensors
        return gradients[0].index_select(0, slots), None, None


class _Unpad(torch.autograd.Function):
    """Slots → tokens. Backwards the padded slots get zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.shape = x.shape
        return x.index_select(0, slots)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (slots,) = ctx.saved_tensors
        return gradients[0].new_zeros(ctx.shape).index_copy_(0, slots, gradients[0]), None
