"""A validation as a line of the history and as a line of the log."""

from dataclasses import replace

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.runs.state import Validation
from transformer_cli.training.record import as_line

FOUND = Validation(
    epoch=3,
    step=120,
    train_loss=1.25,
    valid_loss=0.1 + 0.2,
    train_loss_batch_mean=1.5,
    valid_loss_batch_mean=0.75,
    valid_ppl=1.35,
    learning_rate=5e-4,
    target_tokens=4000,
    train_seconds=12.345,
    valid_seconds=0.5,
    skipped_steps=0,
    best=True,
    target_tokens_per_second=324.0,
    date="2026-01-01T00:00:00+00:00",
)


def test_as_line_names_losses_seconds_and_what_is_unusual() -> None:
    training = TrainingConfig(epochs=10)
    line = "epoch  3/10  train 1.250 (PPL 3.49)  valid 0.300 (PPL 1.35)  12.8 s"
    assert as_line(FOUND, training) == f"{line}  best"
    worse = replace(FOUND, best=False, skipped_steps=2)
    assert as_line(worse, training) == f"{line}  2 steps skipped (gradient not finite)"
    by_steps = TrainingConfig(steps=1000, validate_every=40)
    assert as_line(FOUND, by_steps) == f"step   120/1,000 (epoch 3){line[11:]}  best"
    assert as_line(FOUND, TrainingConfig(validate_every=40)) == f"step 120 (epoch 3){line[11:]}  best"
