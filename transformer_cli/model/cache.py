"""Cached keys and values of decoding. Does not know layers, tokens or the search.

The decoder has one row for each hypothesis. The hypotheses of a sentence are neighbours: one in greedy search, up to
beam_size in beam search. For example, 2 sentences with beam_size 3, where the second has two hypotheses left:

    encoder side, one row per sentence        0 1
    decoder side, one row per hypothesis      0 1 2 | 3 4

The encoder's keys and values are not repeated for each hypothesis. Cross-attention treats the hypotheses of a sentence
as positions of one target: 2 sentences × 3 positions. There, the second sentence is padded with zeros.
"""

import torch
from torch import Tensor, nn

from transformer_cli.model.attention import AttentionFn, KeysValues, Recording, efficient_attention
from transformer_cli.model.layout import Layout, Padded


class Cache:
    """Keys and values of both sides in each layer of the decoder; made by `Transformer.init_cache`.

    It is also the layout (layout.py) of the newest tokens, which `advance` sets.
    """

    ids: Tensor  # (hypotheses, 1)
    positions: Tensor

    def __init__(self, memories: list[KeysValues], source: Padded) -> None:
        """memories: for each layer the keys and values of the encoder's output, (sentences, heads, source, depth)."""
        # Each head's keys and values are made contiguous once: they are read at every step.
        self.memories = [KeysValues(each.keys.contiguous(), each.values.contiguous()) for each in memories]
        self.source = source
        self.length = 0
        """the number of target positions, the newest token included"""
        self._past: list[KeysValues | None] = [None] * len(memories)  # (hypotheses, heads, length, depth)
        # The rows that `select` chose and `append` has not yet copied: it selects and appends in one copy.
        self._pending_order: list[Tensor | None] = [None] * len(memories)
        device = source.ids.device
        self._sentence_of_row = torch.arange(len(source.ids), device=device)  # (hypotheses,)
        self._beam_size = 1
        # (hypotheses,): each row's index within its sentence; None: all sentences have equally many rows
        self._column_of_row: Tensor | None = None

    def advance(self, tokens: Tensor) -> None:
        """Set the newest tokens, int64 (hypotheses,), which the decoder reads next."""
        self.ids, self.positions = tokens[:, None], torch.full_like(tokens[:, None], self.length)
        self.length += 1

    def self_attention_fn(self, record: Recording = None, *, is_causal: bool = False) -> AttentionFn:
        """Returns a function by which the newest position attends to all positions so far, for one layer per call.

        It needs no mask: no position is later, and a search never writes <pad>. Both arguments are ignored.
        """
        layers = iter(range(len(self.memories)))

        def attend(queries: Tensor, keys: Tensor, values: Tensor, dropout: nn.Dropout) -> Tensor:
            return efficient_attention(queries, *self.append(next(layers), keys, values), dropout)

        return attend

    def cross_attention_fn(self, source: Layout, record: Recording = None) -> AttentionFn:
        """Returns a function by which the newest position attends to the source, for one layer per call.

        record: as in `efficient_attention`, for the last layer only, (sentences, heads, beam, source).
        """
        assert source is self.source
        records = iter([*[None] * (len(self.memories) - 1), record])
        may_attend = self.source.is_token[:, None, None, :]

        def attend(queries: Tensor, keys: Tensor, values: Tensor, dropout: nn.Dropout) -> Tensor:
            queries = self.group_by_sentence(queries)
            heads = efficient_attention(queries, keys, values, dropout, may_attend=may_attend, record=next(records))
            return self.ungroup_by_sentence(heads)

        return attend

    def append(self, layer: int, keys: Tensor, values: Tensor) -> KeysValues:
        """Append keys and values of the newest position, (hypotheses, heads, 1, depth), in a layer, counted from 0.

        Returns those of all positions so far, (hypotheses, heads, length, depth).
        """
        past, order = self._past[layer], self._pending_order[layer]
        if past is not None:
            keys, values = _append_position(past.keys, order, keys), _append_position(past.values, order, values)
        so_far = self._past[layer] = KeysValues(keys, values)
        self._pending_order[layer] = None
        return so_far

    def select(self, hypotheses: Tensor) -> None:
        """Let the new row i continue the old row hypotheses[i], int64 (rows,). Sentences keep their order.

        Sentences without hypotheses are dropped. With beam_size 3, after the first step, [0, 0, 0, 1, 1] makes the rows
        of the example above. Then [2, 0, 0, 4] continues the first sentence's third hypothesis once and its first one
        twice; [3, 4] drops the first sentence.
        """
        sentences, self._sentence_of_row, counts = self._sentence_of_row[hypotheses].unique_consecutive(
            return_inverse=True, return_counts=True
        )
        if len(sentences) < len(self.source.ids):
            self.source = self.source.select(sentences)
            self.memories = [KeysValues(*(side.index_select(0, sentences) for side in each)) for each in self.memories]
        self._beam_size = int(counts.max())
        first = counts.cumsum(0) - counts
        column = torch.arange(len(hypotheses), device=hypotheses.device) - first[self._sentence_of_row]
        self._column_of_row = column if len(hypotheses) < len(sentences) * self._beam_size else None
        self._pending_order = [hypotheses if order is None else order[hypotheses] for order in self._pending_order]

    def group_by_sentence(self, queries: Tensor) -> Tensor:
        """(hypotheses, heads, 1, depth) → (sentences, heads, beam, depth), with zeros where there is no hypothesis."""
        if self._column_of_row is None:
            return queries.unflatten(0, (len(self.source.ids), -1)).squeeze(3).transpose(1, 2)
        _, n_heads, _, depth = queries.shape
        spread = queries.new_zeros(len(self.source.ids), self._beam_size, n_heads, depth)
        spread[self._sentence_of_row, self._column_of_row] = queries[:, :, 0]
        return spread.transpose(1, 2)

    def ungroup_by_sentence(self, found: Tensor) -> Tensor:
        """The inverse of `group_by_sentence`: (sentences, heads, beam, n) → (hypotheses, heads, 1, n)."""
        found = found.transpose(1, 2)
        rows = found.flatten(0, 1) if self._column_of_row is None else found[self._sentence_of_row, self._column_of_row]
        return rows[:, :, None]


def _append_position(past: Tensor, order: Tensor | None, new: Tensor) -> Tensor:
    """Returns rows `order` (None: all) of past (…, heads, length, depth) with the newest position appended."""
    if order is None or past.device.type != "cpu":
        kept = past if order is None else past.index_select(0, order)
        return torch.cat((kept, new), dim=2)
    length = past.shape[2]
    joined = past.new_empty(len(order), past.shape[1], length + 1, past.shape[3])
    torch.index_select(past, 0, order, out=joined[:, :, :length])
    joined[:, :, length:] = new
    return joined
