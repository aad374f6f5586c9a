"""Muon: singular values near 1, stacked matrices, which weights it takes, and torch's own as the oracle."""

from pathlib import Path
from typing import Any

import pytest
import torch

from kinds import TrainTiny
from oracles.small import make_model
from oracles.variants import VARIANTS
from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import load_last
from transformer_cli.training.optimisers import AdamAndMuon, layer_matrices, make_optimizer, orthogonalized

FREEZING = ("training.optimizer=muon", "training.freeze=[decoder]")
MUON = TrainingConfig(optimizer="muon", learning_rate=1e-2, muon_learning_rate=0.03, precision="float32")


@pytest.fixture
def model() -> Transformer:
    config = ModelConfig(d_model=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=2, d_ff=24)
    torch.manual_seed(1)
    return Transformer(config, source_vocabulary=11, target_vocabulary=7, pad_id=1)


def draw_gradients(model: Transformer, seed: int = 2) -> None:
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=generator)


@pytest.mark.parametrize("shape", [(3, 12, 12), (1, 8, 30), (2, 30, 8)], ids=["square", "wide", "tall"])
def test_orthogonalized_has_singular_values_near_1_and_the_same_vectors(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(3)
    u, _, v = torch.linalg.svd(torch.randn(shape, generator=generator, dtype=torch.float64), full_matrices=False)
    sizes = torch.linspace(0.02, 1.0, u.shape[-1], dtype=torch.float64)
    found = u.mT @ orthogonalized(u * sizes @ v) @ v.mT  # diagonal, if the singular vectors are the same
    values = found.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(found, torch.diag_embed(values))
    assert 0.6 < values.min() < values.max() < 1.25


def test_orthogonalized_zeros_are_zeros() -> None:
    assert not orthogonalized(torch.zeros(1, 4, 4)).any()


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_layer_matrices_are_the_wide_weights_of_the_layers(variant: dict[str, Any]) -> None:
    model = make_model(**variant)
    names = {id(weight): name for name, weight in model.named_parameters()}
    found = {names[id(weight)]: parts for weight, parts in layer_matrices(model).items()}
    wide = {name for name, weight in model.named_parameters() if ".layers." in name and weight.ndim == 2}
    assert found.keys() == wide
    assert {parts for name, parts in found.items() if "qkv" in name} == {3}
    assert {parts for name, parts in found.items() if "qkv" not in name} == {1}


def test_muon_moves_all_other_weights_as_adam_does(model: Transformer) -> None:
    before = [weight.detach().clone() for weight in model.parameters()]
    draw_gradients(model)
    make_optimizer(model, MUON).step()
    after = [weight.detach().clone() for weight in model.parameters()]
    for weight, value in zip(model.parameters(), before, strict=True):
        weight.data.copy_(value)
    make_optimizer(model, MUON.model_copy(update={"optimizer": "adam"})).step()
    matrices = layer_matrices(model)
    for weight, value in zip(model.parameters(), after, strict=True):
        assert weight.equal(value) == (weight not in matrices)


def steps(model: Transformer, optimizer: torch.optim.Optimizer) -> None:
    for seed in (2, 3):
        draw_gradients(model, seed)
        optimizer.step()


def test_muon_equals_torchs_with_queries_keys_and_values_apart(model: Transformer) -> None:
    matrices = [part.detach().clone() for weight, n in layer_matrices(model).items() for part in weight.chunk(n)]
    theirs = torch.optim.Muon(matrices, lr=0.03, weight_decay=0.0)
    for seed in (2, 3):
        draw_gradients(model, seed)
        gradients = [part for weight, n in layer_matrices(model).items() for part in weight.grad.chunk(n)]  # type: ignore[union-attr]
        for matrix, gradient in zip(matrices, gradients, strict=True):
            matrix.grad = gradient
        theirs.step()
    before = [part.detach().clone() for weight, n in layer_matrices(model).items() for part in weight.chunk(n)]
    steps(model, AdamAndMuon(model, matrices=layer_matrices(model), times_lr=3.0, dtype=torch.bfloat16, lr=1e-2))
    ours = [part.detach() for weight, n in layer_matrices(model).items() for part in weight.chunk(n)]
    for mine, yours, start in zip(ours, matrices, before, strict=True):
        # Newton–Schulz in bfloat16 has few digits: compare with how far the weights have moved.
        assert (mine - yours).norm() < 0.05 * (mine - start).norm()


def test_train_by_muon_keeps_no_moments_of_frozen_parts(train_tiny: TrainTiny, tmp_path: Path) -> None:
    moments = load_last(train_tiny(tmp_path, "training.epochs=1", *FREEZING)).moments
    assert "momentum_buffer.encoder.layers.0.feed_forward.inner.weight" in moments
    assert not [name for name in moments if ".decoder." in name]
