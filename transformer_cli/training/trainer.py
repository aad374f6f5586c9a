"""train(config): opens a run, takes its steps, validates, saves and stops. Does not know how a step is computed.

`train` opens the run, and `Trainer.fit` takes its steps. It validates and saves at the end of each epoch,
or as the settings say. Callbacks do the rest, such as drawing curves or averaging weights (callbacks.py).

The batches of an epoch follow from (seed, epoch), and a step from the weights, the optimiser's moments, the batches and
its number. So a run that was killed and resumed ends with the same bits as one that was not.

Under torchrun every process runs this code on its part of each batch, with the same weights and the same state; only
the main process prints and writes files.
"""

import logging
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import torch

from transformer_cli.compute.devices import choose_device
from transformer_cli.compute.world import SINGLE_PROCESS, World
from transformer_cli.config.schema import Config
from transformer_cli.data.batching import plan_epoch
from transformer_cli.data.dataset import Rows
from transformer_cli.errors import ConfigError, MemoryShortage
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs import checkpoints
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Average, TrainingState, Validation, error_of, has_final_weights
from transformer_cli.scoring.losses import Losses, corpus_losses, make_loss_check
from transformer_cli.system.terminal import pluralize, show_status
from transformer_cli.training import messages
from transformer_cli.training.callbacks import Averaging, Callback, FinalWeights, refuse_without_callback
from transformer_cli.training.learner import Learner
from transformer_cli.training.optimisers import learning_rate
from transformer_cli.training.resume import OpenedRun, open_run
from transformer_cli.training.stopping import Interruption, resume_hint, stop_signals

MAX_SKIPPED_STEPS = 100  # in a row, before training has diverged

log = logging.getLogger(__name__)


def train(
    config: Config,
    *,
    data_dir: Path = Path("data"),
    runs_dir: Path = Path("runs"),
    fresh: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train a run, or resume it from its last checkpoint, until its epochs, steps or patience have run out.

    `api.train` adds the callbacks that settings need; here a setting without its callback is a ConfigError. Otherwise
    raises the same errors as `api.train`.
    """
    refuse_without_callback(config, callbacks)
    world = World.from_environment()
    device = choose_device(config.training.device, world)
    if config.training.num_threads is not None:
        torch.set_num_threads(config.training.num_threads)
    with world.process_group(device), ExitStack() as stack:
        with resume_hint(Interruption()):
            folder = runs_dir / config.run_name
            opening = open_run(folder, config, callbacks, device=device, data_dir=data_dir, world=world, fresh=fresh)
            opened = stack.enter_context(opening)
            trainer = Trainer(opened, device, world, callbacks, was_fresh=fresh)
        with resume_hint(trainer.interruption):
            messages.log_start(trainer)
            trainer.fit()
    return opened.run


class Trainer:
    """A run in training, on one device, in one of the world's processes."""

    def __init__(
        self,
        opened: OpenedRun,
        device: torch.device,
        world: World = SINGLE_PROCESS,
        callbacks: Sequence[Callback] = (),
        *,
        was_fresh: bool = False,
    ) -> None:
        """Loads the checkpoint of the opened run. was_fresh: --fresh was given. Raises DataError if no pair fits."""
        checkpoint = opened.checkpoint
        self.run, self.dataset, self.texts, self.world = opened.run, opened.dataset, opened.texts, world
        self.training = self.run.config.training
        averaging = [Averaging(self.training.average_checkpoints)] if self.training.average_checkpoints else []
        self.callbacks: Sequence[Callback] = (*averaging, *callbacks)
        self.learner = Learner(checkpoint.model, self.training, device, world)
        checkpoints.set_moments(self.learner.optimizer, self.learner.model, checkpoint.moments)
        model = self.learner.model  # callbacks set the initial weights in the main process only
        world.broadcast((*model.parameters(), *model.buffers()))
        self.state = checkpoint.state
        self.validations = list(opened.validations)
        self._bar = messages.StepBar(self)
        self._epoch_plan: tuple[int, Sequence[Rows]] = (0, [])  # the epoch, and its batches
        self._saved_progress = self._progress()
        self._saved_at = time.monotonic()
        self.interruption = Interruption(saved_step=self.state.step or None, was_fresh=was_fresh)
        with world.fail_together():
            for callback in self.callbacks:
                callback.on_begin(self)

    def fit(self) -> None:
        """Train until the epochs, the steps or the patience run out. On a signal, saves and raises Interrupted."""
        training, state = self.training, self.state
        if self.validations:
            self._call_on_validation()  # in case the process was killed before this call
        with stop_signals(self.interruption), ExitStack() as ending:
            for callback in reversed(self.callbacks) if self.world.is_main else ():
                ending.callback(callback.on_end, self)
            ending.callback(self._bar.close)
            try:
                while not state.has_ended(training):
                    ends_epoch = state.batch == len(self.plan())
                    validation_is_due = state.validation_is_due(training, ends_epoch=ends_epoch)
                    is_asked_to_stop, save_is_due = self._agree_to_stop_or_save()
                    if is_asked_to_stop or (save_is_due and not validation_is_due):  # a validation saves, too
                        self._save()
                    if is_asked_to_stop:
                        raise self.interruption.error()
                    if validation_is_due:
                        self._validate_and_save()
                    elif ends_epoch:
                        self._end_epoch()
                    else:
                        self._take_step()
            except MemoryShortage as shortage:
                if self.world.size > 1 or not state.step:  # other processes are in the middle of a step
                    raise
                self._save(with_loss_check=False)
                resumes = f"{self.interruption.resume_command} resumes from the checkpoint at step {state.step:,}"
                raise MemoryShortage(f"{shortage}; {resumes} where more memory is free") from None
            if state.patience_is_spent(training):
                score = messages.SCORE_NAMES[training.best_checkpoint_metric]
                n_worse = pluralize(state.validations_since_best, "validation")
                log.info("no better %s in %s (patience): stopping", score, n_worse)
            if self._needed_validations():
                is_asked_to_stop, _ = self._agree_to_stop_or_save()
                if is_asked_to_stop:
                    raise self.interruption.error()
                self._save_final_weights()
        log.info(messages.best_as_line(self.run, self.validations))

    # Steps

    def plan(self) -> Sequence[Rows]:
        """Returns the batches of the epoch in progress, in order."""
        epoch = self.state.epoch
        if self._epoch_plan[0] != epoch:
            rows = self.texts.train.rows
            for callback in self.callbacks:
                rows = callback.epoch_rows(self, rows)
            self._epoch_plan = (epoch, plan_epoch(self.texts.train.split, rows, self.training, epoch))
        return self._epoch_plan[1]

    def _take_step(self) -> None:
        """Take the next step of the epoch, and show progress."""
        batches = self.plan()[self.state.batch : self.state.batch + self.training.gradient_accumulation_steps]
        self._bar.open()
        started = time.monotonic()
        self.step(batches)
        self.state.running.seconds += time.monotonic() - started
        self._bar.update(batches)

    def step(self, batches: Sequence[Rows]) -> None:
        """Take one optimiser step on these batches of the training text, and count them in the state.

        Skips it if its loss or gradient is not finite. Raises ConfigError if that happens MAX_SKIPPED_STEPS times in a
        row.
        """
        state = self.state
        self.learner.set_learning_rate(self._learning_rate(state.step + 1, state.batch))
        loss = self.learner.backward(self.texts.train.split, batches, step=state.step + 1)
        for callback in self.callbacks:
            callback.on_gradients(self)
        norm = self.learner.step() if math.isfinite(loss.nll) else math.nan
        state.step += 1
        state.batch += len(batches)
        if math.isfinite(norm):
            state.skipped_in_a_row = 0
            state.running.add(loss.nll, loss.tokens)
            rate, mean = self.learner.learning_rate, loss.nll / loss.tokens
            state.running.keep(state.step, loss=mean, learning_rate=rate, gradient_norm=norm)
        else:
            state.skipped_in_a_row += 1
            state.running.skipped_steps += 1
        if state.skipped_in_a_row >= MAX_SKIPPED_STEPS:
            how = f"no finite loss or gradient in {state.skipped_in_a_row} steps in a row, the last of them step "
            how += f"{state.step:,} with a rate of {self.learner.learning_rate:g}"
            with self.world.fail_together():
                raise divergence_error(self.learner, state, how)

    def _learning_rate(self, step: int, batch: int) -> float:
        """Returns the learning rate of a step whose first batch is `batch` of this epoch's plan.

        For example, there are 4 epochs of 10 batches, and a step takes 2 batches. Before the step that begins with
        batch 4 of the second epoch, (1 + 2/5) / 4 = 0.35 of training is done.
        """
        unit, number = self.training.end
        if not self.training.needs_horizon:
            return learning_rate(self.training, step, None)
        if unit == "steps":
            return learning_rate(self.training, step, (step - 1) / number)
        steps_done = batch / self.training.gradient_accumulation_steps  # of this epoch
        epochs_done = self.state.epoch - 1 + steps_done / self.training.num_steps(len(self.plan()))
        return learning_rate(self.training, step, epochs_done / number)

    # Validations, and the end of epochs and of training

    def _end_epoch(self) -> None:
        self._bar.close()
        self.state.epoch, self.state.batch = self.state.epoch + 1, 0

    def _validate_and_save(self) -> None:
        """Save, validate, write the history, end the epoch if all its batches are done, save, and log the result."""
        self._save(with_loss_check=False)  # an error in a validation then costs no step
        if self.state.step:  # the history records the last step's rate; a run that was just resumed has not set it
            n_steps = self.training.num_steps(self.state.batch)
            first_batch = (n_steps - 1) * self.training.gradient_accumulation_steps  # of the last step
            self.learner.set_learning_rate(self._learning_rate(self.state.step, first_batch))
        self._bar.close()
        validation = self._validate()
        self.validations.append(validation)
        if self.world.is_main:
            self.run.write_history([asdict(each) for each in self.validations])
        self.state.count_validation(validation)
        if self.state.batch == len(self.plan()):
            self._end_epoch()
        if self.world.is_main and self.state.n_validations in self._needed_validations():
            checkpoints.save_validation_weights(self.run, self.learner.model, self.state.n_validations)
        self._save()
        self._prune_validations()
        log.info(messages.validation_as_line(validation, self.training))
        self._bar.restart_minute()
        if not self.state.step:
            left = messages.time_estimate(self, valid_seconds=validation.valid_seconds)
            log.info("%s until the end, judged by this validation", left)
        self._call_on_validation()

    def _needed_validations(self) -> set[int]:
        """Returns the numbers, from 1, of the validations whose weights callbacks need at the end."""
        return {number for callback in self.callbacks for number in callback.needed_validations(self)}

    def _prune_validations(self) -> None:
        """Delete the weights of validations that no callback needs."""
        if self.world.is_main:
            checkpoints.prune_validations(self.run, keep=self._needed_validations())

    def _call_on_validation(self) -> None:
        for callback in self.callbacks if self.world.is_main else ():
            callback.on_validation(self)

    def _validate(self) -> Validation:
        """Validate the model. All processes return the same. Raises ConfigError if training has diverged."""
        started, state, running = time.monotonic(), self.state, self.state.running
        show_status(f"epoch {state.epoch}, step {state.step:,}: validating")
        valid, extra = self.validation_losses(self.learner.model)
        with self.world.fail_together():
            if state.step and not running.steps:
                which = f"the {running.skipped_steps:,} steps before the validation at step {state.step:,}"
                raise divergence_error(self.learner, state, f"none of {which} had a finite loss and gradient")
            if not math.isfinite(valid.loss):
                raise divergence_error(self.learner, state, f"validation loss {valid.loss} at step {state.step:,}")
        score = self._score(self.learner.model)
        return Validation(
            epoch=state.epoch if state.step else 0,
            step=state.step,
            train_loss=running.nll / running.target_tokens if running.steps else None,
            valid_loss=valid.loss,
            train_loss_batch_mean=running.batch_means / running.steps if running.steps else None,
            valid_loss_batch_mean=valid.loss_batch_mean,
            valid_ppl=valid.ppl,
            learning_rate=self.learner.learning_rate if running.steps else 0.0,
            target_tokens=running.target_tokens,
            train_seconds=round(running.seconds, 3),
            valid_seconds=round(time.monotonic() - started, 3),
            skipped_steps=running.skipped_steps,
            best=self.training.best_checkpoint_metric == "last" or error_of(valid.loss, score) < state.best_error,
            target_tokens_per_second=round(running.target_tokens / max(running.seconds, 0.001), 1),
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            extra_valid_loss=extra.loss if extra else None,
            valid_score=score,
            steps=running.kept_steps,
            examples=[each for callback in self.callbacks for each in callback.examples(self)],
        )

    def _score(self, model: Transformer) -> float | None:
        """Returns the score of the first callback that has one; None if no score decides which validation is best."""
        if not self.training.needs_scores:
            return None
        scores = (each.score(self, model) for each in (self.callbacks if self.world.is_main else ()))
        return self.world.all_gather(next((score for score in scores if score is not None), 0.0))[0][0]

    def validation_losses(self, model: Transformer) -> tuple[Losses, Losses | None]:
        """Returns a model's losses on the validation text, and on the extra one if there is any."""
        model.to(self.learner.device)
        valid, *extra = (
            corpus_losses(model, each.split, each.rows, self.world) for each in self.texts.validation_splits
        )
        return valid, extra[0] if extra else None

    def _save_final_weights(self) -> None:
        """Validate and save the averaged weights that callbacks make, unless this has been done.

        Points `best` to them if they are an interpolation, or better. Raises CheckpointError if weights of validations
        are gone.
        """
        self._prune_validations()  # in case the process was killed before this call
        with self.world.fail_together():
            if has_final_weights(self.run, self.state):
                return
        weights: FinalWeights | None = None
        for callback in self.callbacks:
            weights = callback.final_weights(self, weights)
        if weights is None:
            return
        model = weights.model
        valid, extra = self.validation_losses(model)
        average = Average(
            epochs=list(weights.epochs),
            step=self.state.step,
            valid_loss=valid.loss,
            valid_loss_batch_mean=valid.loss_batch_mean,
            valid_ppl=valid.ppl,
            interpolation=weights.interpolation,
            extra_valid_loss=extra.loss if extra else None,
            valid_score=self._score(model),
        )
        loss_check = make_loss_check(model, self.texts.valid.split, self.texts.valid.rows)
        is_best = self.world.is_main and checkpoints.save_average(self.run, model, average, self.state, loss_check)
        self.world.barrier()  # as in `_save`
        if average.interpolation is None:
            log.info(messages.final_as_line(average, self.training, is_best=is_best))

    # Saving, and stopping

    def _save(self, *, with_loss_check: bool = True) -> None:
        """Write a checkpoint, unless nothing has been done since the last one.

        with_loss_check: write loss-check.json, too, which needs memory to run the model.
        """
        if self._saved_progress != self._progress():
            if self.world.is_main:
                learner, valid = self.learner, self.texts.valid
                loss_check = make_loss_check(learner.model, valid.split, valid.rows) if with_loss_check else None
                checkpoints.save_checkpoint(self.run, learner.model, learner.optimizer, self.state, loss_check)
            self._saved_progress, self._saved_at = self._progress(), time.monotonic()
            self.interruption.saved_step = self.state.step
        self.world.barrier()  # torchrun kills rank 0, which is writing, as soon as another process ends

    def _progress(self) -> tuple[int, int]:
        """Returns (steps, validations) so far, to notice whether anything has been done since a checkpoint."""
        return self.state.step, self.state.n_validations

    def _agree_to_stop_or_save(self) -> tuple[bool, bool]:
        """Returns whether any process got a signal, and whether it is time to save by rank 0's clock. Collective."""
        save_is_due = time.monotonic() - self._saved_at >= self.training.save_minutes * 60
        answers = self.world.all_gather(self.interruption.signal_number or 0, save_is_due)
        signals = [int(number) for number, _ in answers if number]
        if signals:
            self.interruption.note(signals[0])
        return bool(signals), bool(answers[0][1])


def divergence_error(learner: Learner, state: TrainingState, how: str) -> ConfigError:
    """Returns the error for training with a loss or gradient that is not finite."""
    if state.skipped_in_a_row == state.step:
        return ConfigError(
            f"{how}, and no step has changed the weights: the model or its loss is wrong, not the learning rate; for "
            "example, a row of a mask without a True makes NaN"
        )
    training = learner.training
    rates = f"training.learning_rate: {training.learning_rate:g}"
    if training.optimizer == "muon":
        rates += f" or muon_learning_rate: {training.muon_learning_rate:g}"
    return ConfigError(f"{rates} made training diverge ({how}); lower it and train with --fresh")
