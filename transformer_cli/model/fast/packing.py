"""The loss of a batch without its padding: the tokens of all sentences form one sequence, and only attention pads them.

The fast form of `loss.token_losses`. Where the plain form computes (batch, length, d_model), this one computes (tokens,
d_model). Attention needs sentences side by side: it pads them in groups of neighbours, which are of similar length if
the caller has sorted the batch, and removes the padding again. What says where a token stands is computed on the CPU
and then moved, so that no other device is waited for. Knows nothing of layers. Without dropout, values and gradients
are those of the plain form but for rounding (tests/parity/test_fast_forms.py); with it, the two draw other numbers.

An example with GROUP = 2: three sentences of 3, 2 and 5 tokens, a a a | b b | c c c c c.

    tokens   0 1 2 3 4 5 6 7 8 9          10 rows of x, in place of the 15 of a padded batch
             a a a b b c c c c c
    groups   a a a     c c c c c          padded each to its own longest sentence
             b b .
    slots    0 1 2 3 4 5 6 7 8 9 10       all groups, one after another: 11 slots, of which slot 5 is padding
             a a a b b . c c c c c
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from transformer_cli.model.attention import Attend, attention
from transformer_cli.model.fast.fused_loss import projected_losses
from transformer_cli.model.loss import TokenLosses
from transformer_cli.model.transformer import Transformer, look_ahead_mask

GROUP = 16  # sentences padded together: smaller groups waste less on padding, but make smaller products
LARGE_GROUP, MOST_GROUPS = 64, 16  # other devices than the CPU want few large products


def packed_token_losses(
    model: Transformer, source: Tensor, target: Tensor, *, label_smoothing: float = 0.0
) -> TokenLosses:
    """As `loss.token_losses`; fastest where sentences of similar length are neighbours in the batch.

    source int64 (batch, source), target int64 (batch, target): each row from <sos> to <eos>, then padding. Both may be
    on the CPU, wherever the model is.
    """
    source = source[:, model.source_embedding.first :]
    labels = target[:, 1:]
    mask = labels != model.pad_id
    device = model.output.weight.device
    encoder_input = Packed(source, source != model.pad_id, device)
    decoder_input = Packed(target[:, :-1], mask, device)  # what has a next token: all but <eos>
    gold = _moved(labels[mask], device)
    x = model.source_embedding(encoder_input.ids, encoder_input.positions)  # (source tokens, d_model)
    encoded = model.encoder(x, in_groups(encoder_input, encoder_input))
    x = model.target_embedding(decoder_input.ids, decoder_input.positions)  # (target tokens, d_model)
    attend_to_target = in_groups(decoder_input, decoder_input, look_ahead=True)
    attend_to_source = in_groups(decoder_input, encoder_input)
    hidden = model.decoder(x, model.decoder.keys_values(encoded), attend_to_target, attend_to_source)
    return projected_losses(hidden, model.output, gold, label_smoothing=label_smoothing)


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Returns a tensor on a device, without waiting for what a CUDA device has yet to compute."""
    return tensor.to(device, non_blocking=device.type == "cuda")


class Packed:
    """One side of a batch: the tokens of all sentences one after another, and their places in padded groups.

    The example above, with GROUP = 2, is `Packed(ids, mask)` of ids and mask (3, 5). It has
    ids         (10,): the ids of a a a b b c c c c c
    positions   (10,): 0 1 2 0 1 0 1 2 3 4
    masks       one bool (sentences, longest) per group, True where there is a token: (2, 3) and (1, 5)
    """

    def __init__(self, ids: Tensor, mask: Tensor, device: torch.device) -> None:
        """ids int64 and mask bool, both (batch, length); each sentence has a token, and padding is at the end.

        device: where all of it is wanted.
        """
        size = GROUP if device.type == "cpu" else max(LARGE_GROUP, math.ceil(len(ids) / MOST_GROUPS))
        self.ids = _moved(ids[mask], device)
        self.positions = _moved(torch.arange(ids.shape[1], device=ids.device).expand_as(ids)[mask], device)
        tokens = (mask.flatten().cumsum(0) - 1).view_as(mask)  # [[0 1 2 . .], [3 4 . . .], [5 6 7 8 9]]; dots: junk
        masks, padded = [], []
        for first in range(0, len(ids), size):
            group = mask[first : first + size]
            longest = int(group.sum(dim=1).max())
            masks.append(group[:, :longest])
            padded.append(tokens[first : first + size, :longest].flatten())
        self.masks = [_moved(group, device) for group in masks]
        slot_mask = torch.cat([group.flatten() for group in masks])
        # The token in each slot: 0 1 2 3 4 0 5 6 7 8 9. A padding slot holds any token (here 0): as a key it is masked,
        # and what it computes as a query is dropped by `unpad`.
        self._token_of_slot = _moved(torch.cat(padded).masked_fill_(~slot_mask, 0), device)
        self._slot_of_token = _moved(slot_mask.nonzero()[:, 0], device)  # 0 1 2 3 4 6 7 8 9 10

    def pad(self, x: Tensor) -> list[Tensor]:
        """x (heads, tokens, depth) → one (sentences, heads, longest, depth) per group."""
        slots = _Pad.apply(x.transpose(0, 1), self._token_of_slot, self._slot_of_token)  # (slots, heads, depth)
        groups = slots.split([mask.numel() for mask in self.masks])
        return [group.unflatten(0, mask.shape).transpose(1, 2) for group, mask in zip(groups, self.masks, strict=True)]

    def unpad(self, groups: Sequence[Tensor]) -> Tensor:
        """The inverse of `pad`, (heads, tokens, depth); the contents of padding slots are dropped."""
        slots = torch.cat([group.transpose(1, 2).flatten(0, 1) for group in groups])  # (slots, heads, depth)
        return _Unpad.apply(slots, self._slot_of_token).transpose(0, 1)


def in_groups(target: Packed, source: Packed, *, look_ahead: bool = False) -> Attend:
    """Returns attention from one packed side of a batch to another, or to itself, group by group.

    Sentence i of both is one pair. look_ahead: mask later positions; target and source are then the same.

    Queries are (heads, target tokens, depth), and so is the result; keys and values (heads, source tokens, depth).
    """
    masks = [mask[:, None, None, :] for mask in source.masks]  # (sentences, 1, 1, source)
    if look_ahead:
        masks = [mask & look_ahead_mask(mask.shape[-1], mask.device) for mask in masks]

    def attend(queries: Tensor, keys: Tensor, values: Tensor, dropout: nn.Dropout) -> Tensor:
        found = []
        for q, k, v, mask in zip(target.pad(queries), source.pad(keys), source.pad(values), masks, strict=True):
            found.append(attention(q, k, v, dropout, may_attend=mask))
        return target.unpad(found)

    return attend


class _Pad(torch.autograd.Function):
    """Tokens → slots. Backwards, each token takes the gradient of its own slot alone.

    That is all of it, although token 0 is copied into padding slots too: nothing that comes out depends on those, so
    their gradient is zero. Adding up by index, as torch would, takes longer.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, token_of_slot: Tensor, slot_of_token: Tensor) -> Tensor:
        ctx.save_for_backward(slot_of_token)
        return x.index_select(0, token_of_slot)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slot_of_token,) = ctx.saved_tensors
        return gradients[0].index_select(0, slot_of_token), None, None


class _Unpad(torch.autograd.Function):
    """Slots → tokens. Backwards, padding slots get zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slot_of_token: Tensor) -> Tensor:
        ctx.save_for_backward(slot_of_token)
        ctx.shape = x.shape
        return x.index_select(0, slot_of_token)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (slot_of_token,) = ctx.saved_tensors
        return gradients[0].new_zeros(ctx.shape).index_copy_(0, slot_of_token, gradients[0]), None
