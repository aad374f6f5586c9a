"""Greedy search: the likeliest token at each step. Knows nothing of words, files or the model."""

import torch
from torch import Tensor

from transformer_cli.decoding.interface import Decoder, Hypothesis, score


def greedy(
    decoder: Decoder,
    max_tokens: Tensor,
    *,
    sos: int,
    eos: int,
    never: Tensor,
    length_penalty: float = 1.0,
    keep_attention: bool = False,
) -> list[Hypothesis]:
    """Choose the likeliest token at each step, until <eos> or the row's own limit; finished rows are dropped.

    max_tokens int64 (rows,): how many tokens each row may have, at least 1, <eos> not counted. never int64: ids that
    are never chosen. length_penalty: α of the hypotheses' scores, which do not change what is chosen.
    keep_attention: whether each hypothesis carries the attention of its steps.
    """
    n_rows, longest = len(max_tokens), int(max_tokens.max())
    device = max_tokens.device
    tokens = torch.full((n_rows, longest), eos, device=device)
    attended = torch.zeros((n_rows, longest), dtype=torch.int64, device=device)
    log_probs = torch.zeros(n_rows, device=device)
    attention: list[list[Tensor]] = [[] for _ in range(n_rows)]
    alive = torch.arange(n_rows, device=device)  # for each of the decoder's rows, its row in the result
    newest = torch.full((n_rows,), sos, device=device)
    for position in range(longest):
        step = decoder.step(newest)
        if keep_attention:
            for row, weights in zip(alive.tolist(), step.attention, strict=True):
                attention[row].append(weights)
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
            decoder.keep(kept)
    rows = zip(tokens.tolist(), attended.tolist(), log_probs.tolist(), attention, max_tokens.tolist(), strict=True)
    return [_hypothesis(*row, eos, length_penalty) for row in rows]


def _argmax(logits: Tensor) -> Tensor:
    """Returns the first largest logit's index in each row: int64 (rows,). On the CPU NumPy does it: it vectorises."""
    if logits.device.type == "cpu":
        return torch.from_numpy(logits.numpy().argmax(axis=1))
    return logits.argmax(dim=1)


def _hypothesis(
    tokens: list[int],
    attended: list[int],
    log_prob: float,
    attention: list[Tensor],
    limit: int,
    eos: int,
    length_penalty: float,
) -> Hypothesis:
    """Cut a row's lists at <eos>. attention: one tensor (heads, source) per step, or [] if it was not kept.

    limit: how many tokens the row was allowed.
    """
    length = tokens.index(eos) if eos in tokens else len(tokens)
    n_chosen = min(length + 1, limit)  # <eos> too, if it was reached
    kept = torch.stack(attention, dim=1) if attention else None  # (heads, steps, source)
    return Hypothesis(tokens[:length], attended[:length], log_prob, score(log_prob, n_chosen, length_penalty), kept)
