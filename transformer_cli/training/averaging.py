"""Validates the mean of the last epochs' weights when training has ended (`training.average`, section 6.1)."""

import logging

from transformer_cli.evaluation.losses import corpus_losses
from transformer_cli.runs.checkpoints import forget_epochs, keep_average, load_mean, save_epoch
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Average, TrainingState, load_average
from transformer_cli.training.sentences import Sentences
from transformer_cli.training.step import Learner

log = logging.getLogger(__name__)


def keep_epoch(run: Run, learner: Learner, epoch: int) -> None:
    """Keep the weights at the end of an epoch for the mean. To be called before that epoch is saved."""
    if learner.settings.average and learner.world.is_first:
        save_epoch(run, learner.model, epoch)


def forget_old_epochs(run: Run, learner: Learner, epoch: int) -> None:
    """Delete the weights that no mean after this epoch needs. To be called after that epoch was saved."""
    if learner.settings.average and learner.world.is_first:
        forget_epochs(run, before=epoch - learner.settings.average + 1)


def average_epochs(run: Run, learner: Learner, sentences: Sentences, state: TrainingState) -> None:
    """Validate the mean of the last epochs' weights and save it; it becomes the best checkpoint if it is better.

    Does nothing without `training.average`, or if this has been done. state: that of the last save, which ended an
    epoch. Raises CheckpointError if the weights of an epoch are gone.
    """
    if learner.settings.average is None:
        return
    ended = state.epoch - 1
    epochs = range(max(1, ended - learner.settings.average + 1), ended + 1)  # patience may have ended a run early
    forget_old_epochs(run, learner, ended)  # a kill may have come before
    with learner.world.together():
        made = load_average(run)
        is_made = made is not None and made.step == state.step
        if not is_made:
            model = load_mean(run, epochs).to(learner.device)
    if is_made:
        return
    found = corpus_losses(model, sentences.split, sentences.rows, learner.world)
    average = Average([*epochs], state.step, found.loss, found.loss_batch_mean, found.ppl)
    is_best = learner.world.is_first and keep_average(run, model, average, state)
    learner.world.wait()  # torchrun ends all as soon as one has ended: none may end while rank 0 is writing
    log.info(
        "mean of the weights of epochs %d to %d  valid %.3f (PPL %.2f)%s",
        *(epochs[0], epochs[-1], found.loss, found.ppl, "  best" if is_best else ""),
    )
