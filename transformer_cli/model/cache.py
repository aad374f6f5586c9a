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

from transformer_cli.model.attention import Attend, KeysValues, RecordedAttention, attention


class Cache:
    """Keys and values of both sides in each layer of the decoder; made by `Transformer.start`, owned by the search."""

    def __init__(self, memories: list[KeysValues], may_attend: Tensor) -> None:
        """memories: for each layer, keys and values of the encoder's output, (sentences, heads, source, depth).

        may_attend: which source positions are real, bool (sentences, 1, 1, source).
        """
        # Each head's keys and values are made contiguous once: they are read at every step.
        self.memories = [KeysValues(each.keys.contiguous(), each.values.contiguous()) for each in memories]
        self.may_attend = may_attend
        self._past: list[KeysValues | None] = [None] * len(memories)  # (hypotheses, heads, length, depth)
        # Which rows of a layer's past go on, in which order, if that is not done yet. It is done together with the
        # next `append`: one copy instead of two.
        self._order: list[Tensor | None] = [None] * len(memories)
        self._sentence = torch.arange(len(may_attend), device=may_attend.device)  # (hypotheses,): its encoder side
        self._beam = 1
        self._column: Tensor | None = None  # (hypotheses,): which of its sentence's it is; None: all have equally many

    @property
    def length(self) -> int:
        """The number of target positions that are cached.

        It is the position of the token that is read, until the last layer has appended to it.
        """
        past = self._past[-1]  # the last layer's grows when the token has been read
        return 0 if past is None else past.keys.shape[2]

    def to_target(self, layer: int) -> Attend:
        """How a layer, counted from 0, attends from the newest position to itself and to those before it.

        No mask is needed: nothing comes later, and none of them is <pad>, which a search never writes.
        """
        return lambda queries, keys, values, dropout: attention(queries, *self.append(layer, keys, values), dropout)

    def to_source(self, record: list[RecordedAttention] | None = None) -> Attend:
        """How a layer attends to the source. record: as in `attention`, with (sentences, heads, beam, source)."""

        def attend(queries: Tensor, keys: Tensor, values: Tensor, dropout: nn.Dropout) -> Tensor:
            queries = self.by_sentence(queries)
            heads = attention(queries, keys, values, dropout, may_attend=self.may_attend, record=record)
            return self.by_hypothesis(heads)

        return attend

    def append(self, layer: int, keys: Tensor, values: Tensor) -> KeysValues:
        """Add keys and values of the newest position, (hypotheses, heads, 1, depth), to a layer, counted from 0.

        Returns the keys and values of all positions so far, (hypotheses, heads, length, depth).
        """
        past, order = self._past[layer], self._order[layer]
        if past is not None:
            keys, values = _joined(past.keys, order, keys), _joined(past.values, order, values)
        so_far = self._past[layer] = KeysValues(keys, values)
        self._order[layer] = None
        return so_far

    def select(self, hypotheses: Tensor) -> None:
        """Let row i continue what is now row hypotheses[i], int64 (rows,). Sentences stay in their order.

        On the encoder side nothing changes, but that sentences without hypotheses are dropped. With beam 3, after the
        first step, [0, 0, 0, 1, 1] makes the rows of the example above. Later, in [2, 0, 0, 4], the first sentence
        continues its third hypothesis once and its first one twice; [3, 4] drops the first sentence.
        """
        sentences, self._sentence, counts = self._sentence[hypotheses].unique_consecutive(
            return_inverse=True, return_counts=True
        )
        if len(sentences) < len(self.may_attend):
            self.may_attend = self.may_attend.index_select(0, sentences)
            self.memories = [KeysValues(*(side.index_select(0, sentences) for side in each)) for each in self.memories]
        self._beam = int(counts.max())
        first = counts.cumsum(0) - counts
        column = torch.arange(len(hypotheses), device=hypotheses.device) - first[self._sentence]
        self._column = column if len(hypotheses) < len(sentences) * self._beam else None
        self._order = [hypotheses if order is None else order[hypotheses] for order in self._order]

    def by_sentence(self, queries: Tensor) -> Tensor:
        """The queries of a sentence's hypotheses as positions of one target.

        (hypotheses, heads, 1, depth) → (sentences, heads, beam, depth), with zeros where there is no hypothesis.
        """
        if self._column is None:
            return queries.unflatten(0, (len(self.may_attend), -1)).squeeze(3).transpose(1, 2)
        _, n_heads, _, depth = queries.shape
        spread = queries.new_zeros(len(self.may_attend), self._beam, n_heads, depth)
        spread[self._sentence, self._column] = queries[:, :, 0]
        return spread.transpose(1, 2)

    def by_hypothesis(self, found: Tensor) -> Tensor:
        """The way back from `by_sentence`: (sentences, heads, beam, n) → (hypotheses, heads, 1, n)."""
        found = found.transpose(1, 2)
        rows = found.flatten(0, 1) if self._column is None else found[self._sentence, self._column]
        return rows[:, :, None]


def _joined(past: Tensor, order: Tensor | None, new: Tensor) -> Tensor:
    """Returns the past (…, heads, length, depth) of the rows that go on (None: all), and the newest position."""
    if order is None or past.device.type != "cpu":
        kept = past if order is None else past.index_select(0, order)
        return torch.cat((kept, new), dim=2)
    length = past.shape[2]
    joined = past.new_empty(len(order), past.shape[1], length + 1, past.shape[3])
    torch.index_select(past, 0, order, out=joined[:, :, :length])
    joined[:, :, length:] = new
    return joined
