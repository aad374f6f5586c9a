"""Keys and values that decoding need not compute twice. Knows no layers, no tokens and no search.

Decoding has one row for each hypothesis, and each hypothesis belongs to a sentence. The hypotheses of a sentence are
neighbours: one in greedy search, up to `beam` in beam search. For example, a batch of 2 sentences with beam 3, where
the second sentence has two hypotheses left, has these rows:

    encoder side, one row per sentence        0 1
    decoder side, one row per hypothesis      0 1 2 | 3 4

The encoder side is not repeated for each hypothesis: it has the keys and values of 2 sentences, and attention reads
them once for 3 hypotheses, as if these were 3 positions of one target. There, and nowhere else, the second sentence has
a third row, of zeros.
"""

import torch
from torch import Tensor, nn

from transformer_cli.model.attention import AttentionFn, KeysValues, RecordedAttention, attention
from transformer_cli.model.layout import Layout, Padded


class Cache:
    """Keys and values of both sides in each layer of the decoder; `Transformer.init_cache` makes them.

    It is also the layout (layout.py) of the newest token of each hypothesis, which `advance` sets.
    """

    ids: Tensor  # (hypotheses, 1)
    positions: Tensor

    def __init__(self, memories: list[KeysValues], source: Padded) -> None:
        """memories: for each layer, keys and values of the encoder's output, (sentences, heads, source, depth)."""
        # Each head's keys and values are made contiguous once: they are read at every step.
        self.memories = [KeysValues(each.keys.contiguous(), each.values.contiguous()) for each in memories]
        self.source = source
        self.length = 0
        """how many target positions are cached, or about to be: that of the newest tokens is the last of them"""
        self._past: list[KeysValues | None] = [None] * len(memories)  # (hypotheses, heads, length, depth)
        # Which rows of a layer's past go on, in which order, if that is not done yet. It is done together with the
        # next `append`: one copy instead of two.
        self._pending_order: list[Tensor | None] = [None] * len(memories)
        device = source.ids.device
        self._sentence_of_row = torch.arange(len(source.ids), device=device)  # (hypotheses,): its encoder side
        self._beam_size = 1
        # (hypotheses,): which of its sentence's hypotheses a row is; None: all sentences have equally many
        self._column_of_row: Tensor | None = None

    def advance(self, tokens: Tensor) -> None:
        """Let these be the newest tokens, int64 (hypotheses,), of which the decoder is to compute one layer after
        another."""
        self.ids, self.positions = tokens[:, None], torch.full_like(tokens[:, None], self.length)
        self.length += 1

    def self_attention_fn(
        self, record: list[RecordedAttention] | None = None, *, is_causal: bool = False
    ) -> AttentionFn:
        """How the newest position attends to itself and to those before it. Each call is the next layer's.

        No mask is needed: nothing comes later, and none of them is <pad>, which a search never writes. Not recorded.
        """
        layers = iter(range(len(self.memories)))

        def attend(queries: Tensor, keys: Tensor, values: Tensor, dropout: nn.Dropout) -> Tensor:
            return attention(queries, *self.append(next(layers), keys, values), dropout)

        return attend

    def cross_attention_fn(self, source: Layout, record: list[RecordedAttention] | None = None) -> AttentionFn:
        """How the newest position attends to the source. Each call is the next layer's.

        record: as in `attention`, of the last layer alone, (sentences, heads, beam, source).
        """
        assert source is self.source
        records = iter([*[None] * (len(self.memories) - 1), record])
        may_attend = self.source.is_token[:, None, None, :]

        def attend(queries: Tensor, keys: Tensor, values: Tensor, dropout: nn.Dropout) -> Tensor:
            queries = self.group_by_sentence(queries)
            heads = attention(queries, keys, values, dropout, may_attend=may_attend, record=next(records))
            return self.ungroup_by_sentence(heads)

        return attend

    def append(self, layer: int, keys: Tensor, values: Tensor) -> KeysValues:
        """Add keys and values of the newest position, (hypotheses, heads, 1, depth), to a layer, counted from 0.

        Returns the keys and values of all positions so far, (hypotheses, heads, length, depth).
        """
        past, order = self._past[layer], self._pending_order[layer]
        if past is not None:
            keys, values = _append_position(past.keys, order, keys), _append_position(past.values, order, values)
        so_far = self._past[layer] = KeysValues(keys, values)
        self._pending_order[layer] = None
        return so_far

    def select(self, hypotheses: Tensor) -> None:
        """Let row i continue what is now row hypotheses[i], int64 (rows,). Sentences stay in their order.

        On the encoder side nothing changes, but that sentences without hypotheses are dropped. With beam 3, after the
        first step, [0, 0, 0, 1, 1] makes the rows of the example above. Later, in [2, 0, 0, 4], the first sentence
        continues its third hypothesis once and its first one twice; [3, 4] drops the first sentence.
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
        """The queries of a sentence's hypotheses as positions of one target.

        (hypotheses, heads, 1, depth) → (sentences, heads, beam, depth), with zeros where there is no hypothesis.
        """
        if self._column_of_row is None:
            return queries.unflatten(0, (len(self.source.ids), -1)).squeeze(3).transpose(1, 2)
        _, n_heads, _, depth = queries.shape
        spread = queries.new_zeros(len(self.source.ids), self._beam_size, n_heads, depth)
        spread[self._sentence_of_row, self._column_of_row] = queries[:, :, 0]
        return spread.transpose(1, 2)

    def ungroup_by_sentence(self, found: Tensor) -> Tensor:
        """The way back from `group_by_sentence`: (sentences, heads, beam, n) → (hypotheses, heads, 1, n)."""
        found = found.transpose(1, 2)
        rows = found.flatten(0, 1) if self._column_of_row is None else found[self._sentence_of_row, self._column_of_row]
        return rows[:, :, None]


def _append_position(past: Tensor, order: Tensor | None, new: Tensor) -> Tensor:
    """Returns the past (…, heads, length, depth) of the rows that go on (None: all), and the newest position."""
    if order is None or past.device.type != "cpu":
        kept = past if order is None else past.index_select(0, order)
        return torch.cat((kept, new), dim=2)
    length = past.shape[2]
    joined = past.new_empty(len(order), past.shape[1], length + 1, past.shape[3])
    torch.index_select(past, 0, order, out=joined[:, :, :length])
    joined[:, :, length:] = new
    return joined
