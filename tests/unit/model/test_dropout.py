"""Dropout by 16-bit integers: the same distribution as the plain form, and nothing else."""

import math

import pytest
import torch
from torch import Tensor

from transformer_cli.model.dropout import Dropout, keep_mask

LEVELS = 65536


pytestmark = pytest.mark.usefixtures("seeded")


def assert_share(kept: Tensor, share: float) -> None:
    """Within five standard deviations."""
    assert kept.double().mean().item() == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / kept.numel()))


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.0, False), (0.5, False)])
def test_dropout_at_p_0_or_in_eval_mode_draws_nothing(p: float, training: bool) -> None:
    x = torch.randn(3, 5)
    before = torch.get_rng_state()
    assert Dropout(p).train(training)(x).equal(x)
    assert torch.get_rng_state().equal(before)  # nothing is drawn


@pytest.mark.parametrize("p", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_dropout_zeroes_a_share_p_and_scales_the_rest(p: float) -> None:
    dropped = round(p * LEVELS) / LEVELS
    x = torch.linspace(1.0, 2.0, 40_000).view(200, 200)
    y = Dropout(p)(x)
    kept = y != 0.0
    assert_share(kept, 1 - dropped)
    torch.testing.assert_close(y[kept], x[kept] / (1 - dropped))
    assert keep_mask(x, p).unique().tolist() == pytest.approx([0.0, 1 / (1 - dropped)], rel=1e-6)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_keep_mask_drops_equally_in_all_four_parts_of_a_word(p: float) -> None:
    """A generator that leaves a word's top bits unset would never drop in its last lane."""
    lanes = keep_mask(torch.empty(80_000), p).view(-1, 4) != 0.0
    for lane in lanes.unbind(dim=1):
        assert_share(lane, 1 - round(p * LEVELS) / LEVELS)


def test_keep_mask_parts_of_a_word_are_independent() -> None:
    lanes = keep_mask(torch.empty(80_000), 0.5).view(-1, 4)
    correlations = torch.corrcoef(lanes.T) - torch.eye(4)
    assert correlations.abs().max() < 5 / math.sqrt(len(lanes))


def test_dropout_of_a_transposed_tensor_drops_its_elements() -> None:
    x = torch.arange(1.0, 13.0).view(3, 4).T
    y = Dropout(0.5)(x)
    assert ((y == 0.0) | (y == 2 * x)).all()


def test_dropout_gradient_is_its_mask() -> None:
    x = torch.ones(500, requires_grad=True)
    y = Dropout(0.2)(x)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.equal(y.detach())
    assert 0 < x.grad.count_nonzero() < 500
