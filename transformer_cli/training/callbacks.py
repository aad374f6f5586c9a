"""Callbacks do what training does besides steps, validations and checkpoints; `TrainerView` is what they see of it.

The methods of `Callback` stand in the order in which a new run calls them; a resumed run begins with `on_begin`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
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
        """Returns a model's losses on the validation text, and on the extra one if there is any.

        Collective: all processes must call it, and get the same.
        """


@dataclass(frozen=True)
class FinalWeights:
    """Weights that a callback makes at the end of training, besides those of the last step."""

    model: Transformer
    epochs: Sequence[int] = ()
    """for a mean, the epochs of its validations"""
    interpolation: float | None = None
    """for an interpolation, the share of the initial weights"""


class Callback:
    """Base class: does nothing. Override the methods you need, and pass an instance to Python's `train`.

    `trainer` has `run`, `dataset`, `texts`, `learner` (the model and its optimiser), `state`, `validations` (with the
    keys of history.jsonl as fields) and `world` (the processes). Under torchrun every process calls its callbacks,
    except where a method says that only the main process does.
    """

    implements: ClassVar[str] = ""
    """the setting that this callback implements, such as training.replay; "" for none"""

    def before_new_run(self, config: Config, dataset: Dataset, runs_dir: Path) -> None:
        """Read and check what a new run needs. Only the main process calls this.

        If it raises an error, nothing has changed: no folder has been made, and no old run has been moved aside.
        """

    def on_new_run(self, run: Run, checkpoint: Checkpoint) -> None:
        """Write files into a new run's folder, and set initial weights in `checkpoint`. Main process only."""

    def on_begin(self, trainer: TrainerView) -> None:
        """Add text to `trainer.texts`, whether the run is new or resumed. No collective calls inside."""

    def epoch_rows(self, trainer: TrainerView, rows: Rows) -> Rows:
        """Returns the rows of `trainer.texts.train` to train on in this epoch: `rows`, or others.

        The result may depend on the epoch and the seed only, so that a resumed run takes the same batches.
        """
        return rows

    def on_gradients(self, trainer: TrainerView) -> None:
        """Read or change the gradients of step `trainer.state.step + 1`, before they are clipped and applied.

        They are in the `grad` of the parameters of `trainer.learner.model`, summed over all shards and processes. The
        change may depend only on the weights, the gradients, the step and the seed: a resumed run then takes the same
        steps.
        """

    def needed_validations(self, trainer: TrainerView) -> Collection[int]:
        """Returns the numbers, from 1, of the validations so far whose weights `final_weights` needs."""
        return ()

    def score(self, trainer: TrainerView, model: Transformer) -> float | None:
        """Returns the score of a model by which validations are compared, 0 to 100, or None. Main process only.

        Called only if `training.best_checkpoint_metric` is bleu or chrf; the first callback with a score decides.
        """
        return None

    def examples(self, trainer: TrainerView) -> list[dict[str, str]]:
        """Returns `Validation.examples`. No collective calls inside."""
        return []

    def on_validation(self, trainer: TrainerView) -> None:
        """Use `trainer.validations[-1]`, after its checkpoint has been saved. Only the main process calls this.

        A resumed run calls it again for its last validation, in case it was killed before the first call.
        """

    def final_weights(self, trainer: TrainerView, weights: FinalWeights | None) -> FinalWeights | None:
        """Returns averaged weights, to be saved at the end of training, or None.

        weights: what the callback before this one has returned. Called only if `needed_validations` returns any.
        """
        return weights

    def on_end(self, trainer: TrainerView) -> None:
        """Finish: training has ended, was stopped or has failed. Only the main process calls this."""


def keys_of_callbacks(config: Config) -> list[str]:
    """Returns the settings in use that callbacks implement, by dotted key, in the order of the callbacks."""
    values = {
        "model.vectors": config.model.pretrained,
        "training.initialize_from": config.training.initialize_from,
        "training.extra_valid": config.training.extra_valid,
        "training.replay": config.training.replay,
        "training.tensorboard": config.training.tensorboard,
        "training.best_checkpoint_metric": config.training.needs_scores,
        "training.examples": config.training.examples,
    }
    return [key for key, value in values.items() if value]


def refuse_without_callback(config: Config, callbacks: Sequence[Callback]) -> None:
    """Raises ConfigError for a setting that training would ignore, since no callback implements it."""
    for key in keys_of_callbacks(config):
        if key not in [each.implements for each in callbacks]:
            raise ConfigError(f"{key}: no callback implements it; use transformer_cli.train, or pass one that does")


class Averaging(Callback):
    """The mean of the last validations' weights (section 6.1), as `training.average_checkpoints` asks for it."""

    def __init__(self, count: int) -> None:
        """count: of how many validations."""
        self.count = count

    def needed_validations(self, trainer: TrainerView) -> range:
        """Returns the numbers of the last `count` validations; of fewer if patience has ended the run early."""
        last = len(trainer.validations)
        return range(max(1, last - self.count + 1), last + 1)

    def final_weights(self, trainer: TrainerView, weights: FinalWeights | None) -> FinalWeights:
        """Returns the mean. Raises CheckpointError if some of these weights are gone."""
        numbers = self.needed_validations(trainer)
        with trainer.world.fail_together():
            mean = load_mean(trainer.run, numbers)
        return FinalWeights(mean, epochs=[trainer.validations[number - 1].epoch for number in numbers])
