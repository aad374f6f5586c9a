"""Sampling: each token is drawn from the model's distribution. Knows nothing of words, files or the model.

Every sample has random numbers of its own, one for each position. So it does not depend on the other sentences of its
batch, nor on how many samples are drawn.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from transformer_cli.decoding.greedy import one_at_a_time
from transformer_cli.decoding.interface import Hypothesis, Rules, StepDecoder


def sample(
    decoder: StepDecoder, rules: Rules, uniform: Tensor, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> list[Hypothesis]:
    """Draw a translation of each sentence.

    uniform (sentences, longest limit): numbers in [0, 1), one for each token, from `uniform_numbers`.
    temperature, top_k, top_p: see DecodingConfig. Log-probabilities are the model's own, without these three.
    """

    def choose(logits: Tensor, sentences: Tensor, position: int) -> Tensor:
        shares = ((logits - logits.amax(dim=1, keepdim=True)) / temperature).softmax(dim=1)
        if not top_k and top_p == 1.0:
            return _drawn(shares, uniform[sentences, position])
        ranked = _likeliest(shares, top_k, top_p)
        return _ids_at(_drawn(ranked, uniform[sentences, position]), ranked, shares)

    return one_at_a_time(decoder, rules, choose)


def uniform_numbers(seeds: Sequence[tuple[int, ...]], length: int) -> Tensor:
    """Returns `length` numbers in [0, 1) for each seed, float32 (len(seeds), length); the first do not depend on it."""
    return torch.from_numpy(np.stack([np.random.default_rng(seed).random(length, np.float32) for seed in seeds]))


def _likeliest(shares: Tensor, top_k: int, top_p: float) -> Tensor:
    """Returns the largest of the probabilities (rows, vocabulary) in falling order: (rows, places).

    For example, of 0.1 0.6 0.3 the top_k 2 are 0.6 0.3; with top_p 0.6 they are 0.6 0.0 0.0. Numbers alone are sorted,
    without their ids: on the CPU NumPy does that twenty times as fast as torch sorts pairs of them.
    """
    if shares.device.type == "cpu":
        ranked = torch.from_numpy(-np.sort(-shares.numpy(), axis=1))
    elif top_k:
        ranked = shares.topk(min(top_k, shares.shape[1]), dim=1).values
    else:
        ranked = shares.sort(dim=1, descending=True).values
    if top_k:
        ranked = ranked[:, :top_k]
    if top_p == 1.0:
        return ranked
    before = ranked.cumsum(dim=1) - ranked  # what the likelier ones have together
    total = ranked.sum(dim=1, keepdim=True)  # top_p is a share of what top_k has left
    return ranked.masked_fill(before >= top_p * total, 0.0)


def _drawn(shares: Tensor, uniform: Tensor) -> Tensor:
    """Returns for each row the first place whose shares up to there exceed `uniform` of them all: int64 (rows,)."""
    up_to = shares.cumsum(dim=1)
    place = torch.searchsorted(up_to, (uniform * up_to[:, -1])[:, None], right=True)
    return torch.minimum(place, up_to.argmax(dim=1, keepdim=True))[:, 0]  # rounding may have reached the end


def _ids_at(places: Tensor, ranked: Tensor, shares: Tensor) -> Tensor:
    """Returns the ids that have these places, int64 (rows,), when shares are ranked; of equal ones the lower id first.

    For example, 0.2 0.6 0.2 are ranked 0.6 0.2 0.2: place 2 is the second one of 0.2, which is that of id 2.
    """
    value = ranked.gather(1, places[:, None])
    earlier = places - (ranked > value).sum(dim=1)  # how many equal ones go before it
    rows, ids = ((shares == value) | value.isnan()).nonzero(as_tuple=True)  # by rows, the lower id first
    first = torch.searchsorted(rows, torch.arange(len(shares), device=rows.device))
    return ids[first + earlier]
