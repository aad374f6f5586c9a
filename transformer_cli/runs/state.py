"""The state of training, the description of averaged weights, and the validations, as a run keeps them in JSON.

Imports no torch, so that runs can be listed and verified without it.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transformer_cli.config.load import from_json
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.errors import CheckpointError
from transformer_cli.runs.folder import HISTORY, RESTORE_HINT, as_checkpoint_error, is_new, retry_if_moved
from transformer_cli.runs.run import Run
from transformer_cli.system.files import read_bytes, read_verified_json, sha256_of_bytes

LOSS_CHECK = "loss-check.json"
MAX_KEPT_STEPS = 64  # of a validation


@dataclass
class RunningLoss:
    """Sums over the steps since the last validation, without those that were skipped."""

    nll: float = 0.0
    """in nats"""
    target_tokens: int = 0
    batch_means: float = 0.0
    steps: int = 0
    skipped_steps: int = 0
    """because their loss or gradient was not finite"""
    seconds: float = 0.0
    kept_steps: list[dict[str, int | float]] = field(default_factory=list)
    """see `Validation.steps`"""
    keep_every: int = 1

    def keep(self, step: int, **facts: float) -> None:
        """Keep the facts of a step. Of more than MAX_KEPT_STEPS, keep every second one, then every fourth, …"""
        if step % self.keep_every == 0:
            self.kept_steps.append({"step": step, **facts})
        if len(self.kept_steps) > MAX_KEPT_STEPS:
            self.keep_every *= 2
            self.kept_steps = [each for each in self.kept_steps if each["step"] % self.keep_every == 0]

    def add(self, nll: float, target_tokens: int) -> None:
        """Count one step. nll: the sum over its target tokens, in nats. target_tokens: their number."""
        self.nll += nll
        self.target_tokens += target_tokens
        self.batch_means += nll / target_tokens
        self.steps += 1


@dataclass
class TrainingState:
    """How far training has come. With the weights and the optimiser's moments, this is all that resuming needs.

    It has no random state: the batches follow from (seed, epoch), and dropout from (seed, step, rank, shard).
    """

    step: int = 0
    """optimiser steps so far"""
    epoch: int = 1
    """the epoch in progress, from 1"""
    batch: int = 0
    """batches of the epoch's plan that are done (a step may take several)"""
    n_validations: int = 0
    best_valid_loss: float | None = None
    """that of the best validation: the one with the lowest `error_of`"""
    validations_since_best: int = 0
    running: RunningLoss = field(default_factory=RunningLoss)
    skipped_in_a_row: int = 0
    """the steps since the last one whose loss and gradient were finite"""
    history_sha256: str = field(default="", compare=False)
    """the SHA-256 of history.jsonl when this was saved"""
    best_score: float | None = None
    """valid_score of the best validation"""

    @property
    def is_validated(self) -> bool:
        """Whether no step has been taken since the last validation."""
        return self.running.steps + self.running.skipped_steps == 0

    @property
    def is_best(self) -> bool:
        """Whether this state directly follows a validation that was the best so far."""
        return self.best_valid_loss is not None and self.validations_since_best == 0 and self.is_validated

    @property
    def best_error(self) -> float:
        """`error_of` the best validation so far; infinite if there is none."""
        return math.inf if self.best_valid_loss is None else error_of(self.best_valid_loss, self.best_score)

    def count_validation(self, validation: "Validation") -> None:
        """Count a validation, and reset the running training loss."""
        if validation.best:
            self.best_valid_loss, self.best_score = validation.valid_loss, validation.valid_score
        self.validations_since_best = 0 if validation.best else self.validations_since_best + 1
        self.n_validations, self.running = self.n_validations + 1, RunningLoss()

    def validation_is_due(self, training: TrainingConfig, *, ends_epoch: bool) -> bool:
        """Whether to validate now. ends_epoch: all batches of the epoch are done."""
        if training.initialize_from is not None and not self.n_validations:
            return True  # the initial weights
        if self.is_validated:
            return False
        is_last_epoch = training.max_steps is None and self.epoch >= training.epochs
        if (ends_epoch and is_last_epoch) or (training.max_steps is not None and self.step >= training.max_steps):
            return True
        return ends_epoch if training.validate_every is None else self.step % training.validate_every == 0

    def patience_is_spent(self, training: TrainingConfig) -> bool:
        """Whether the last `training.patience` validations were no better than one before them."""
        return training.patience is not None and self.validations_since_best >= training.patience

    def has_ended(self, training: TrainingConfig) -> bool:
        """Whether all epochs or steps are done and validated, or the patience is spent."""
        is_done = self.epoch > training.epochs if training.max_steps is None else self.step >= training.max_steps
        return (is_done and self.is_validated) or self.patience_is_spent(training)


def error_of(loss: float, score: float | None) -> float:
    """Returns the error by which weights are compared (lower is better): 100 - score, or without a score the loss."""
    return loss if score is None else 100.0 - score


@dataclass(frozen=True, kw_only=True)
class Average:
    """Averaged weights, made at the end of training, and their validation. Losses are in nats per target token."""

    epochs: list[int]
    """for a mean of weights, the epochs of their validations; else []"""
    step: int
    """optimiser steps of the run"""
    valid_loss: float
    valid_loss_batch_mean: float
    valid_ppl: float
    interpolation: float | None = None
    """the share of the initial weights; None without training.extra_valid"""
    extra_valid_loss: float | None = None
    valid_score: float | None = None

    @property
    def error(self) -> float:
        """The error that is compared with those of validations: see `error_of`."""
        return error_of(self.valid_loss, self.valid_score)


@dataclass(frozen=True, kw_only=True)
class Validation:
    """One line of history.jsonl: its fields are the keys, in their order. Losses are in nats per target token."""

    epoch: int
    """the epoch in progress, or the one that has just ended, from 1; 0 for the initial weights of finetuning"""
    step: int
    """optimiser steps so far"""
    train_loss: float | None
    """mean over the steps since the last validation, with dropout; None before the first step"""
    valid_loss: float
    """mean over the validation split"""
    train_loss_batch_mean: float | None
    """mean of the steps' mean losses"""
    valid_loss_batch_mean: float
    """see scoring.losses.Losses"""
    valid_ppl: float
    """exp(valid_loss)"""
    learning_rate: float
    """the learning rate of the last step"""
    target_tokens: int
    """target tokens of the steps since the last validation, <eos> included"""
    train_seconds: float
    valid_seconds: float
    skipped_steps: int
    """steps that were skipped because their loss or gradient was not finite"""
    best: bool
    """whether `error_of` this validation is the lowest so far; always if the last one is the best"""
    target_tokens_per_second: float
    """target_tokens / train_seconds"""
    date: str
    """when the validation ended (UTC, ISO 8601)"""
    extra_valid_loss: float | None = None
    """valid_loss of training.extra_valid, if that is set"""
    valid_score: float | None = None
    """BLEU or chrF of greedy translations of the validation split, if training.best_checkpoint_metric asks for it"""
    steps: list[dict[str, int | float]] = field(default_factory=list)
    """some of the steps since the last validation, evenly spaced, without skipped ones: "step", "loss" (mean over its
    target tokens, with dropout), "learning_rate" and "gradient_norm" (before clipping)"""
    examples: list[dict[str, str]] = field(default_factory=list)
    """as many sentences of the validation split as training.examples says, as "source", "reference" and
    "translation" (greedy)"""


def load_state(checkpoint: Path) -> TrainingState:
    """Load a checkpoint's state.json. Raises CheckpointError."""
    with as_checkpoint_error():
        path = checkpoint / "state.json"
        return from_json(TrainingState, read_verified_json(path), path)


def load_average(run: Run, pointer: str = "average") -> Average | None:
    """Returns the average to which a pointer points; None if that is no average. Raises CheckpointError."""
    if not run.has_checkpoint(pointer):
        return None
    path = run.checkpoint(pointer) / "average.json"
    if not path.parent.name.startswith("average-"):
        return None
    with as_checkpoint_error():
        return from_json(Average, read_verified_json(path), path)


def best_pointer(state: TrainingState, best: Average | None, average: Average | None) -> str:
    """Returns the pointer to the checkpoint that is the best from now on: `best` itself, `last` or `average`.

    state: that of `last`. best, average: the averaged weights that these pointers name, if they name any. An
    interpolation, which two texts have chosen, is the best as soon as it is made. Otherwise the lowest error decides,
    and the older one of equal errors.
    """
    is_chosen = average is not None and average.interpolation is not None and average.step == state.step
    rivals = [
        ("best", best.error if best else math.inf),
        ("last" if state.is_best else "best", state.best_error),
        ("average", -math.inf if is_chosen else average.error if average else math.inf),
    ]
    return min(rivals, key=lambda rival: rival[1])[0]


def has_final_weights(run: Run, state: TrainingState) -> bool:
    """Whether the averaged weights have been made after the last step. Raises CheckpointError."""
    average = load_average(run)
    return average is not None and average.step == state.step


def first_history_lines(run: Run, number: int) -> bytes:
    """Returns the first `number` lines of a run's history. Raises CheckpointError."""
    with as_checkpoint_error():
        return b"".join(read_bytes(run.folder / HISTORY).splitlines(keepends=True)[:number])


def read_validations(run: Run, state: TrainingState) -> list[Validation]:
    """Returns the validations up to a checkpoint's state, oldest first. Raises CheckpointError.

    history.jsonl may have one more, if the process was killed before it wrote the next checkpoint.
    """
    lines = first_history_lines(run, state.n_validations)
    if sha256_of_bytes(lines) != state.history_sha256:
        damage = f"damaged: its first {state.n_validations} lines are not those that were saved"
        raise CheckpointError(f"{run.folder / HISTORY}: {damage}; {RESTORE_HINT}")
    return [Validation(**json.loads(line)) for line in lines.splitlines()]


def best_of(validations: Sequence[Validation]) -> Validation:
    """Returns the last validation that is marked as the best; if none is marked, the one with the lowest error."""
    marked = [each for each in validations if each.best]
    return marked[-1] if marked else min(validations, key=lambda each: error_of(each.valid_loss, each.valid_score))


def validations_so_far(run: Run) -> list[Validation]:
    """Returns the validations up to the last checkpoint, oldest first, also of a run in training.

    Raises CheckpointError.
    """
    if is_new(run.folder):
        return []
    return retry_if_moved(run.folder / "last", lambda: read_validations(run, load_state(run.checkpoint("last"))))
