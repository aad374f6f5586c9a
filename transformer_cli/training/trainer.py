"""train(config): open a run, take its steps, validate, save, stop. Knows the course of a run, not how a step works.

The life of a run, in the order of this file: `train` opens it, and `Trainer.run_to_the_end` leads it through its
epochs. Now and then, as a rule at the end of each epoch, it is validated and saved. At the end the weights of the last
validations may be averaged.

The plan of an epoch follows from (seed, epoch), and a step from the weights, the optimiser's moments, the batches and
its number. So a run that was killed and goes on from its last save ends bit for bit like one that was never killed.

Under torchrun every process runs this same code on its part of each batch, with the same weights and the same state;
only the first prints and writes files.
"""

import logging
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import torch

from transformer_cli.adapters.finetuning.beside import best_mixture, drawn, encoded_beside, joined
from transformer_cli.compute.devices import choose_device, describe
from transformer_cli.compute.world import ALONE, World
from transformer_cli.config.schema import Config
from transformer_cli.data.batching import plan_epoch, target_tokens
from transformer_cli.data.dataset import EncodedSplit, Rows
from transformer_cli.errors import ConfigError, MemoryShortage
from transformer_cli.model.transformer import Transformer, count_parameters
from transformer_cli.runs.checkpoints import (
    START,
    forget_validated,
    keep_average,
    load_mean,
    load_validated,
    save,
    save_validated,
    set_moments,
)
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Average, Validation, best_of, error_of, is_averaged
from transformer_cli.scoring.losses import Losses, corpus_losses, say_other_losses, witnesses_of
from transformer_cli.scoring.validation import greedy_score
from transformer_cli.system import progress
from transformer_cli.system.terminal import counted, note
from transformer_cli.text.codec import SIDES
from transformer_cli.training.learner import Learner
from transformer_cli.training.opening import Here, ReadyToTrain, fitting_rows, join_run, open_run
from transformer_cli.training.optimisers import learning_rate
from transformer_cli.training.record import (
    SCORES,
    Stop,
    as_line,
    best_as_line,
    check_tensorboard,
    draw_curves,
    mean_as_line,
    stop_signals,
    told_how_to_go_on,
    write_events,
)

AS_LONG = 3  # times as long a step takes as a validation of as many tokens: forward, and twice that backward
FEW = 20  # pairs, whose loss is by some tenths a matter of chance
MOST_SKIPPED = 100  # steps in a row whose loss or gradient was not finite

log = logging.getLogger(__name__)


def train(config: Config, *, data_dir: Path = Path("data"), runs_dir: Path = Path("runs"), fresh: bool = False) -> Run:
    """Train a run, or resume it from its last save. Returns it when its epochs, steps or patience have run out.

    Sets torch's number of threads, if the config names one, and (at each step) its random seed for the whole process.

    fresh: move a run of this name aside and begin anew. Raises DataError without a dataset, CheckpointError if the run
    on disk is damaged, ConfigError if it was begun with other settings, another process is training it, or training
    diverges, Interrupted (after a save) on SIGINT, SIGTERM, SIGHUP or SIGUSR1, DistributedError if another process of
    the same job ends early.
    """
    world = World.from_environment()
    device = choose_device(config.training.device, world)
    if config.training.tensorboard:
        check_tensorboard()
    if config.training.num_threads is not None:
        torch.set_num_threads(config.training.num_threads)
    data_dir, runs_dir = Path(data_dir), Path(runs_dir)
    folder = runs_dir / config.run_name
    with world.joined(device), ExitStack() as opened:
        with told_how_to_go_on(Stop()):
            with world.all_or_none():
                if world.is_first:
                    is_new = fresh and not world.is_restarted  # then it is this command that has begun the run
                    here = Here(device, data_dir, world)
                    ready = opened.enter_context(open_run(folder, config, here, fresh=is_new))
            with world.all_or_none():
                if not world.is_first:
                    ready = join_run(folder, data_dir)
            trainer = Trainer(ready, device, world, was_fresh=fresh)
        with told_how_to_go_on(trainer.stop):
            trainer.announce()
            trainer.run_to_the_end()
    return ready.run


class Trainer:
    """A run in training, on one device, in one of the world's processes."""

    def __init__(
        self, ready: ReadyToTrain, device: torch.device, world: World = ALONE, *, was_fresh: bool = False
    ) -> None:
        """Train on from where the run stands, with its model. was_fresh: an old run was moved aside for this one.

        Raises DataError if no sentence of the dataset fits the model.
        """
        run, dataset, start = ready.run, ready.dataset, ready.start
        self.run = run
        self.dataset = dataset
        self.world = world
        self.training = run.config.training
        with world.all_or_none():
            beside, longest = encoded_beside(run), run.config.model.max_length
            self.train_sentences = usable_sentences(dataset.split("train"), "train", longest)
            self.valid_sentences = usable_sentences(dataset.split("valid"), "valid", longest)
            self.watched = usable_sentences(beside["watch"], "watch", longest) if "watch" in beside else None
            self.along: Rows = np.arange(0)
            if "along" in beside:
                own, more = self.train_sentences, usable_sentences(beside["along"], "along", longest)
                self.along = len(own.split) + more.rows
                self.train_sentences = Sentences(joined(own.split, more.split), own.rows)
        self.learner = Learner(start.model, self.training, device, world, frozen_rows=start.frozen_rows)
        set_moments(self.learner.optimizer, self.learner.model, start.moments)
        # the first process alone may have read vectors, or the weights of another run
        model = self.learner.model
        world.broadcast((*model.parameters(), *model.buffers(), *self.learner.frozen_rows.values()))
        self.state = start.state
        if self.state.step and world.is_first:
            say_other_losses(self.learner.model, run.checkpoint("last"))
        self.validations = list(ready.validations)
        self._bar: progress.Bar | None = None
        self._planned: tuple[int, Sequence[Rows]] = (0, [])  # the epoch, and its batches
        self._saved = self._progress()  # a new run has nothing to save
        self._saved_at = time.monotonic()
        self.stop = Stop(saved_step=self.state.step or None, was_fresh=was_fresh)

    def announce(self) -> None:
        """Log what the run is, and where it resumes."""
        config, model, world, state = self.run.config, self.learner.model, self.world, self.state
        unit, number = config.training.end
        pairs = len(self.train_sentences.rows)
        parameters = f"{count_parameters(model):,} parameters"
        if n_held := sum(int(rows.sum()) for rows in self.learner.frozen_rows.values()):
            parameters += f", {n_held * config.model.d_model:,} of them in frozen vectors"
        if n_frozen := sum(each.numel() for each in model.parameters() if not each.requires_grad):
            parameters += f" and {n_frozen:,} frozen ones ({', '.join(self.training.freeze)})"
        text = f"{config.data.source}→{config.data.target}, {counted(pairs, 'pair')} of {self.dataset.folder}"
        where = describe(self.learner.device) + (f" × {world.size} processes" if world.size > 1 else "")
        facts = (parameters, text, counted(number, unit[:-1]), where, self.learner.precision)
        log.info("%s: %s", config.run_name, "; ".join(facts))
        for name, sentences in (("valid", self.valid_sentences), ("training.watch", self.watched)):
            if sentences and len(sentences.rows) < FEW:
                what = "%s: %s can hardly tell which weights are the best; give it a few hundred"
                log.warning(what, name, counted(len(sentences.rows), "pair"))
        if state.has_ended(config.training) and not state.patience_is_spent(config.training):
            done = f"the only {unit[:-1]} is" if number == 1 else f"all {number:,} {unit} are"
            more = "" if config.training.is_planned_to_the_end else f"; raise training.{unit} to go on"
            log.info("%s trained%s", done, more)
        elif state.step:
            where = f"epoch {state.epoch}, {counted(state.batch, 'batch', 'batches')} into it"
            log.info("resuming from the save at step %s (%s)", f"{state.step:,}", where)
        else:
            n_steps = number * self._steps_in(len(self.plan())) if unit == "epochs" else number
            if n_steps <= config.training.warmup_steps:
                what = (
                    "training.warmup_steps %s: training has about %s, so its rate never reaches training.learning_rate"
                )
                log.warning(what, f"{config.training.warmup_steps:,}", counted(n_steps, "step"))
            elif len(self.plan()) == 1 and config.training.batch_size > pairs:
                what = "training.batch_size %s takes all pairs at once: an epoch is one step"
                log.warning(what, config.training.batch_size)

    def run_to_the_end(self) -> None:
        """Train until the epochs, the steps or the patience run out. Raises Interrupted, after a save, on a signal."""
        training, state = self.training, self.state
        if self.validations and self.world.is_first:
            write_events(self.run, self.validations)
            if state.has_ended(training):  # a kill may have come between saving and drawing
                draw_curves(self.run, self.validations)
        with stop_signals(self.stop), ExitStack() as ending:
            ending.callback(self._close_bar)
            try:
                while not state.has_ended(training):
                    ends_epoch = state.batch == len(self.plan())
                    validation_is_due = state.validation_is_due(training, ends_epoch=ends_epoch)
                    is_asked_to_stop, save_is_due = self._agreed()
                    if is_asked_to_stop or (save_is_due and not validation_is_due):  # a validation saves, too
                        self._save()
                    if is_asked_to_stop:
                        raise self.stop.interrupted()
                    if validation_is_due:
                        self._validate_and_save()
                    elif ends_epoch:
                        self._end_epoch()
                    else:
                        self._take_step()
            except MemoryShortage as shortage:
                if self.world.size > 1 or not state.step:  # other processes are in the middle of a step
                    raise
                self._save(evaluates=False)
                how = f"the same command goes on from the save at step {state.step:,} where more memory is free"
                raise MemoryShortage(f"{shortage}; {how}") from None
            if state.patience_is_spent(training):
                n_worse = counted(state.validations_since_best, "validation")
                log.info("no better %s in %s (patience): stopping", SCORES[training.validate_by], n_worse)
            if training.average or self.watched:
                if self._agreed()[0]:  # asked to stop; everything has been saved
                    raise self.stop.interrupted()
                self._average_weights()
        log.info(best_as_line(self.run, self.validations))
        if self.run.config.data.tokens == "subwords":
            log.info("for single sentences, `tfm export %s` saves seconds: it starts without PyTorch", self.run.folder)

    # Steps

    def plan(self) -> Sequence[Rows]:
        """Returns the batches of the epoch that the state is in, in order."""
        sentences, epoch = self.train_sentences, self.state.epoch
        if self._planned[0] != epoch:
            rows = sentences.rows
            if len(self.along):
                more = drawn(self.along, len(rows), seed=self.training.seed, epoch=epoch)
                rows = np.concatenate((rows, more))
            self._planned = (epoch, plan_epoch(sentences.split, rows, self.training, epoch))
        return self._planned[1]

    def _take_step(self) -> None:
        """Take the next step of the epoch, and show it."""
        plan, running = self.plan(), self.state.running
        batches = plan[self.state.batch : self.state.batch + self.training.accumulate]
        bar = self._bar = self._bar or self._new_bar()
        started = time.monotonic()
        self.step(batches)
        running.seconds += time.monotonic() - started
        bar.set_description_str(self._how_far(), refresh=False)
        bar.set_postfix_str(f"loss {running.nll / max(1, running.target_tokens):.3f}", refresh=False)
        bar.update(self.train_sentences.target_tokens(batches))

    def _new_bar(self) -> progress.Bar:
        """Returns the bar of this epoch, or of its steps up to the end of training."""
        plan, state = self.plan(), self.state
        unit, number = self.training.end
        end = len(plan) if unit == "epochs" else state.batch + (number - state.step) * self.training.accumulate
        return progress.bar(
            self._how_far(),
            total=self.train_sentences.target_tokens(plan[:end]),
            unit=" tokens",
            unit_scale=True,
            initial=self.train_sentences.target_tokens(plan[: state.batch]),
            is_silent=not self.world.is_first,
        )

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _how_far(self) -> str:
        """Returns the epoch in progress, or the steps that have been taken, of how many."""
        unit, number = self.training.end
        return f"epoch {self.state.epoch}/{number}" if unit == "epochs" else f"step {self.state.step:,}/{number:,}"

    def step(self, batches: Sequence[Rows]) -> None:
        """Take one optimiser step on these batches of the training sentences; the state counts them as done.

        Raises ConfigError if it is the last of MOST_SKIPPED steps in a row whose loss or gradient was not finite.
        """
        state = self.state
        self.learner.set_learning_rate(self._learning_rate(state.step + 1, state.batch))
        loss = self.learner.backward(self.train_sentences.split, batches, number=state.step + 1)
        is_finite = math.isfinite(loss.nll) and self.learner.step()
        state.step += 1
        state.batch += len(batches)
        if is_finite:
            state.skipped_in_a_row = 0
            state.running.add(loss.nll, loss.tokens)
        else:
            state.skipped_in_a_row += 1
            state.running.skipped_steps += 1
        if state.skipped_in_a_row >= MOST_SKIPPED:
            how = f"no finite loss or gradient in {state.skipped_in_a_row} steps in a row, the last of them step "
            with self.world.all_or_none():  # all processes find the same
                raise diverged(self.learner, f"{how}{state.step:,} with a rate of {self.learner.learning_rate:g}")

    def _learning_rate(self, step: int, batch: int) -> float:
        """Returns the rate of a step of this epoch, which begins with the given batch of the plan.

        For example, in the second of 4 epochs of 10 batches, of which a step takes 2, the step that begins with batch 4
        comes when (1 + 2/5) / 4 = 0.35 of training is done.
        """
        unit, number = self.training.end
        if unit == "steps":
            return learning_rate(self.training, step, (step - 1) / number)
        done = batch / self.training.accumulate / self._steps_in(len(self.plan()))  # of the epoch
        return learning_rate(self.training, step, (self.state.epoch - 1 + done) / number)

    def _steps_in(self, n_batches: int) -> int:
        return math.ceil(n_batches / self.training.accumulate)

    # Validations, and the end of epochs and of training

    def _end_epoch(self) -> None:
        self._close_bar()
        self.state.epoch, self.state.batch = self.state.epoch + 1, 0

    def _validate_and_save(self) -> None:
        """Validate, record, end the epoch if it has come to its end, save, and show the result."""
        if self.state.step:  # the history names its rate; a run that was resumed here has not taken it itself
            first_of_last_step = (self._steps_in(self.state.batch) - 1) * self.training.accumulate
            self.learner.set_learning_rate(self._learning_rate(self.state.step, first_of_last_step))
        self._close_bar()
        found = self._validate()
        writes, average = self.world.is_first, self.training.average
        self.validations.append(found)
        if writes:
            self.run.write_history([asdict(each) for each in self.validations])
        self.state.count_validation(found)
        if self.state.batch == len(self.plan()):
            self._end_epoch()
        if writes and (average or (self.watched and self._best_taught == self.state.validations)):
            save_validated(self.run, self.learner.model, self.state.validations)
        if writes and self.watched and not self.state.step:
            save_validated(self.run, self.learner.model, START)
        self._save()
        self._forget_validated()
        log.info(as_line(found, self.training))
        if not self.state.step:
            log.info("%s until the end, by the time of this validation", self._how_long(found))
        if writes:
            draw_curves(self.run, self.validations)
            write_events(self.run, self.validations)

    @property
    def _best_taught(self) -> int:
        """The number of the best validation after the start's; START if there is none."""
        taught = self.validations[1:]
        return 2 + taught.index(best_of(taught)) if taught else START

    def _forget_validated(self) -> None:
        """Delete the weights of validations that neither a mean of the last ones nor one with the start can need."""
        if self.world.is_first:
            before = self.state.validations - (self.training.average or 0) + 1
            forget_validated(self.run, before=before, but=self._best_taught if self.watched else START)

    def _how_long(self, found: Validation) -> str:
        """Returns how long training will take, as far as a validation of the start tells, in words."""
        unit, number = self.training.end
        plan = self.plan()
        steps = self._steps_in(len(plan))
        epochs = number if unit == "epochs" else number / steps
        validated = sum(each.target_tokens([each.rows]) for each in (self.valid_sentences, self.watched) if each)
        trained = epochs * self.train_sentences.target_tokens(plan)
        validations = epochs * steps / (self.training.validate_every or steps)
        minutes = found.valid_seconds * (AS_LONG * trained / validated + validations) / 60
        if minutes < 1:
            return "less than a minute"
        return f"about {minutes / 60:.1f} hours" if minutes > 120 else f"about {counted(math.ceil(minutes), 'minute')}"

    def _validate(self) -> Validation:
        """Validate the model as it is. All processes return the same.

        Raises ConfigError if training has diverged.
        """
        started, state, running = time.monotonic(), self.state, self.state.running
        note(f"epoch {state.epoch}, step {state.step:,}: validating")
        valid, watched = self._losses_of(self.learner.model)
        with self.world.all_or_none():  # all processes find the same
            if state.step and not running.steps:
                which = f"the {state.running.skipped_steps:,} steps before the validation at step {state.step:,}"
                raise diverged(self.learner, f"none of {which} had a finite loss and gradient")
            if not math.isfinite(valid.loss):
                raise diverged(self.learner, f"validation loss {valid.loss} at step {state.step:,}")
        score = self._score(self.learner.model)
        error, best_error = error_of(valid.loss, score), state.best_error
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
            best=best_error is None or error < best_error,
            target_tokens_per_second=round(running.target_tokens / max(running.seconds, 0.001), 1),
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            watch_loss=watched.loss if watched else None,
            valid_score=score,
        )

    def _score(self, model: Transformer) -> float | None:
        """Returns the score that training.validate_by asks for, which the first process finds; None for the loss."""
        if self.training.validate_by == "loss":
            return None
        score = 0.0
        if self.world.is_first:
            source, target = (self.dataset.text("valid", side) for side in SIDES)
            data, by = self.run.config.data, self.training.validate_by
            score = greedy_score(model, self.run.codecs, source, target, data=data, by=by)
        return self.world.all_gather(score)[0][0]

    def _losses_of(self, model: Transformer) -> tuple[Losses, Losses | None]:
        """Returns the losses of the validation text, and of the text that is watched, if any is."""
        model.to(self.learner.device)
        valid, *watched = (
            corpus_losses(model, each.split, each.rows, self.world)
            for each in (self.valid_sentences, self.watched)
            if each is not None
        )
        return valid, watched[0] if watched else None

    def _average_weights(self) -> None:
        """Make, of the weights so far, those that training ends with, and save them (6.1).

        They are the mean of the last validations' weights, if the config asks for it, and the best checkpoint if they
        are better. With text that is watched, they are the mean of these, or else of the best weights that were taught,
        and of the start, with the share that fits both texts best, and the best checkpoint in any case. Does nothing if
        this has been done. Raises CheckpointError if some of these weights are gone.
        """
        last, count = self.state.validations, self.training.average or 0
        numbers = range(max(1, last - count + 1), last + 1)  # patience may have ended a run early
        epochs = [each.epoch for each in self.validations[-count:]] if count else []
        self._forget_validated()  # a kill may have come before
        with self.world.all_or_none():
            if is_averaged(self.run, self.state):
                return
            model = load_mean(self.run, numbers) if count else load_validated(self.run, self._best_taught)
        share = None
        if self.watched:
            model, share = best_mixture(self.run, model, self._losses_of, self.world)
        valid, watched = self._losses_of(model)
        made = Average(
            epochs,
            self.state.step,
            valid.loss,
            valid.loss_batch_mean,
            valid.ppl,
            start_share=share,
            watch_loss=watched.loss if watched else None,
            valid_score=self._score(model),
        )
        witnesses = witnesses_of(model, self.valid_sentences.split, self.valid_sentences.rows)
        is_best = self.world.is_first and keep_average(self.run, model, made, self.state, witnesses)
        self.world.barrier()  # as in `_save`
        if not self.watched:
            log.info(mean_as_line(made, len(numbers), self.training, is_best=is_best))

    # Saving, and stopping

    def _save(self, *, evaluates: bool = True) -> None:
        """Save what has been done since the last save, if anything.

        evaluates: if false, the model is not run, and the checkpoint keeps no pairs with their losses.
        """
        if self._saved != self._progress():
            if self.world.is_first:
                model, valid = self.learner.model, self.valid_sentences
                witnesses = witnesses_of(model, valid.split, valid.rows) if evaluates else None
                save(self.run, model, self.learner.optimizer, self.state, self.learner.frozen_rows, witnesses)
            self._saved, self._saved_at = self._progress(), time.monotonic()
            self.stop.saved_step = self.state.step
        self.world.barrier()  # torchrun ends all as soon as one has ended: none may end while rank 0 is writing

    def _progress(self) -> tuple[int, int]:
        """How far training has come: each save has another place."""
        return self.state.step, self.state.validations

    def _agreed(self) -> tuple[bool, bool]:
        """The same in every process: whether any of them got a signal, and whether a save is due by rank 0's clock."""
        save_is_due = time.monotonic() - self._saved_at >= self.training.save_minutes * 60
        answers = self.world.all_gather(self.stop.signal_number or 0, save_is_due)
        signals = [int(number) for number, _ in answers if number]
        if signals:
            self.stop.note(signals[0])
        return bool(signals), bool(answers[0][1])


@dataclass(frozen=True)
class Sentences:
    """A split, and the rows of the pairs that the model has enough positions for."""

    split: EncodedSplit
    rows: Rows

    def target_tokens(self, batches: Sequence[Rows]) -> int:
        """Returns how many tokens there are to predict in these batches of `split`, <eos> included."""
        return sum(int(target_tokens(self.split, rows).sum()) for rows in batches)


def usable_sentences(split: EncodedSplit, name: str, max_length: int | None) -> Sentences:
    """Returns the pairs of a split that fit in max_length positions; a warning counts the others.

    Raises DataError if no pair fits.
    """
    rows = fitting_rows(split, name, max_length)
    if n_long := len(split) - len(rows):
        log.warning("%s: left out %s longer than max_length %s", name, counted(n_long, "pair"), max_length)
    return Sentences(split, rows)


def diverged(learner: Learner, how: str) -> ConfigError:
    """Returns the error for a training that has come to numbers that are not finite."""
    training = learner.training
    rates = f"training.learning_rate: {training.learning_rate:g}"
    if training.optimizer == "muon":
        rates += f" or muon_learning_rate: {training.muon_learning_rate:g}"
    return ConfigError(f"{rates} made training diverge ({how}); lower it and train with --fresh")
