"""What a search may not write: rules turn the tokens so far into ids that may not follow, or into the only one.

Knows ids. Knows no words, no model and no way to search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Forbid = Callable[[Tensor], tuple[Tensor, Tensor]]
"""The tokens so far, int64 (rows, length) → rows and ids, both int64 (n,): ids[i] may not follow in rows[i]."""

Force = Callable[[Tensor, int], Tensor]
"""The sentence of each row, int64 (rows,), and the next token's position → the only id that may follow, or FREE."""

FREE = -1


@dataclass(frozen=True)
class Constraints:
    """Rules that hold for each token of every hypothesis. What is forced may follow even if it is forbidden."""

    forbid: Sequence[Forbid] = ()
    force: Sequence[Force] = ()

    def __bool__(self) -> bool:
        return bool(self.forbid or self.force)

    def restrict(self, logits: Tensor, log_totals: Tensor, tokens: Tensor, sentences: Tensor, eos: int) -> None:
        """Set the logits (rows, vocabulary) of all tokens that may not follow to -inf, in place.

        log_totals (rows,): logsumexp of the logits before anything was forbidden. tokens int64 (rows, length): the
        tokens so far. sentences int64 (rows,): the sentence of each row. If nothing may follow in a row, <eos> becomes
        certain there: the hypothesis ends as it is, and its log-probability stays as it is.
        """
        forced = [force(sentences, tokens.shape[1]) for force in self.force]
        kept = [logits.gather(1, ids.clamp(min=0)[:, None])[:, 0] for ids in forced]
        for forbid in self.forbid:
            logits[forbid(tokens)] = float("-inf")
        for ids, values in zip(forced, kept, strict=True):
            rows = (ids != FREE).nonzero()[:, 0]
            logits[rows] = float("-inf")
            logits[rows, ids[rows]] = values[rows]
        stuck = (logits.amax(dim=1) == float("-inf")).nonzero()[:, 0]
        logits[stuck, eos] = log_totals[stuck]


def no_repeated_ngram(size: int) -> Forbid:
    """Returns the rule that no sequence of `size` tokens occurs twice in a row.

    For example, after 7 8 9 7 8 with size 3: the last two tokens, 7 8, stood before a 9, so 9 may not follow.
    """

    def forbid(tokens: Tensor) -> tuple[Tensor, Tensor]:
        length = tokens.shape[1]
        if length < size:
            nothing = tokens.new_empty(0)
            return nothing, nothing
        seen = tokens.unfold(1, size, 1)  # (rows, n-grams, size)
        newest = tokens[:, None, length - size + 1 :]  # (rows, 1, size - 1)
        rows, which = (seen[:, :, :-1] == newest).all(dim=2).nonzero(as_tuple=True)
        return rows, seen[rows, which, -1]

    return forbid


def forced_prefix(prefixes: Sequence[Sequence[int]], device: torch.device) -> Force:
    """Returns the rule that each sentence's translation begins with its prefix, which may be empty."""
    longest = max(map(len, prefixes))
    table = torch.tensor([[*ids, *[FREE] * (longest + 1 - len(ids))] for ids in prefixes], device=device)

    def force(sentences: Tensor, position: int) -> Tensor:
        return table[sentences, min(position, longest)]  # the last column is FREE

    return force
