"""Adam's settings, and its learning rate at steps worked out by hand."""

import pytest

from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.model.transformer import Transformer
from transformer_cli.training.optimisers import learning_rate, make_optimizer

CONSTANT = TrainingConfig(learning_rate=5e-4)
WARM = TrainingConfig(learning_rate=1e-3, warmup_steps=4)
INVERSE_SQRT = TrainingConfig(learning_rate=1e-3, schedule="inverse_sqrt", warmup_steps=4)
COSINE = TrainingConfig(learning_rate=1e-3, schedule="cosine")
WARM_COSINE = TrainingConfig(learning_rate=1e-3, schedule="cosine", warmup_steps=4)


@pytest.mark.parametrize("progress", [0.0, 0.7])
@pytest.mark.parametrize(
    ("training", "step", "expected"),
    [
        pytest.param(CONSTANT, 1, 5e-4, id="constant from the first step"),
        pytest.param(WARM, 1, 2.5e-4, id="a quarter of the warm-up"),
        pytest.param(WARM, 4, 1e-3, id="warm"),
        pytest.param(WARM, 10_000, 1e-3, id="then constant for ever"),
        pytest.param(INVERSE_SQRT, 1, 2.5e-4, id="inverse_sqrt warms up as well"),
        pytest.param(INVERSE_SQRT, 4, 1e-3, id="peak"),
        pytest.param(INVERSE_SQRT, 16, 5e-4, id="four times the steps, half the rate"),
        pytest.param(INVERSE_SQRT, 400, 1e-4, id="a hundred times, a tenth"),
    ],
)
def test_learning_rate_at_steps_worked_out_by_hand(
    training: TrainingConfig, step: int, expected: float, progress: float
) -> None:
    assert learning_rate(training, step, progress) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("training", "step", "progress", "expected"),
    [
        pytest.param(COSINE, 1, 0.0, 1e-3, id="begins at the peak"),
        pytest.param(COSINE, 9, 1 / 3, 7.5e-4, id="slowly at first"),
        pytest.param(COSINE, 9, 0.5, 5e-4, id="half of it in the middle"),
        pytest.param(COSINE, 9, 2 / 3, 2.5e-4, id="slowly at last"),
        pytest.param(COSINE, 9, 1.0, 0.0, id="ends at nothing"),
        pytest.param(WARM_COSINE, 1, 0.0, 2.5e-4, id="a quarter of the warm-up"),
        pytest.param(WARM_COSINE, 2, 1 / 3, 3.75e-4, id="both at once"),
        pytest.param(WARM_COSINE, 4, 0.5, 5e-4, id="warm"),
    ],
)
def test_learning_rate_of_cosine_worked_out_by_hand(
    training: TrainingConfig, step: int, progress: float, expected: float
) -> None:
    assert learning_rate(training, step, progress) == pytest.approx(expected, rel=1e-12, abs=1e-18)


def test_adam_takes_its_settings_and_every_weight() -> None:
    config = ModelConfig(d_model=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=8)
    model = Transformer(config, source_vocabulary=5, target_vocabulary=6, pad_id=1)
    training = TrainingConfig(learning_rate=2e-4, betas=(0.9, 0.98), eps=1e-9)
    optimizer = make_optimizer(model, training)
    (group,) = optimizer.param_groups
    assert (group["lr"], group["betas"], group["eps"], group["weight_decay"]) == (2e-4, (0.9, 0.98), 1e-9, 0)
    assert {id(parameter) for parameter in group["params"]} == {id(parameter) for parameter in model.parameters()}
