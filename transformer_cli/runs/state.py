"""What a checkpoint says in JSON: how far training had come at a save, and what averaged weights are.

Imports no torch, so that a run can be described without it.
"""

from dataclasses import dataclass, field

from transformer_cli.runs.identity import told_as_damage
from transformer_cli.runs.run import Run
from transformer_cli.runs.seals import check_sealed
from transformer_cli.system.reading import as_record, read_json


@dataclass
class RunningLoss:
    """Sums over the steps since the last validation, without steps that were skipped because of a non-finite gradient.

    All batches of a step (`training.accumulate`) and the parts of all processes count as one batch.
    """

    nll: float = 0.0
    target_tokens: int = 0
    batch_means: float = 0.0
    batches: int = 0
    skipped_steps: int = 0
    seconds: float = 0.0

    def add(self, nll: float, target_tokens: int) -> None:
        """Count one step. nll: the sum of its target tokens' losses, in nats. target_tokens: how many these are."""
        self.nll += nll
        self.target_tokens += target_tokens
        self.batch_means += nll / target_tokens
        self.batches += 1


@dataclass
class TrainingState:
    """How far training has come. With the weights and Adam's moments, this is all that is needed to resume exactly.

    The order of batches follows from (seed, epoch), and dropout from (seed, step, rank), so no random state is kept.
    """

    step: int = 0
    """optimiser steps so far"""
    epoch: int = 1
    """the epoch in progress, from 1"""
    batch: int = 0
    """batches of the epoch's plan that are done (a step may take several)"""
    best_valid_loss: float | None = None
    validations_since_best: int = 0
    running: RunningLoss = field(default_factory=RunningLoss)
    skipped_in_a_row: int = 0
    """how many of the last steps were skipped, because their loss or gradient was not finite"""

    @property
    def is_best(self) -> bool:
        """Whether this state directly follows a validation that was the best so far."""
        return self.best_valid_loss is not None and self.batch == self.validations_since_best == 0

    def end_epoch(self, valid_loss: float, *, is_best: bool) -> None:
        """Count a validation, and move on to the next epoch."""
        if is_best:
            self.best_valid_loss = valid_loss
        self.validations_since_best = 0 if is_best else self.validations_since_best + 1
        self.epoch, self.batch, self.running = self.epoch + 1, 0, RunningLoss()


@dataclass(frozen=True)
class Average:
    """The mean of some epochs' weights, validated. Losses are in nats per target token."""

    epochs: list[int]
    step: int
    """optimiser steps after which it was made"""
    valid_loss: float
    valid_loss_batch_mean: float
    valid_ppl: float


def load_state(run: Run) -> TrainingState:
    """Load the state of training at the last save. Raises CheckpointError."""
    path = run.checkpoint("last") / "state.json"
    check_sealed(path, run.identity.id)
    with told_as_damage(path):
        value = read_json(path)
        if not run.identity.id and isinstance(value, dict):  # an older tfm did not count them
            value = {"skipped_in_a_row": 0, **value}
        state = as_record(TrainingState, value)
        if int(path.parent.name.removeprefix("step-")) != state.step:
            raise ValueError(f"step: {state.step} is not that of {path.parent.name}")
        if state.epoch < 1:
            raise ValueError(f"epoch: {state.epoch} should be at least 1")
    return state


def load_average(run: Run, pointer: str = "average") -> Average | None:
    """Returns the average that `average`, or another pointer, names; None if it names none. Raises CheckpointError."""
    if not run.has_checkpoint(pointer):
        return None
    path = run.checkpoint(pointer) / "average.json"
    if not path.parent.name.startswith("average-"):
        return None
    check_sealed(path, run.identity.id)
    with told_as_damage(path):
        average = as_record(Average, read_json(path))
        if path.parent.name != f"average-{average.step:07d}":
            raise ValueError(f"step: {average.step} is not that of {path.parent.name}")
    return average
