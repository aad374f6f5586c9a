"""Sampling: each token is drawn from the model's distribution. Knows nothing of words, files or the model.

Every sample has random numbers of its own, one for each position. So it does not depend on the other sentences of its
batch, nor on how many samples are drawn.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from transformer_cli.decoding.greedy import one_at_a_time
from transformer_cli.decoding.interface import Decoder, Hypothesis, Rules


def sample(
    decoder: Decoder,
    rules: Rules,
    uniform: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> list[Hypothesis]:
    """Draw a translation of each sentence.

    uniform (sentences, longest limit): numbers in [0, 1), one for each token, from `uniform_numbers`.
    temperature, top_k, top_p: see DecodingConfig. Log-probabilities are the model's own, without these three.
    """

    def choose(logits: Tensor, sentences: Tensor, position: int) -> Tensor:
        ids, shares = _distribution(logits, temperature, top_k, top_p)
        return _drawn(ids, shares, uniform[sentences, position])

    return one_at_a_time(decoder, rules, choose)


def uniform_numbers(seeds: Sequence[tuple[int, ...]], length: int) -> Tensor:
    """Returns `length` numbers in [0, 1) for each seed, float32 (len(seeds), length); the first do not depend on it."""
    return torch.from_numpy(np.stack([np.random.default_rng(seed).random(length, np.float32) for seed in seeds]))


def _distribution(logits: Tensor, temperature: float, top_k: int, top_p: float) -> tuple[Tensor | None, Tensor]:
    """Returns the probabilities that tokens are drawn with, (rows, places), and the ids at these places (None: 0 1 …).

    For example, probabilities 0.1 0.6 0.3 with top_k 2 are 0.6 0.3 of the ids 1 2, which `_drawn` draws 2 : 1; with
    top_p 0.6 the id 1 alone is left.
    """
    shares = ((logits - logits.amax(dim=1, keepdim=True)) / temperature).softmax(dim=1)
    if not top_k and top_p == 1.0:
        return None, shares
    shares, ids = shares.sort(dim=1, descending=True, stable=True)
    if top_k:
        shares = shares[:, :top_k]
    before = shares.cumsum(dim=1) - shares  # what the likelier ones have together
    total = shares.sum(dim=1, keepdim=True)  # top_p is a share of what top_k has left
    return ids, shares.masked_fill(before >= top_p * total, 0.0) if top_p < 1.0 else shares


def _drawn(ids: Tensor | None, shares: Tensor, uniform: Tensor) -> Tensor:
    """Returns for each row the first place whose shares up to there exceed `uniform` of them all: int64 (rows,)."""
    up_to = shares.cumsum(dim=1)
    place = torch.searchsorted(up_to, (uniform * up_to[:, -1])[:, None], right=True)
    place = torch.minimum(place, up_to.argmax(dim=1, keepdim=True))  # rounding may have reached the end
    return (place if ids is None else ids.gather(1, place))[:, 0]
