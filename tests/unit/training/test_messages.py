"""The lines of the log that tell of a validation."""

from dataclasses import replace

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Validation
from transformer_cli.training.messages import validation_as_line


def test_validation_as_line_has_losses_seconds_and_skips(tiny: Run) -> None:
    losses = {"train_loss": 1.25, "valid_loss": 0.1 + 0.2, "valid_ppl": 1.35, "best": True}
    seconds = {"train_seconds": 12.345, "valid_seconds": 0.5}
    found = Validation(**{**tiny.history()[0], "epoch": 3, "step": 120, **losses, **seconds})
    training = TrainingConfig(epochs=10)
    line = "epoch  3/10  train 1.250 (PPL 3.49)  valid 0.300 (PPL 1.35)  12.8 s"
    assert validation_as_line(found, training) == f"{line}  best"
    worse = replace(found, best=False, skipped_steps=2)
    assert validation_as_line(worse, training) == f"{line}  2 steps skipped (gradient not finite)"
    by_steps = TrainingConfig(max_steps=1000, validate_every=40)
    assert validation_as_line(found, by_steps) == f"step   120/1,000 (epoch 3){line[11:]}  best"
    assert validation_as_line(found, TrainingConfig(validate_every=40)) == f"step 120 (epoch 3){line[11:]}  best"
