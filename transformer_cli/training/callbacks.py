"""Callbacks: what a run does besides its steps, validations and saves, and what they see of the trainer.

A new run calls them in this order, from the top of `Callback` to its end; a run that goes on begins with `on_begin`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from transformer_cli.compute.world import World
from transformer_cli.config.schema import Config
from transformer_cli.data.dataset import Dataset, Rows
from transformer_cli.errors import ConfigError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoints import Checkpoint, load_mean
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import TrainingState, Validation
from transformer_cli.scoring.losses import Losses
from transformer_cli.training.learner import Learner
from transformer_cli.training.texts import TrainingTexts


class TrainerView(Protocol):
    """What a callback sees of the `Trainer`."""

    run: Run
    dataset: Dataset
    texts: TrainingTexts
    learner: Learner
    """the model, its optimiser and its device"""
    state: TrainingState
    """how far training has come"""
    validations: list[Validation]
    """those so far, oldest first"""
    world: World
    """the processes of this job"""

    def plan(self) -> Sequence[Rows]:
        """Returns the batches of the epoch in progress, in order."""

    def validation_losses(self, model: Transformer) -> tuple[Losses, Losses | None]:
        """Returns a model's losses of the validation text, and of the further one if there is any.

        All processes must call it, and get the same.
        """


@dataclass(frozen=True)
class FinalWeights:
    """Weights that training ends with instead of those of its last step."""

    model: Transformer
    epochs: Sequence[int] = field(default=())
    """of the validations whose mean they are, if they are a mean"""
    interpolation: float | None = None
    """the share of the initial weights in them, if they have one"""


class Callback:
    """Does nothing. A subclass overrides what it needs; Python's `train` takes it, and the command line takes none.

    `trainer` has `run`, `dataset`, `texts`, `learner` (the model and its optimiser), `state`, `validations` (the fields
    of each are the keys of history.jsonl) and `world` (the processes). A run that goes on calls `on_validation` again
    for its last validation, since a kill may have come before the first call. Under torchrun every process calls its
    callbacks, except where a method says that only the first one does.
    """

    implements: ClassVar[str] = ""
    """the key of a setting that training leaves to callbacks, if it does what that asks for"""

    def before_new_run(self, config: Config, dataset: Dataset, runs_dir: Path) -> None:
        """Read and check what a new run needs. Only the first process calls this.

        An error raised here leaves everything as it was: no folder has been made, and no old run has been moved aside.
        """

    def on_new_run(self, run: Run, start: Checkpoint) -> None:
        """Write files into a new run's folder, and change the weights in `start`. Only the first process calls this."""

    def on_begin(self, trainer: TrainerView) -> None:
        """Add text to `trainer.texts`, of a new run and of one that goes on. No process may wait for another here."""

    def epoch_rows(self, trainer: TrainerView, rows: Rows) -> Rows:
        """Returns the rows of `trainer.texts.train` that the epoch in progress takes, given those it would take.

        They may depend on the epoch and the seed only, so that a run that was killed goes on with the same batches.
        """
        return rows

    def needed_validations(self, trainer: TrainerView) -> Collection[int]:
        """Returns the numbers, from 1, of those validations so far whose weights are to be kept for the end."""
        return ()

    def on_validation(self, trainer: TrainerView) -> None:
        """Use the newest of `trainer.validations`, which has just been saved. Only the first process calls this.

        A run that goes on calls it again for the last validation before: a kill may have come in between.
        """

    def final_weights(self, trainer: TrainerView, weights: FinalWeights | None) -> FinalWeights | None:
        """Returns the weights that training ends with, given those that earlier callbacks have made, if any.

        None: those of the last step. It is asked only if `needed_validations` names any, which are kept for this.
        """
        return weights


def refuse_without_callback(config: Config, callbacks: Sequence[Callback]) -> None:
    """Raises ConfigError for a setting that training would ignore, since no callback carries it out."""
    left_to_callbacks = {
        "model.vectors": config.model.pretrained,
        "training.initialize_from": config.training.initialize_from,
        "training.extra_valid": config.training.extra_valid,
        "training.replay": config.training.replay,
        "training.tensorboard": config.training.tensorboard,
    }
    for key, value in left_to_callbacks.items():
        if value and key not in [each.implements for each in callbacks]:
            raise ConfigError(f"{key}: no callback carries it out; train by transformer_cli.train, or bring one")


class Averaging(Callback):
    """The mean of the last validations' weights (section 6.1), as `training.average_checkpoints` asks for it."""

    def __init__(self, count: int) -> None:
        """count: of how many validations."""
        self.count = count

    def needed_validations(self, trainer: TrainerView) -> range:
        """Returns the numbers of the last validations; patience may have ended a run before there were so many."""
        last = len(trainer.validations)
        return range(max(1, last - self.count + 1), last + 1)

    def final_weights(self, trainer: TrainerView, weights: FinalWeights | None) -> FinalWeights:
        """Returns the mean. Raises CheckpointError if some of these weights are gone."""
        numbers = self.needed_validations(trainer)
        with trainer.world.fail_together():
            mean = load_mean(trainer.run, numbers)
        return FinalWeights(mean, epochs=[trainer.validations[number - 1].epoch for number in numbers])
