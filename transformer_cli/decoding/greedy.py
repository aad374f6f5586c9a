"""Greedy search: the likeliest token at each step. Knows nothing of words, files or the model.

`one_at_a_time` is the loop, which also serves other ways to choose one token for each row (sampling.py).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from transformer_cli.decoding.interface import Hypothesis, Rules, StepDecoder, score

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""Logits (rows, vocabulary), the rows' sentences, int64 (rows,), and the position → each row's token, int64 (rows,)."""


def greedy(decoder: StepDecoder, rules: Rules, *, scores: bool = True) -> list[Hypothesis]:
    """Choose the likeliest token at each step, until <eos> or the sentence's own limit; one hypothesis per sentence.

    scores: whether log-probabilities are wanted; they are NaN if not.
    """
    return one_at_a_time(decoder, rules, lambda logits, sentences, position: _argmax(logits), scores=scores)


def one_at_a_time(decoder: StepDecoder, rules: Rules, choose: Choose, *, scores: bool = True) -> list[Hypothesis]:
    """Choose a token of each sentence at each step, until <eos> or the sentence's limit; finished ones are dropped.

    scores: as in `greedy`.
    """
    max_tokens, eos, device = rules.max_tokens, rules.eos, rules.max_tokens.device
    n_rows, longest = len(max_tokens), int(max_tokens.max())
    tokens = torch.full((n_rows, longest), eos, device=device)
    attended = torch.zeros((n_rows, longest), dtype=torch.int64, device=device)
    log_probs = torch.full((n_rows,), 0.0 if scores else math.nan, device=device)
    alive = torch.arange(n_rows, device=device)  # for each of the decoder's rows, its row in the result
    newest = torch.full((n_rows,), rules.sos, device=device)
    for position in range(longest):
        step = decoder.decode_step(newest)
        logits = step.logits.float()
        log_total = logits.logsumexp(dim=1) if scores else None  # before `restrict`
        rules.restrict(logits, tokens[alive, :position])
        newest = choose(logits, alive, position)
        if log_total is not None:
            log_probs[alive] += logits.gather(1, newest[:, None])[:, 0] - log_total
        tokens[alive, position], attended[alive, position] = newest, step.attended
        goes_on = (newest != eos) & (position + 1 < max_tokens[alive])
        if not goes_on.all():
            kept = goes_on.nonzero()[:, 0]
            if not len(kept):
                break
            alive, newest = alive[kept], newest[kept]
            decoder.select(kept)
    rows = zip(tokens.tolist(), attended.tolist(), log_probs.tolist(), max_tokens.tolist(), strict=True)
    return [_hypothesis(*row, eos, rules.length_penalty) for row in rows]


def _argmax(logits: Tensor) -> Tensor:
    """Returns the first largest logit's index in each row: int64 (rows,). On the CPU NumPy does it: it vectorises."""
    if logits.device.type == "cpu":
        return torch.from_numpy(logits.numpy().argmax(axis=1))
    return logits.argmax(dim=1)


def _hypothesis(
    tokens: list[int], attended: list[int], log_prob: float, limit: int, eos: int, length_penalty: float
) -> Hypothesis:
    """Cut a row's lists at <eos>. limit: how many tokens the row was allowed."""
    length = tokens.index(eos) if eos in tokens else len(tokens)
    n_chosen = min(length + 1, limit)  # <eos> too, if it was reached
    return Hypothesis(tokens[:length], attended[:length], log_prob, score(log_prob, n_chosen, length_penalty))
