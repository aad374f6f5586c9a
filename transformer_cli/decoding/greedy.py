"""Greedy search over a step function. Knows nothing of words, files or the model."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Step:
    """What a decoder says after one more token of each row."""

    logits: Tensor
    """(rows, vocabulary)"""
    attended: Tensor
    """int64 (rows,): the source position that the new token looks at most"""


class Decoder(Protocol):
    """A batch of sentences being decoded, one step at a time; it owns its cache."""

    def step(self, tokens: Tensor) -> Step:
        """Feed the newest token of each row: int64 (rows,)."""

    def select(self, rows: Tensor) -> None:
        """Go on with these rows alone, in this order: int64 (new rows,)."""


@dataclass(frozen=True)
class Hypothesis:
    """A decoded row."""

    tokens: list[int]
    """without <sos> and <eos>"""
    attended: list[int]
    """for each token the source position that it looks at most"""
    log_prob: float
    """log p of the tokens, and of <eos> where it was reached"""


def greedy(decoder: Decoder, max_tokens: Tensor, *, sos: int, eos: int, never: Tensor) -> list[Hypothesis]:
    """Take the likeliest token at each step, until <eos> or the row's own limit; finished rows are dropped.

    max_tokens int64 (rows,): the most tokens of each row, at least 1, <eos> not counted. never int64: ids that are not
    taken.
    """
    n_rows, longest = len(max_tokens), int(max_tokens.max())
    device = max_tokens.device
    tokens = torch.full((n_rows, longest), eos, device=device)
    attended = torch.zeros((n_rows, longest), dtype=torch.int64, device=device)
    log_probs = torch.zeros(n_rows, device=device)
    alive = torch.arange(n_rows, device=device)  # which row of the result each row of the decoder is
    newest = torch.full((n_rows,), sos, device=device)
    for position in range(longest):
        step = decoder.step(newest)
        logits = step.logits.float()
        log_total = logits.logsumexp(dim=1)
        newest = _argmax(logits.index_fill_(1, never, float("-inf")))
        log_probs[alive] += logits.gather(1, newest[:, None])[:, 0] - log_total
        tokens[alive, position], attended[alive, position] = newest, step.attended
        goes_on = (newest != eos) & (position + 1 < max_tokens[alive])
        if not goes_on.all():
            kept = goes_on.nonzero()[:, 0]
            if not len(kept):
                break
            alive, newest = alive[kept], newest[kept]
            decoder.select(kept)
    rows = zip(tokens.tolist(), attended.tolist(), log_probs.tolist(), strict=True)
    return [_hypothesis(*row, eos) for row in rows]


def _argmax(logits: Tensor) -> Tensor:
    """The first largest of each row: int64 (rows,). On the CPU by NumPy, which vectorises its loop."""
    if logits.device.type == "cpu":
        return torch.from_numpy(logits.numpy().argmax(axis=1))
    return logits.argmax(dim=1)


def _hypothesis(tokens: list[int], attended: list[int], log_prob: float, eos: int) -> Hypothesis:
    length = tokens.index(eos) if eos in tokens else len(tokens)
    return Hypothesis(tokens[:length], attended[:length], log_prob)
