"""What may not follow the tokens so far: sequences that would occur twice, and anything but the prefix.

Ids that are never written are `Rules.never`.
Knows ids. Knows no words, no model and no way to search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Constraints:
    """Rules that hold for each token of every hypothesis. The prefix may follow even if it has a sequence twice."""

    no_repeat_ngram: int = 0
    """the length of sequences that may not occur twice in a translation (0: all may)"""
    prefix: Sequence[int] = ()
    """ids that each translation begins with"""

    def __bool__(self) -> bool:
        """Whether anything is ruled out: a search asks nothing else if not, so each field is named here."""
        return bool(self.no_repeat_ngram or self.prefix)

    def restrict(self, logits: "Tensor", tokens: "Tensor") -> None:
        """Set the logits (rows, vocabulary) of all tokens that may not follow to -inf, in place.

        tokens int64 (rows, length): the tokens so far. After the prefix <eos> always may follow.
        """
        position = tokens.shape[1]
        if position < len(self.prefix):
            forced = logits[:, self.prefix[position]].clone()
            logits.fill_(float("-inf"))
            logits[:, self.prefix[position]] = forced
        elif self.no_repeat_ngram and position >= self.no_repeat_ngram:
            logits[completing_ngrams(tokens, self.no_repeat_ngram)] = float("-inf")


def completing_ngrams(tokens: "Tensor", size: int) -> "tuple[Tensor, Tensor]":
    """Returns rows and ids, both int64 (n,): ids[i] after rows[i] of tokens make an n-gram that this row has already.

    For example, after 7 8 9 7 8 with size 3: the last two tokens, 7 8, stood before a 9, so 9 would be one.
    """
    seen = tokens.unfold(1, size, 1)  # (rows, n-grams, size)
    newest = tokens[:, None, tokens.shape[1] - size + 1 :]  # (rows, 1, size - 1)
    rows, which = (seen[:, :, :-1] == newest).all(dim=2).nonzero(as_tuple=True)
    return rows, seen[rows, which, -1]
