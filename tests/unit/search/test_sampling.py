"""Sampling: which tokens random numbers draw from given logits."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from oracles.tables import SOS, A, B, C, TableDecoder, rules
from transformer_cli.search.greedy import greedy_search, sample, uniform_numbers
from transformer_cli.search.protocols import Step


def by_sorting(logits: Tensor, uniform: Tensor, temperature: float, top_k: int, top_p: float) -> list[int]:
    """What is drawn when ids and shares of the whole vocabulary are sorted together: slow, and obvious."""
    drawn = []
    probabilities = ((logits - logits.amax(dim=1, keepdim=True)) / temperature).softmax(dim=1)
    for row, number in zip(probabilities, uniform, strict=True):
        shares, ids = row.sort(descending=True, stable=True)
        shares = shares[: top_k or None]
        kept = shares[shares.cumsum(dim=0) - shares < top_p * shares.sum()] if top_p < 1.0 else shares
        up_to = kept.cumsum(dim=0)
        drawn.append(int(ids[min(int((up_to <= number * up_to[-1]).sum()), len(kept) - 1)]))
    return drawn


@pytest.mark.parametrize("temperature", [0.5, 1.0, 30.0])
@pytest.mark.parametrize(("top_k", "top_p"), [(1, 1.0), (50, 1.0), (0, 0.5), (0, 0.95), (50, 0.9), (9999, 0.99)])
def test_sample_equals_drawing_from_a_sorted_vocabulary(temperature: float, top_k: int, top_p: float) -> None:
    chance = torch.Generator().manual_seed(0)
    logits, uniform = 4 * torch.randn(40, 3000, generator=chance), torch.rand(40, 1, generator=chance)
    logits[:20] = logits[:20].round()  # many of them equal
    one_token = replace(rules(*[1] * 40), eos=-1)
    expected = by_sorting(logits.index_fill(1, torch.tensor([SOS]), float("-inf")), uniform, temperature, top_k, top_p)
    found = sample(AlwaysTheSame(logits), one_token, uniform, temperature=temperature, top_k=top_k, top_p=top_p)
    assert [each.tokens for each in found] == [[token] for token in expected]


class AlwaysTheSame:
    """A decoder whose logits, (rows, vocabulary), do not depend on what it reads."""

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits

    def decode_step(self, tokens: Tensor) -> Step:
        return Step(self._logits.clone(), torch.zeros_like(tokens))

    def select(self, rows: Tensor) -> None:
        self._logits = self._logits[rows]


@pytest.mark.parametrize("settings", [{"temperature": 1e-30}, {"top_k": 1}, {"top_p": 1e-9}])
def test_sample_deterministic_settings_equal_greedy(settings: dict[str, float]) -> None:
    sentences = list(range(8))
    uniform = uniform_numbers([(5, each) for each in sentences], 6)
    chosen: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, **settings}
    found = sample(TableDecoder(sentences), rules(*[6] * 8), uniform, **chosen)
    assert found == greedy_search(TableDecoder(sentences), rules(*[6] * 8))


def test_uniform_numbers_do_not_depend_on_length() -> None:
    assert uniform_numbers([(1, 2, 3)], 9)[:, :4].equal(uniform_numbers([(1, 2, 3)], 4))
    numbers = uniform_numbers([(0, each) for each in range(100)], 50)
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    assert numbers.mean() == pytest.approx(0.5, abs=0.02)


def test_sample_uniform_near_1_draws_no_unwritable_token() -> None:
    uniform = torch.full((1, 1), 1.0 - 2**-24)
    (found,) = sample(TableDecoder([3]), rules(1), uniform, temperature=1e6)
    assert found.tokens in ([A], [B], [C])
