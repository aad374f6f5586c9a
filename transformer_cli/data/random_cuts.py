"""Cuts words into pieces at random: BPE-dropout and unigram sampling. Knows pieces and their scores, no files.

SentencePiece draws such cuts too, but mixes random bits of the operating system into its seed (tried with 0.2.3): its
draws repeat within a process and differ in the next one, so a run could not go on exactly. Here the same words and the
same generator give the same cuts everywhere.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.data.lengths import groups_by_length

POSITIONS = 1 << 14  # of words that are merged side by side
KEPT_WORDS = 1 << 14  # words whose characters or possible pieces are remembered: up to some 6 kB each
KEPT_LENGTH = 20  # longer ones are not: where text has no spaces, a "word" is a line, and hardly any comes again
UNKNOWN_SCORE = -10.0  # how much less likely than every piece an unknown character is, as in SentencePiece

Symbols = NDArray[np.int64]
Cut = Callable[..., list[list[int]]]
"""What `cut` of the classes below is"""
Ending = tuple[float, int, list[int]]  # cumulated probability, where the piece begins, its ids


@dataclass(frozen=True)
class Inventory:
    """The pieces that text is cut into."""

    ids: Mapping[str, int]
    """each piece of text → its id"""
    scores: Mapping[int, float]
    """id → score. bpe: the pair whose piece has the highest score is merged first; unigram: the log-probability"""
    bytes: Sequence[int]
    """the ids of the bytes 0 to 255, by which a character that has no piece is written"""

    def spelled(self, character: str) -> list[int]:
        """Returns the ids of a character's UTF-8 bytes."""
        return [self.bytes[byte] for byte in character.encode()]


def _remembered(find: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function like `find`, whose first argument is a word; what it found for short words is remembered."""
    kept = lru_cache(KEPT_WORDS)(find)
    return lambda word, *rest: (kept if len(word) <= KEPT_LENGTH else find)(word, *rest)


class BpeDropout:
    """Byte-pair encoding in which merges are skipped at random (Provilkov et al. 2020, algorithm 1).

    In each step each possible merge of a word is skipped with the probability `dropout`, and the best one of the others
    is made. A word is finished when there is none. With dropout 0 this is plain BPE.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        ids = inventory.ids
        self._unknown = max(ids.values()) + 1  # plus its code point: a character that has no piece
        self._end = self._unknown + 0x110000  # fills up the rows of short words
        pairs = {
            self._pair(ids[piece[:cut]], ids[piece[cut:]]): id_
            for piece, id_ in ids.items()
            for cut in range(1, len(piece))
            if piece[:cut] in ids and piece[cut:] in ids
        }
        self._pairs = np.array([-1, *sorted(pairs)])
        self._merged = np.array([-1, *(pairs[pair] for pair in sorted(pairs))])
        self._symbols = _remembered(lambda word: np.array([ids.get(one, self._unknown + ord(one)) for one in word]))
        self._scores = np.array([-np.inf, *(inventory.scores[id_] for id_ in self._merged[1:].tolist())])

    def cut(self, words: Sequence[str], *, dropout: float, chance: np.random.Generator) -> list[list[int]]:
        """Returns the ids of each word."""
        cuts: list[list[int]] = [[] for _ in words]
        for rows in groups_by_length(np.array([len(word) for word in words]), POSITIONS):
            symbols = np.full((len(rows), max(len(words[row]) for row in rows)), self._end)
            for place, row in enumerate(rows):
                symbols[place, : len(words[row])] = self._symbols(words[row])  # one for each character
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


class UnigramSampling:
    """A cut of a word is drawn with a probability proportional to P(cut)^α (Kudo 2018, equation 8).

    P(cut) is the product of the probabilities of its pieces; all cuts of a word take part. α is 1 - dropout.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._longest = max(map(len, inventory.ids))
        self._unknown_score = min(inventory.scores.values()) + UNKNOWN_SCORE
        self._endings = _remembered(self._find_endings)

    def cut(self, words: Sequence[str], *, dropout: float, chance: np.random.Generator) -> list[list[int]]:
        """Returns the ids of each word."""
        draws = iter(chance.random(sum(map(len, words))).tolist())  # a word has at most as many pieces as characters
        return [self._draw(self._endings(word, 1 - dropout), [next(draws) for _ in word]) for word in words]

    @staticmethod
    def _draw(endings: Sequence[Sequence[Ending]], draws: Sequence[float]) -> list[int]:
        """Returns a word's ids: its last piece is drawn first, then the one before it."""
        pieces: list[list[int]] = []
        end = len(endings) - 1
        for draw in draws:
            if end:
                _, end, piece = next(ending for ending in endings[end] if draw < ending[0])
                pieces.append(piece)
        return [id_ for piece in reversed(pieces) for id_ in piece]

    def _find_endings(self, word: str, alpha: float) -> list[list[Ending]]:
        """Returns for each position in a word, 0 to its length, the pieces that may end there."""
        total = [0.0]  # log of the sum over all cuts of the word up to each position
        endings: list[list[Ending]] = [[]]
        for end in range(1, len(word) + 1):
            pieces = [
                (total[start] + alpha * score, start, ids)
                for start in range(max(0, end - self._longest), end)
                for score, ids in self._piece(word[start:end])
            ]
            most = max(weight for weight, _, _ in pieces)
            total.append(most + math.log(sum(math.exp(weight - most) for weight, _, _ in pieces)))
            limits = [*accumulate(math.exp(weight - total[end]) for weight, _, _ in pieces[:-1]), 1.0]
            endings.append([(limit, start, ids) for limit, (_, start, ids) in zip(limits, pieces, strict=True)])
        return endings

    def _piece(self, text: str) -> list[tuple[float, list[int]]]:
        """Returns [(score, ids)] of a piece, or of a single character that has none; [] for any other text."""
        id_ = self.inventory.ids.get(text)
        if id_ is not None:
            return [(self.inventory.scores[id_], [id_])]
        return [(self._unknown_score, self.inventory.spelled(text))] if len(text) == 1 else []
