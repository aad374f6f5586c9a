"""A decoder without a model, whose logits are a function of a sentence's number and of the tokens so far; and the
search that tries everything, against which beam search is compared.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from transformer_cli.search.protocols import Step
from transformer_cli.search.rules import SearchRules

SOS, EOS, A, B, C = range(5)
VOCABULARY = 5


@cache
def table(sentence: int, tokens: tuple[int, ...], spread: float = 2.0) -> tuple[float, ...]:
    """Returns the logits after these tokens, drawn from N(0, spread²) by a generator of their own."""
    chance = random.Random(f"{sentence} {tokens}")
    return tuple(chance.gauss(0.0, spread) for _ in range(VOCABULARY))


@dataclass
class TableDecoder:
    """Answers from `table`. What it attends to tells which tokens a row has read: after <sos> A B it is 10·A + B."""

    sentences: list[int]
    n_rows: list[list[int]] = field(default_factory=list)  # rows of each sentence that goes on, at each step

    def __post_init__(self) -> None:
        self.rows: list[tuple[int, ...]] = [()] * len(self.sentences)
        self.of = self.sentences  # the sentence of each row

    def decode_step(self, tokens: Tensor) -> Step:
        self.rows = [(*row, token) for row, token in zip(self.rows, tokens.tolist(), strict=True)]
        self.n_rows.append([len([*rows]) for _, rows in groupby(self.of)])
        logits = torch.tensor([table(sentence, row[1:]) for sentence, row in zip(self.of, self.rows, strict=True)])
        read = [(0, *row)[-2:] for row in self.rows]
        return Step(logits, torch.tensor([10 * one + two for one, two in read]))

    def select(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]
        self.of = [self.of[row] for row in rows.tolist()]
        assert self.of == sorted(self.of), "rows of a sentence are neighbours, and sentences stay in their order"


def rules(*limits: int, **more: Any) -> SearchRules:
    """What a search may write of each sentence: so many tokens, and never <sos>."""
    never = torch.tensor([SOS])
    return SearchRules(max_tokens=torch.tensor(limits), sos=SOS, eos=EOS, suppressed_ids=never, **more)


def everything(sentence: int, limit: int, never: Sequence[int] = (SOS,)) -> Iterator[tuple[list[int], float, int]]:
    """Yield the tokens, the log-probability and the length, <eos> counted, of all translations that there are."""
    waiting: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    while waiting:
        tokens, log_prob = waiting.pop()
        if len(tokens) == limit:
            yield list(tokens), log_prob, limit
            continue
        for token, more in enumerate(torch.tensor(table(sentence, tokens)).log_softmax(dim=0).tolist()):
            if token == EOS:
                yield list(tokens), log_prob + more, len(tokens) + 1
            elif token not in never:
                waiting.append(((*tokens, token), log_prob + more))
