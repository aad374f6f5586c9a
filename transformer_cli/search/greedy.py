"""Greedy search and sampling: each step takes the most probable token of each sentence, or draws one.

Does not know words, files or the model. Every sample has its own random numbers, one for each position, so it does not
depend on the other sentences of its batch or on the number of samples.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from transformer_cli.search.protocols import Hypothesis, StepDecoder
from transformer_cli.search.rules import SearchRules, score

ChooseFn = Callable[[Tensor, Tensor, int], Tensor]
"""(logits (rows, vocabulary), the rows' sentences int64 (rows,), position) → each row's token, int64 (rows,)."""


def greedy_search(decoder: StepDecoder, rules: SearchRules, *, return_scores: bool = True) -> list[Hypothesis]:
    """Take the most probable token at each step, until <eos> or the sentence's max_tokens.

    Returns one hypothesis per sentence.

    return_scores: compute log-probabilities; if false, they are NaN.
    """

    def argmax(logits: Tensor, sentences: Tensor, position: int) -> Tensor:
        """Returns the lower id of equal logits. NumPy's argmax is faster than torch's on the CPU."""
        if logits.device.type == "cpu":
            return torch.from_numpy(logits.numpy().argmax(axis=1))
        return logits.argmax(dim=1)

    return _generate(decoder, rules, argmax, return_scores=return_scores)


def sample(
    decoder: StepDecoder,
    rules: SearchRules,
    uniform: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> list[Hypothesis]:
    """Draw a translation of each sentence.

    uniform (sentences, max_tokens): numbers in [0, 1), one for each token, from `uniform_numbers`. temperature, top_k,
    top_p: see DecodingConfig. Log-probabilities are the model's own, without these three.
    """

    def draw(logits: Tensor, sentences: Tensor, position: int) -> Tensor:
        probs = ((logits - logits.amax(dim=1, keepdim=True)) / temperature).softmax(dim=1)
        if not top_k and top_p == 1.0:
            return _sample_rows(probs, uniform[sentences, position])
        ranked = _top_probs(probs, top_k, top_p)
        return _ids_of_ranks(_sample_rows(ranked, uniform[sentences, position]), ranked, probs)

    return _generate(decoder, rules, draw)


def _generate(
    decoder: StepDecoder, rules: SearchRules, choose: ChooseFn, *, return_scores: bool = True
) -> list[Hypothesis]:
    """Choose a token for each sentence at each step; drop finished sentences. return_scores: as in `greedy_search`."""
    max_tokens, eos, device = rules.max_tokens, rules.eos, rules.max_tokens.device
    n_rows, longest = len(max_tokens), int(max_tokens.max())
    tokens = torch.full((n_rows, longest), eos, device=device)
    alignment = torch.zeros((n_rows, longest), dtype=torch.int64, device=device)
    log_probs = torch.full((n_rows,), 0.0 if return_scores else math.nan, device=device)
    active_rows = torch.arange(n_rows, device=device)  # the sentence of each of the decoder's rows
    newest = torch.full((n_rows,), rules.sos, device=device)
    for position in range(longest):
        step = decoder.decode_step(newest)
        logits = step.logits.float()
        log_total = logits.logsumexp(dim=1) if return_scores else None  # before `mask_logits`
        rules.mask_logits(logits, tokens[active_rows, :position])
        newest = choose(logits, active_rows, position)
        if log_total is not None:
            log_probs[active_rows] += logits.gather(1, newest[:, None])[:, 0] - log_total
        tokens[active_rows, position], alignment[active_rows, position] = newest, step.alignment
        goes_on = (newest != eos) & (position + 1 < max_tokens[active_rows])
        if not goes_on.all():
            kept = goes_on.nonzero()[:, 0]
            if not len(kept):
                break
            active_rows, newest = active_rows[kept], newest[kept]
            decoder.select(kept)
    found = []
    rows = zip(tokens.tolist(), alignment.tolist(), log_probs.tolist(), max_tokens.tolist(), strict=True)
    for ids, aligned, log_prob, limit in rows:
        length = ids.index(eos) if eos in ids else longest
        value = score(log_prob, min(length + 1, limit), rules.length_penalty)  # <eos> counts if it was generated
        found.append(Hypothesis(ids[:length], aligned[:length], log_prob, value))
    return found


def uniform_numbers(seeds: Sequence[tuple[int, ...]], length: int) -> Tensor:
    """Returns a row of numbers in [0, 1) per seed, float32 (seeds, length); a larger length only appends numbers."""
    return torch.from_numpy(np.stack([np.random.default_rng(seed).random(length, np.float32) for seed in seeds]))


def _top_probs(probs: Tensor, top_k: int, top_p: float) -> Tensor:
    """Returns those of probs (rows, vocabulary) that top_k and top_p keep, in descending order: (rows, ranks).

    For example, of 0.1 0.6 0.3 top_k = 2 keeps 0.6 0.3, and top_p = 0.6 keeps 0.6 0.0 0.0. Only the numbers are sorted,
    not their ids: on the CPU NumPy does that twenty times as fast as torch sorts both.
    """
    if probs.device.type == "cpu":
        ranked = torch.from_numpy(-np.sort(-probs.numpy(), axis=1))
    elif top_k:
        ranked = probs.topk(min(top_k, probs.shape[1]), dim=1).values
    else:
        ranked = probs.sort(dim=1, descending=True).values
    if top_k:
        ranked = ranked[:, :top_k]
    if top_p == 1.0:
        return ranked
    before = ranked.cumsum(dim=1) - ranked  # the sum of the larger ones
    total = ranked.sum(dim=1, keepdim=True)  # top_p is a share of the sum that top_k keeps
    return ranked.masked_fill(before >= top_p * total, 0.0)


def _sample_rows(probs: Tensor, uniform: Tensor) -> Tensor:
    """Draw a column of each row, int64 (rows,): the first whose cumulative probability exceeds uniform."""
    cumulative = probs.cumsum(dim=1)
    column = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)
    return torch.minimum(column, cumulative.argmax(dim=1, keepdim=True))[:, 0]  # rounding may exceed the last sum


def _ids_of_ranks(ranks: Tensor, ranked: Tensor, probs: Tensor) -> Tensor:
    """Returns the ids at these ranks, int64 (rows,); of equal probabilities the lower id ranks first.

    For example, 0.2 0.6 0.2 are ranked 0.6 0.2 0.2: rank 2 is the second 0.2, which is id 2.
    """
    value = ranked.gather(1, ranks[:, None])
    earlier = ranks - (ranked > value).sum(dim=1)  # the number of equal ones that rank before it
    rows, ids = ((probs == value) | value.isnan()).nonzero(as_tuple=True)  # by rows, the lower id first
    first = torch.searchsorted(rows, torch.arange(len(probs), device=rows.device))
    return ids[first + earlier]
