"""Position vectors."""

import math

import pytest
import torch

from transformer_cli.model.positions import LearnedPositions, SinusoidalPositions, frequencies, marian_frequencies


@pytest.mark.parametrize("position", [0, 1, 7, 99, 511])
def test_sinusoidal_positions_are_the_papers(position: int) -> None:
    d_model = 12
    found = SinusoidalPositions(frequencies(d_model))(torch.tensor(position))
    for i in range(d_model // 2):
        angle = position / 10000 ** (2 * i / d_model)
        assert found[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-4)
        assert found[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-4)


def test_marians_frequencies_end_at_one_ten_thousandth() -> None:
    """As in marian-dev's tensor_operators.cpp: each is the last one × exp(-ln 10000 / (d/2 - 1))."""
    found = marian_frequencies(12).tolist()
    assert found == pytest.approx([math.exp(-math.log(10000) / 5 * i) for i in range(6)], rel=1e-6)
    assert found[-1] == pytest.approx(1e-4)
    assert marian_frequencies(2).tolist() == [1.0]


def learned(max_length: int) -> LearnedPositions:
    positions = LearnedPositions(max_length, 8)
    torch.nn.init.normal_(positions.weight, generator=torch.Generator().manual_seed(0))
    return positions


@pytest.mark.parametrize("positions", [SinusoidalPositions(frequencies(8)), learned(20)], ids=["sinusoidal", "learned"])
def test_positions_have_a_vector_each(positions: SinusoidalPositions | LearnedPositions) -> None:
    table = positions(torch.arange(20))
    assert table.shape == (20, 8)
    assert positions(torch.tensor([[5, 7], [6, 5]])).equal(table[[5, 7, 6, 5]].view(2, 2, 8))
    assert table.unique(dim=0).shape == (20, 8)


def test_learned_positions_beyond_the_last_raise_index_error() -> None:
    positions = learned(5)
    assert positions(torch.tensor([2, 3, 4])).shape == (3, 8)
    with pytest.raises(IndexError):
        positions(torch.tensor([3, 4, 5]))


def test_sinusoidal_positions_are_not_in_a_checkpoint() -> None:
    assert not SinusoidalPositions(frequencies(8)).state_dict()
