"""Losses without padding, in chunks, against those of a padded batch at once: the same values, the same gradients."""

import pytest
import torch
from torch import Tensor, nn

from oracles.padded import padded_losses
from oracles.small import SMALL
from oracles.variants import VARIANTS
from transformer_cli.model import attention, layout, loss
from transformer_cli.model.dropout import Dropout, use_generator
from transformer_cli.model.loss import TokenLosses, token_losses
from transformer_cli.model.transformer import Transformer

PAD = 1


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of ten makes several, the last one smaller."""
    monkeypatch.setattr(layout, "GROUP_SIZE", 4)
    monkeypatch.setattr(loss, "CHUNK_TOKENS", 7)
    torch.manual_seed(0)


def transformer(**variant: object) -> Transformer:
    config = SMALL.model_copy(update={"max_length": 100, **variant})
    return Transformer(config, source_vocabulary=23, target_vocabulary=23, pad_id=PAD)


def sentences(lengths: list[int]) -> Tensor:
    """Random ids, padded at the end: (sentences, longest)."""
    drawn = [torch.randint(4, 23, (length,)) for length in lengths]
    return nn.utils.rnn.pad_sequence(drawn, batch_first=True, padding_value=PAD)


def batch() -> tuple[Tensor, Tensor]:
    """Lengths in no order: packing may gain less by that, but must not err."""
    return sentences([3, 9, 2, 5, 5, 7, 4, 2, 8, 6]), sentences([2, 4, 9, 3, 6, 5, 2, 7, 3, 8])


def gradients(model: nn.Module, objective: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(objective, list(model.parameters())))


def assert_equal(fast: TokenLosses, plain: TokenLosses, model: nn.Module) -> None:
    """Values to 1e-5, gradients to 1e-5 of the largest of each parameter."""
    torch.testing.assert_close(fast.nll, plain.nll, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(fast.objective, plain.objective, atol=1e-4, rtol=1e-5)
    assert not fast.nll.requires_grad
    for ours, theirs in zip(gradients(model, fast.objective), gradients(model, plain.objective), strict=True):
        assert (ours - theirs).abs().max() <= 1e-5 * max(1.0, theirs.abs().max().item())


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_packed_batch_has_losses_and_gradients_of_padded(variant: dict[str, object], label_smoothing: float) -> None:
    model = transformer(**variant).train()
    source, target = batch()
    packed = token_losses(model, source, target, label_smoothing=label_smoothing)
    assert_equal(packed, padded_losses(model, source, target, label_smoothing=label_smoothing), model)
    with torch.no_grad():
        measured = token_losses(model, source, target, label_smoothing=label_smoothing)
    torch.testing.assert_close(measured.nll, packed.nll)
    torch.testing.assert_close(measured.objective, packed.objective.detach())


def test_token_losses_in_bfloat16_are_close() -> None:
    model = transformer().train()
    source, target = batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fast, plain = token_losses(model, source, target), padded_losses(model, source, target)
    torch.testing.assert_close(fast.nll, plain.nll, atol=0.05, rtol=0.02)
    for ours, theirs in zip(gradients(model, fast.objective), gradients(model, plain.objective), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() <= 0.05 * theirs.norm() + 1e-3


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_recomputed_attention_has_bitwise_equal_gradients(
    monkeypatch: pytest.MonkeyPatch, precision: torch.dtype
) -> None:
    model, (source, target), found = transformer(dropout=0.3).train(), batch(), []
    for longest in (attention.RECOMPUTE_LENGTH, 2):
        monkeypatch.setattr(attention, "RECOMPUTE_LENGTH", longest)
        with use_generator(torch.Generator().manual_seed(3)):
            with torch.autocast("cpu", precision, enabled=precision != torch.float32, cache_enabled=False):
                losses = token_losses(model, source, target)
            found.append([losses.nll, *gradients(model, losses.objective)])
    assert all(one.equal(other) for one, other in zip(*found, strict=True))


def test_recomputed_attention_gives_bias_its_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    bias = torch.zeros(5, 5, requires_grad=True)
    found: list[Tensor] = []
    query = torch.randn(1, 2, 5, 4, generator=torch.Generator().manual_seed(1))
    for longest in (attention.RECOMPUTE_LENGTH, 2):
        monkeypatch.setattr(attention, "RECOMPUTE_LENGTH", longest)
        output = attention.efficient_attention(query, query, query, Dropout(0.0), bias=bias)
        found += torch.autograd.grad(output[..., 0].sum(), bias)
    assert found[0].any()
    assert found[0].equal(found[1])


def test_packed_in_bfloat16_pads_to_multiples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of layout.py."""
    for name, value in {"GROUP_SIZE": 2, "PAD_MULTIPLE": 4, "PAD_LENGTH_MULTIPLE": 4}.items():
        monkeypatch.setattr(layout, name, value)
    is_token = torch.tensor([[True] * 3 + [False] * 2, [True] * 2 + [False] * 3, [True] * 5])
    found = {}
    for precision in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", precision, enabled=precision != torch.float32):
            packed = layout.Packed(torch.full((3, 5), 7), is_token, 2, torch.device("cpu"))
        x = torch.rand(2, len(packed.ids), 3)
        assert packed.unpad(packed.pad(x))[:, :10].equal(x[:, :10])
        found[precision] = len(packed.ids), [tuple(mask.shape) for mask in packed.masks]
    assert found == {torch.float32: (10, [(2, 3), (1, 5)]), torch.bfloat16: (12, [(2, 4), (1, 8)])}
