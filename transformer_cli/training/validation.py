"""Validates the model at the end of an epoch. Knows losses and counts, nothing of files.

Imports no torch by itself: `tfm curves` and `tfm verify` read validations.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from transformer_cli.errors import ConfigError
from transformer_cli.runs.state import TrainingState
from transformer_cli.system.terminal import counted, note

if TYPE_CHECKING:
    from transformer_cli.training.sentences import Sentences
    from transformer_cli.training.step import Learner


@dataclass(frozen=True)
class Validation:
    """One line of history.jsonl: its fields are the keys, in their order. Losses are in nats per target token."""

    epoch: int
    """the epoch that has just ended, from 1"""
    step: int
    """optimiser steps so far"""
    train_loss: float
    """mean over the epoch's target tokens, with dropout, while the weights changed"""
    valid_loss: float
    """mean over the validation split's target tokens"""
    train_loss_batch_mean: float
    """mean of the steps' mean losses"""
    valid_loss_batch_mean: float
    """see evaluation.losses.Losses"""
    valid_ppl: float
    """exp(valid_loss)"""
    learning_rate: float
    """the learning rate of the epoch's last step"""
    target_tokens: int
    """how many target tokens the epoch trained on, <eos> included"""
    train_seconds: float
    valid_seconds: float
    skipped_steps: int
    """steps that were skipped because their gradient was not finite"""
    best: bool
    """whether valid_loss is lower than all earlier ones"""

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Validation":
        """The inverse of `as_json`. Raises TypeError if keys are missing or unknown."""
        return Validation(**value)

    def as_json(self) -> dict[str, Any]:
        """Returns the keys and values of its line in history.jsonl."""
        return asdict(self)

    def line(self, epochs: int) -> str:
        """Returns a line for the log. epochs: how many epochs the run will have."""
        from transformer_cli.evaluation.losses import perplexity

        return (
            f"epoch {self.epoch:>{len(str(epochs))}}/{epochs}"
            f"  train {self.train_loss:.3f} (PPL {perplexity(self.train_loss):.2f})"
            f"  valid {self.valid_loss:.3f} (PPL {self.valid_ppl:.2f})"
            f"  {self.train_seconds + self.valid_seconds:.1f} s"
            + (f"  {counted(self.skipped_steps, 'step')} skipped (gradient not finite)" if self.skipped_steps else "")
            + ("  best" if self.best else "")
        )


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
