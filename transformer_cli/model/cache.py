"""What decoding need not compute twice: keys and values. Knows no layers, no tokens and no search.

Decoding has rows, its hypotheses, and each belongs to a sentence. Those of one sentence stand together, and each
sentence has equally many: one in greedy search, `beam` in beam search. A batch of 2 sentences with beam 3:

    encoder side, a row for each sentence       0 1
    decoder side, a row for each hypothesis     0 1 2 | 3 4 5

The encoder side is not repeated for each hypothesis: it takes the memory of 2 sentences, and attention reads it once
for 3 hypotheses, as if these were 3 positions of one target (`DecoderLayer`).
"""

import torch
from torch import Tensor

from transformer_cli.model.attention import KeysValues


class Cache:
    """Keys and values of both sides in each layer of the decoder; made by `Transformer.start`, owned by the search."""

    def __init__(self, memory: list[KeysValues], may_attend: Tensor) -> None:
        """memory: in each layer, keys and values of the encoder's output, (sentences, heads, source, depth).

        may_attend: which source positions are real, bool (sentences, 1, 1, source).
        """
        # Laid out once, each head's in one piece: what is read at every step need not be put together every time.
        self.memory = [KeysValues(each.keys.contiguous(), each.values.contiguous()) for each in memory]
        self.may_attend = may_attend
        self._past: list[KeysValues | None] = [None] * len(memory)  # (hypotheses, heads, length, depth)

    @property
    def length(self) -> int:
        """How many target positions are cached."""
        return 0 if self._past[0] is None else self._past[0].keys.shape[2]

    def append(self, layer: int, new: KeysValues) -> KeysValues:
        """Add keys and values of the newest position, (hypotheses, heads, 1, depth), to a layer, counted from 0.

        Returns those of all positions so far, (hypotheses, heads, length, depth).
        """
        past = self._past[layer]
        if past is not None:
            new = KeysValues(torch.cat((past.keys, new.keys), dim=2), torch.cat((past.values, new.values), dim=2))
        self._past[layer] = new
        return new

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences alone, in this order, and with all of their hypotheses: int64 (kept,).

        In the example above, [1] keeps row 1 of the encoder side and rows 3 4 5 of the decoder side.
        """
        n_sentences = len(self.may_attend)
        self.may_attend = self.may_attend.index_select(0, sentences)
        self.memory = [_rows(each, sentences) for each in self.memory]
        if self._past[0] is not None:
            beam = len(self._past[0].keys) // n_sentences
            of_each = torch.arange(beam, device=sentences.device)
            self.reorder((sentences[:, None] * beam + of_each).flatten())  # [1] → [[3]] + [0 1 2] → [3 4 5]

    def reorder(self, hypotheses: Tensor) -> None:
        """Row i goes on from what is now row hypotheses[i]: int64, equally many for each sentence, and its own.

        Copies the decoder side alone. With beam 3, [0, 0, 0, 1, 1, 1] makes three of each sentence's one hypothesis,
        after the first step. [2, 0, 0, 3, 3, 4] later: sentence 0 goes on once from its third and twice from its
        first, sentence 1 twice from its first and once from its second.
        """
        self._past = [each and _rows(each, hypotheses) for each in self._past]


def _rows(side: KeysValues, rows: Tensor) -> KeysValues:
    """These rows; one that is named twice is copied twice."""
    return KeysValues(side.keys.index_select(0, rows), side.values.index_select(0, rows))
