"""What every search speaks of: a decoder that is asked step by step, and the hypotheses that come out.

Knows token ids and positions. Knows no words, no files and no model: anything that has these methods can be searched.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Step:
    """What a decoder says after it has read one more token of each row."""

    logits: Tensor
    """(rows, vocabulary) of the next token"""
    attention: Tensor
    """(rows, heads, source) how much the last layer's heads took from each source position while reading the token"""
    attended: Tensor
    """int64 (rows,) the source word, as its position in the source, that all these heads together took most from"""


class Decoder(Protocol):
    """A batch of rows being decoded, one step at a time. It owns what has been computed so far (the cache)."""

    def step(self, tokens: Tensor) -> Step:
        """Read the newest token of each row: int64 (rows,). The first is <sos>."""

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows alone, in this order, when others are finished: int64 (new rows,).

        For example, of four rows of which the second is finished: [0, 2, 3].
        """


@dataclass(frozen=True)
class Hypothesis:
    """A decoded row."""

    tokens: list[int]
    """without <sos> and <eos>"""
    attended: list[int]
    """for each token, the source position that was attended to most when it was chosen"""
    log_prob: float
    """log p of the tokens, and of <eos> where it was reached"""
    attention: Tensor | None = None
    """(heads, steps, source), where it was asked for: step i reads token i-1, the first reads <sos>"""
