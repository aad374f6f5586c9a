"""Cuts words into pieces at random, by BPE-dropout. Knows pieces and their scores, no files.

SentencePiece draws such cuts too, but mixes random bits of the operating system into its seed (tried with 0.2.3): its
draws repeat within a process and differ in the next one, so a run could not go on exactly. Here the same words and the
same generator give the same cuts everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.text.lengths import groups_by_length

POSITIONS = 1 << 14  # of words that are merged side by side
CODE_POINTS = 0x110000  # of Unicode

Symbols = NDArray[np.int64]


@dataclass(frozen=True)
class Inventory:
    """The pieces that text is cut into."""

    ids: Mapping[str, int]
    """each piece of text → its id"""
    scores: Mapping[int, float]
    """id → score: the pair whose piece has the highest score is merged first"""
    bytes: Sequence[int]
    """the ids of the bytes 0 to 255, by which a character that has no piece is written"""

    def spelled(self, character: str) -> list[int]:
        """Returns the ids of a character's UTF-8 bytes."""
        return [self.bytes[byte] for byte in character.encode()]


class BpeDropout:
    """Byte-pair encoding in which merges are skipped at random (Provilkov et al. 2020, algorithm 1).

    In each step each possible merge of a word is skipped with the probability `dropout`, and the best one of the others
    is made. A word is finished when there is none. With dropout 0 this is plain BPE.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        ids = inventory.ids
        self._unknown = max(ids.values()) + 1  # plus its code point: a character that has no piece
        self._end = self._unknown + CODE_POINTS  # fills up the rows of short words
        self._symbols = np.arange(self._unknown, self._end, dtype=np.int32)  # of each code point
        for piece, id_ in ids.items():
            if len(piece) == 1:
                self._symbols[ord(piece)] = id_
        pairs = {
            self._pair(ids[piece[:cut]], ids[piece[cut:]]): id_
            for piece, id_ in ids.items()
            for cut in range(1, len(piece))
            if piece[:cut] in ids and piece[cut:] in ids
        }
        self._pairs = np.array([-1, *sorted(pairs)])
        self._merged = np.array([-1, *(pairs[pair] for pair in sorted(pairs))])
        self._scores = np.array([-np.inf, *(inventory.scores[id_] for id_ in self._merged[1:].tolist())])

    def cut(self, words: Sequence[str], *, dropout: float, chance: np.random.Generator) -> list[list[int]]:
        """Returns the ids of each word."""
        cuts: list[list[int]] = [[] for _ in words]
        lengths = np.array([len(word) for word in words])
        for rows in groups_by_length(lengths, POSITIONS):
            code_points = np.frombuffer("".join(words[row] for row in rows).encode("utf-32-le"), np.uint32)
            symbols = np.full((len(rows), lengths[rows].max()), self._end)  # one for each character
            symbols[np.arange(symbols.shape[1]) < lengths[rows, None]] = self._symbols[code_points]
            self._merge(symbols, dropout, chance)
            for row, found in zip(rows, symbols.tolist(), strict=True):
                cuts[row] = self._ids(found)
        return cuts

    def _merge(self, symbols: Symbols, dropout: float, chance: np.random.Generator) -> None:
        """Merge in place, one pair of each word in each step, until no word has a pair that may be merged.

        For example, if "lo" is merged before "ow", the row l o w becomes lo w end.
        """
        unfinished = np.arange(len(symbols))
        while len(unfinished) and symbols.shape[1] > 1:
            now = symbols[unfinished]
            found = self._find(now[:, :-1], now[:, 1:])
            scores = self._scores[found]
            scores[chance.random(scores.shape) < dropout] = -np.inf
            best = scores.argmax(axis=1)  # the first of equal ones
            goes_on = scores[np.arange(len(best)), best] > -np.inf
            unfinished, now, found, best = (each[goes_on] for each in (unfinished, now, found, best))
            rows = np.arange(len(best))
            now[rows, best] = self._merged[found[rows, best]]
            columns = np.arange(now.shape[1])
            columns = columns + (columns > best[:, None])  # what follows the pair moves to the left
            now = np.concatenate((now, np.full((len(now), 1), self._end)), axis=1)
            symbols[unfinished] = np.take_along_axis(now, columns, axis=1)

    def _pair(self, left: Any, right: Any) -> Any:
        """Returns one integer for each pair of symbols; the largest symbol is `_end`."""
        return left * (self._end + 1) + right

    def _find(self, left: Symbols, right: Symbols) -> Symbols:
        """Returns where each pair is in the table of merges; 0 for a pair that is never merged."""
        wanted = self._pair(left, right)
        found = np.minimum(np.searchsorted(self._pairs, wanted), len(self._pairs) - 1)
        return np.where(self._pairs[found] == wanted, found, 0)

    def _ids(self, symbols: Sequence[int]) -> list[int]:
        ids: list[int] = []
        for symbol in takewhile(self._end.__ne__, symbols):
            ids += [symbol] if symbol < self._unknown else self.inventory.spelled(chr(symbol - self._unknown))
        return ids
