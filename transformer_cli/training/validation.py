"""Validates the model at the end of an epoch. Knows losses and counts, nothing of files."""

import math
import time
from typing import TYPE_CHECKING

from transformer_cli.errors import ConfigError
from transformer_cli.runs.state import TrainingState, Validation
from transformer_cli.system.terminal import counted, note

if TYPE_CHECKING:
    from transformer_cli.training.sentences import Sentences
    from transformer_cli.training.step import Learner


def validate(learner: "Learner", sentences: "Sentences", state: TrainingState) -> Validation:
    """Validate the model at the end of the epoch in progress. All processes return the same.

    Raises ConfigError if training has diverged.
    """
    from transformer_cli.evaluation.losses import corpus_losses

    started, running = time.monotonic(), state.running
    note(f"epoch {state.epoch}: validating")
    valid = corpus_losses(learner.model, sentences.split, sentences.rows, learner.world)
    with learner.world.together():  # all processes find the same
        if not running.batches:
            raise diverged(learner, f"no step of epoch {state.epoch} had a finite loss and gradient")
        if not math.isfinite(valid.loss):
            raise diverged(learner, f"validation loss {valid.loss} in epoch {state.epoch}")
    return Validation(
        epoch=state.epoch,
        step=state.step,
        train_loss=running.nll / running.target_tokens,
        valid_loss=valid.loss,
        train_loss_batch_mean=running.batch_means / running.batches,
        valid_loss_batch_mean=valid.loss_batch_mean,
        valid_ppl=valid.ppl,
        learning_rate=learner.learning_rate,
        target_tokens=running.target_tokens,
        train_seconds=round(running.seconds, 3),
        valid_seconds=round(time.monotonic() - started, 3),
        skipped_steps=running.skipped_steps,
        best=state.best_valid_loss is None or valid.loss < state.best_valid_loss,
    )


def diverged(learner: "Learner", how: str) -> ConfigError:
    """Returns the error for a training that has come to numbers that are not finite."""
    settings = learner.settings
    rates = f"training.learning_rate: {settings.learning_rate:g}"
    if settings.optimizer == "muon":
        rates += f" or muon_learning_rate: {settings.muon_learning_rate:g}"
    return ConfigError(f"{rates} made training diverge ({how}); lower it and train with --fresh")


def as_line(found: Validation, epochs: int) -> str:
    """Returns a validation as a line for the log. epochs: how many epochs the run will have."""
    from transformer_cli.evaluation.losses import perplexity

    return (
        f"epoch {found.epoch:>{len(str(epochs))}}/{epochs}"
        f"  train {found.train_loss:.3f} (PPL {perplexity(found.train_loss):.2f})"
        f"  valid {found.valid_loss:.3f} (PPL {found.valid_ppl:.2f})"
        f"  {found.train_seconds + found.valid_seconds:.1f} s"
        + (f"  {counted(found.skipped_steps, 'step')} skipped (gradient not finite)" if found.skipped_steps else "")
        + ("  best" if found.best else "")
    )
