"""Muon beside torch's own and which weights it takes; Adam's settings; learning rates worked out by hand."""

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
from transformer_cli.training import optimisers as module
from transformer_cli.training.optimisers import layer_matrices, learning_rate, make_optimizer, orthogonalize

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
def test_orthogonalize_sets_singular_values_near_1(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(3)
    u, _, v = torch.linalg.svd(torch.randn(shape, generator=generator, dtype=torch.float64), full_matrices=False)
    sizes = torch.linspace(0.02, 1.0, u.shape[-1], dtype=torch.float64)
    found = u.mT @ orthogonalize(u * sizes @ v) @ v.mT  # diagonal, if the singular vectors are the same
    values = found.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(found, torch.diag_embed(values))
    assert 0.6 < values.min() < values.max() < 1.25


def test_orthogonalize_keeps_zeros() -> None:
    assert not orthogonalize(torch.zeros(1, 4, 4)).any()


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_layer_matrices_are_the_wide_weights_of_the_layers(variant: dict[str, Any]) -> None:
    model = make_model(**variant)
    names = {id(weight): name for name, weight in model.named_parameters()}
    found = {names[id(weight)]: parts for weight, parts in layer_matrices(model).items()}
    wide = {name for name, weight in model.named_parameters() if ".layers." in name and weight.ndim == 2}
    assert found.keys() == wide
    assert {parts for name, parts in found.items() if "qkv" in name} == {3}
    assert {parts for name, parts in found.items() if "qkv" not in name} == {1}


def test_muon_updates_other_weights_as_adam_does(model: Transformer) -> None:
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


def test_muon_equals_torchs_for_each_stacked_matrix(model: Transformer) -> None:
    matrices = [part.detach().clone() for weight, n in layer_matrices(model).items() for part in weight.chunk(n)]
    theirs = torch.optim.Muon(matrices, lr=0.03, weight_decay=0.0)
    for seed in (2, 3):
        draw_gradients(model, seed)
        gradients = [part for weight, n in layer_matrices(model).items() for part in weight.grad.chunk(n)]  # type: ignore[union-attr]
        for matrix, gradient in zip(matrices, gradients, strict=True):
            matrix.grad = gradient
        theirs.step()
    before = [part.detach().clone() for weight, n in layer_matrices(model).items() for part in weight.chunk(n)]
    steps(model, module.AdamAndMuon(model, matrices=layer_matrices(model), lr_ratio=3.0, dtype=torch.bfloat16, lr=1e-2))
    ours = [part.detach() for weight, n in layer_matrices(model).items() for part in weight.chunk(n)]
    for mine, yours, start in zip(ours, matrices, before, strict=True):
        # Newton–Schulz in bfloat16 has few digits: compare with how far the weights have moved.
        assert (mine - yours).norm() < 0.05 * (mine - start).norm()


def test_train_by_muon_keeps_no_moments_of_frozen_parts(train_tiny: TrainTiny, tmp_path: Path) -> None:
    moments = load_last(train_tiny(tmp_path, "training.epochs=1", *FREEZING)).moments
    assert "momentum_buffer.encoder.layers.0.feed_forward.inner.weight" in moments
    assert not [name for name in moments if ".decoder." in name]


CONSTANT = TrainingConfig(learning_rate=5e-4)
WARM = TrainingConfig(learning_rate=1e-3, warmup_steps=4)
INVERSE_SQRT = TrainingConfig(learning_rate=1e-3, schedule="inverse_sqrt", warmup_steps=4)
COSINE = TrainingConfig(learning_rate=1e-3, schedule="cosine")
WARM_COSINE = TrainingConfig(learning_rate=1e-3, schedule="cosine", warmup_steps=4)


def test_needs_horizon_unless_known_to_ignore_progress() -> None:
    own = COSINE.model_copy(update={"schedule": "linear"})  # as a reader may add it
    kinds = [COSINE.model_copy(update={"schedule": name}) for name in ("constant", "inverse_sqrt")]
    assert [each.needs_horizon for each in (own, COSINE, *kinds)] == [True, True, False, False]


RATES: dict[str, tuple[TrainingConfig, int, float | None, float]] = {  # settings, step, progress, rate
    "constant from the first step": (CONSTANT, 1, None, 5e-4),
    "constant, whatever is done": (CONSTANT, 1, 0.7, 5e-4),
    "a quarter of the warm-up": (WARM, 1, None, 2.5e-4),
    "warm": (WARM, 4, None, 1e-3),
    "then constant for ever": (WARM, 10_000, 0.7, 1e-3),
    "inverse_sqrt warms up as well": (INVERSE_SQRT, 1, None, 2.5e-4),
    "peak": (INVERSE_SQRT, 4, None, 1e-3),
    "four times the steps, half the rate": (INVERSE_SQRT, 16, None, 5e-4),
    "a hundred times, a tenth": (INVERSE_SQRT, 400, 0.7, 1e-4),
    "cosine begins at the peak": (COSINE, 1, 0.0, 1e-3),
    "slowly at first": (COSINE, 9, 1 / 3, 7.5e-4),
    "half of it in the middle": (COSINE, 9, 0.5, 5e-4),
    "slowly at last": (COSINE, 9, 2 / 3, 2.5e-4),
    "ends at nothing": (COSINE, 9, 1.0, 0.0),
    "cosine with a quarter of the warm-up": (WARM_COSINE, 1, 0.0, 2.5e-4),
    "both at once": (WARM_COSINE, 2, 1 / 3, 3.75e-4),
    "cosine, warm": (WARM_COSINE, 4, 0.5, 5e-4),
}


@pytest.mark.parametrize(("training", "step", "progress", "expected"), RATES.values(), ids=RATES)
def test_learning_rate_equals_values_by_hand(
    training: TrainingConfig, step: int, progress: float | None, expected: float
) -> None:
    assert learning_rate(training, step, progress) == pytest.approx(expected, rel=1e-12, abs=1e-18)


def test_adam_has_all_settings_and_weights() -> None:
    config = ModelConfig(d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=8)
    model = Transformer(config, source_vocabulary=5, target_vocabulary=6, pad_id=1)
    training = TrainingConfig(learning_rate=2e-4, betas=(0.9, 0.98), eps=1e-9)
    optimizer = make_optimizer(model, training)
    (group,) = optimizer.param_groups
    assert (group["lr"], group["betas"], group["eps"], group["weight_decay"]) == (2e-4, (0.9, 0.98), 1e-9, 0)
    assert {id(parameter) for parameter in group["params"]} == {id(parameter) for parameter in model.parameters()}
