"""Muon: singular values near 1, stacked matrices, which weights it takes, and torch's own as the oracle."""

from pathlib import Path
from typing import Any

import pytest
import torch

from kinds import TrainTiny
from oracles.small import make_model
from oracles.variants import VARIANTS
from outcomes import outcome
from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import load_last
from transformer_cli.training.learner import Learner
from transformer_cli.training.optimisers import AdamAndMuon, layer_matrices, make_optimizer, orthogonalized
from transformer_cli.training.trainer import diverged

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
def test_singular_values_come_near_1_and_singular_vectors_stay(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(3)
    u, _, v = torch.linalg.svd(torch.randn(shape, generator=generator, dtype=torch.float64), full_matrices=False)
    sizes = torch.linspace(0.02, 1.0, u.shape[-1], dtype=torch.float64)
    found = u.mT @ orthogonalized(u * sizes @ v) @ v.mT  # diagonal, if the singular vectors are the same
    values = found.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(found, torch.diag_embed(values))
    assert 0.6 < values.min() < values.max() < 1.25


def test_zeros_stay_zeros() -> None:
    assert not orthogonalized(torch.zeros(1, 4, 4)).any()


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_the_layers_matrices_are_all_that_muon_takes(variant: dict[str, Any]) -> None:
    model = make_model(**variant)
    names = {id(weight): name for name, weight in model.named_parameters()}
    found = {names[id(weight)]: parts for weight, parts in layer_matrices(model).items()}
    wide = {name for name, weight in model.named_parameters() if ".layers." in name and weight.ndim == 2}
    assert found.keys() == wide
    assert {parts for name, parts in found.items() if "qkv" in name} == {3}
    assert {parts for name, parts in found.items() if "qkv" not in name} == {1}


def test_all_other_weights_are_moved_as_by_adam(model: Transformer) -> None:
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


def test_matrices_are_moved_as_by_torchs_muon_one_for_queries_keys_and_values_each(model: Transformer) -> None:
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


def test_an_update_moves_vectors_by_about_the_learning_rate(model: Transformer) -> None:
    weight = model.encoder.layers[0].self_attention.output.weight
    before = weight.detach().clone()
    draw_gradients(model)
    make_optimizer(model, MUON).step()
    values = torch.linalg.svdvals(weight.detach() - before) / MUON.muon_learning_rate
    assert values[-2] > 0.5  # the smallest of random values may be too small for five iterations
    assert values[0] < 1.25


def test_a_weight_without_a_gradient_stays_and_gradients_are_left_in_place(model: Transformer) -> None:
    frozen = model.decoder.layers[0].self_attention.qkv.weight
    before = frozen.detach().clone()
    draw_gradients(model)
    frozen.grad = None
    gradients = [weight.grad for weight in model.parameters()]
    make_optimizer(model, MUON).step()
    assert frozen.equal(before)
    assert all(weight.grad is gradient for weight, gradient in zip(model.parameters(), gradients, strict=True))


def test_both_rates_are_named_where_training_diverges(model: Transformer) -> None:
    message = str(diverged(Learner(model, MUON, torch.device("cpu")), "no finite loss"))
    assert message.startswith(
        "training.learning_rate: 0.01 or muon_learning_rate: 0.03 made training diverge (no finit"
    )


def test_a_run_goes_on_exactly_and_frozen_parts_have_no_moments(train_tiny: TrainTiny, tmp_path: Path) -> None:
    settings = ("training.batch_size=100", "training.optimizer=muon", "training.freeze=[decoder]")
    train_tiny(tmp_path / "twice", *settings, "training.epochs=1")
    twice = train_tiny(tmp_path / "twice", *settings, "training.epochs=2")
    assert outcome(twice) == outcome(train_tiny(tmp_path / "once", *settings, "training.epochs=2"))
    moments = load_last(twice).moments
    assert "momentum_buffer.encoder.layers.0.feed_forward.inner.weight" in moments
    assert not [name for name in moments if ".decoder." in name]
