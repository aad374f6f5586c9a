"""What a checkpoint says in JSON: how far training had come, what averaged weights are, and the sums of its files.

sums.json makes a folder one checkpoint of one run and no other: it has the id of the run, the folder's name, the sums
of its files, for what training resumes from the sum of the history so far, and its own sum.

Imports no torch, so that a run can be described and verified without it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from transformer_cli.errors import CheckpointError
from transformer_cli.runs.run import HISTORY, RESTORE, Run, is_new, steadily, told_as_damage
from transformer_cli.system.reading import as_record, look_up, read_json, shown
from transformer_cli.system.sums import check_file, file_sums, read_sealed, text_sum, write_sealed

SUMS = "sums.json"


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

    def as_json(self) -> dict[str, Any]:
        """Returns the keys and values of its line in history.jsonl."""
        return asdict(self)


def load_state(run: Run) -> TrainingState:
    """Load the state of training at the last save. Raises CheckpointError."""
    path = run.checkpoint("last") / "state.json"
    check_sealed(path, run)
    with told_as_damage(path):
        state = as_record(TrainingState, read_json(path))
        if int(path.parent.name.split("-")[1]) != state.step:
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
    check_sealed(path, run)
    with told_as_damage(path):
        average = as_record(Average, read_json(path))
        if path.parent.name != f"average-{average.step:07d}":
            raise ValueError(f"step: {average.step} is not that of {path.parent.name}")
    return average


def seal(unfinished: Path, name: str, run: Run, *, validations: int | None = None) -> None:
    """Write sums.json when all other files of a checkpoint are written, in the folder that will get a name.

    validations: the first so many lines of the run's history belong to this checkpoint (None: it has no history).
    """
    history = {} if validations is None else {"history": _history_sum(run, validations)}
    about = {"run": run.identity.id, "checkpoint": name, **history}
    write_sealed(unfinished / SUMS, {**about, "files": file_sums(unfinished)})


def read_seal(folder: Path, run: Run) -> Mapping[str, Any]:
    """Returns what sums.json of a checkpoint says.

    Raises CheckpointError if it is missing or damaged, or belongs to another run or another checkpoint.
    """
    path = folder / SUMS
    with told_as_damage(path):
        value = read_sealed(path)
        look_up(value, "files", dict)
        if look_up(value, "run", str) != run.identity.id:
            raise ValueError("it is of another run")
        if look_up(value, "checkpoint", str) != folder.name:
            raise ValueError(f"it is of {shown(value['checkpoint'])}")
    return value


def check_sealed(path: Path, run: Run) -> None:
    """Raises CheckpointError unless a file of a checkpoint has the sum that sums.json knows."""
    sums = read_seal(path.parent, run)["files"]
    with told_as_damage(path):
        check_file(path, sums, up_to=None)


def read_validations(run: Run, state: TrainingState) -> list[Validation]:
    """Returns the validations up to a save, oldest first; a later validation, whose save was cut off, is left out.

    Raises CheckpointError if a validation is missing or damaged.
    """
    path = run.folder / HISTORY
    found = []
    for number, entry in enumerate(run.history(), start=1):
        try:
            found.append(as_record(Validation, entry))
            if found[-1].epoch != number:
                raise ValueError(f"epoch: {found[-1].epoch} should be {number}")
        except ValueError as error:
            raise CheckpointError(f"{path}: damaged: line {number}: {error}; {RESTORE}") from None
    kept = [each for each in found if each.epoch < state.epoch]
    if len(kept) != state.epoch - 1:  # every epoch ends with one
        raise CheckpointError(f"{path}: damaged: {len(kept)} of {state.epoch - 1} validations; {RESTORE}")
    last = run.checkpoint("last")
    if read_seal(last, run).get("history") != _history_sum(run, len(kept)):
        raise CheckpointError(f"{path}: damaged: its first {len(kept)} lines are not those of {last.name}; {RESTORE}")
    return kept


def validations_so_far(run: Run) -> list[Validation]:
    """Returns the validations up to the last save of a run that may be in training, oldest first.

    Raises CheckpointError as `read_validations` does.
    """
    if is_new(run.folder):
        return []
    return steadily(run.folder / "last", lambda: read_validations(run, load_state(run)))


def _history_sum(run: Run, validations: int) -> str:
    """Returns the CRC-32 of the first so many lines of the history. Raises CheckpointError if it cannot be read."""
    return text_sum("".join(f"{line}\n" for line in run.history_lines()[:validations]))
