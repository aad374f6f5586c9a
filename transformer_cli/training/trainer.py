"""train(config): open a run, take its steps, validate, save, stop. Knows the course of a run, not how a step works.

The plan of an epoch follows from (seed, epoch), and a step from the weights, Adam's moments, the batches and its
number. So a run that was killed and goes on from its last save ends bit for bit like one that was never killed.

Under torchrun every process runs this same code on its part of each batch, with the same weights and the same state;
only the first prints and writes files.
"""

import logging
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch

from transformer_cli.compute import threads
from transformer_cli.compute.devices import choose_device_of, describe
from transformer_cli.compute.world import ALONE, World
from transformer_cli.config.schema import Config
from transformer_cli.data.batching import plan_epoch
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.lengths import Rows
from transformer_cli.errors import CheckpointError, MemoryShortage
from transformer_cli.model.transformer import count_frozen, count_parameters
from transformer_cli.runs.checkpoints import save, set_moments
from transformer_cli.runs.run import RESTORE, Run
from transformer_cli.system import progress
from transformer_cli.system.terminal import counted
from transformer_cli.training import averaging, events
from transformer_cli.training.interruption import Stop, stop_signals, told_how_to_go_on
from transformer_cli.training.opening import Opened, join_run, new_opened, open_run
from transformer_cli.training.optimisers import learning_rate
from transformer_cli.training.record import Record
from transformer_cli.training.sentences import training_sentences, usable_sentences
from transformer_cli.training.step import Learner
from transformer_cli.training.validation import as_line, diverged, validate

MOST_SKIPPED = 100  # steps in a row whose loss or gradient was not finite

log = logging.getLogger(__name__)


def train(config: Config, *, data_dir: Path = Path("data"), runs_dir: Path = Path("runs"), fresh: bool = False) -> Run:
    """Train a run, or resume it from its last save. Returns it when its epochs or its patience have run out.

    Sets torch's number of threads, if the config names one, and (at each step) its random seed for the whole process.

    fresh: move a run of this name aside and begin anew. Raises DataError without a dataset, CheckpointError if the run
    on disk is damaged, ConfigError if it was begun with other settings, another process is training it, or training
    diverges, Interrupted (after a save) on SIGINT, SIGTERM, SIGHUP or SIGUSR1, DistributedError if another process of
    the same job ends early.
    """
    world = World.from_environment()
    device = choose_device_of(world, config.training.device)
    if config.training.tensorboard:
        events.check_installed()
    threads.set_num_threads(config.training.num_threads)
    folder = runs_dir / config.run_name
    stop = Stop()
    with world.joined(device), ExitStack() as held, told_how_to_go_on(stop):
        with world.together():
            if world.is_first:
                opened = held.enter_context(
                    open_run(folder, config, device=device, data_dir=data_dir, fresh=fresh, world=world)
                )
        stop.was_fresh = fresh
        with world.together():
            if not world.is_first:
                opened = join_run(folder, data_dir)
        trainer = Trainer(opened, device, world, stop)
        trainer.announce()
        trainer.run_epochs()
    return opened.run


class Trainer:
    """A run in training, on one device, in one of the world's processes."""

    def __init__(self, opened: Opened, device: torch.device, world: World = ALONE, stop: Stop | None = None) -> None:
        """Train on from where the run stands, with its model. stop: notes the signals; the trainer saves for it.

        Raises DataError if no sentence of the dataset fits the model, CheckpointError if the state says more batches
        than an epoch has.
        """
        run, dataset, start = opened.run, opened.dataset, opened.start
        self.run = run
        self.dataset = dataset
        self.world = world
        self.settings = run.config.training
        with world.together():
            self.train_sentences = training_sentences(run, dataset)
            self.valid_sentences = usable_sentences(dataset, "valid", run.config.model.max_length)
        self.learner = Learner(start.model, self.settings, device, world)
        set_moments(self.learner.optimizer, self.learner.model, start.moments)
        world.copy_from_first(self.learner.model)  # it alone may have read vectors, or another run's weights
        self.state = start.state
        self._planned: tuple[int, Sequence[Rows]] = (0, [])  # the epoch, and its batches
        with world.together():
            if self.state.epoch <= self.settings.epochs and self.state.batch > len(self.plan()):
                what = f"batch: {self.state.batch}, but an epoch has {len(self.plan())}"
                raise CheckpointError(f"{run.checkpoint('last') / 'state.json'}: damaged: {what}; {RESTORE}")
        self.record = Record(run, opened.validations, writes=world.is_first)
        self._saved = self._place()  # a new run has nothing to save
        self._are_alike = True  # the weights of all processes, as far as anybody has looked
        self.stop = stop or Stop()
        self.stop.saved_step = self.state.step or None
        self.stop.save_rest = self._save_rest

    @staticmethod
    def begin(run: Run, dataset: Dataset, device: torch.device) -> "Trainer":
        """Train a model that has learned nothing yet."""
        return Trainer(new_opened(run, dataset), device)

    def announce(self) -> None:
        """Log what the run is, and where it resumes."""
        config, model, world, state = self.run.config, self.learner.model, self.world, self.state
        pairs = len(self.train_sentences.rows)
        frozen = count_frozen(model)
        held = sum(each.numel() for each in model.parameters() if not each.requires_grad)
        held_words = f" and {held:,} frozen ones ({', '.join(self.settings.freeze)})" if held else ""
        log.info(
            "%s: %s parameters%s; %s→%s, %s of %s; %s; %s; %s",
            config.run_name,
            f"{count_parameters(model):,}",
            (f", {frozen:,} of them frozen vectors" if frozen else "") + held_words,
            config.data.source,
            config.data.target,
            counted(pairs, "pair"),
            self.dataset.folder,
            counted(config.training.epochs, "epoch"),
            describe(self.learner.device) + (f" × {world.size} processes" if world.size > 1 else ""),
            self.learner.precision,
        )
        if state.epoch > config.training.epochs:
            more = "" if config.training.schedule == "cosine" else "; raise training.epochs to go on"
            epochs = "the only epoch is" if state.epoch == 2 else f"all {state.epoch - 1} epochs are"
            log.info("%s trained%s", epochs, more)
        elif state.step:
            where = f"epoch {state.epoch}, {counted(state.batch, 'batch', 'batches')} into it"
            log.info("resuming from the save at step %s (%s)", f"{state.step:,}", where)
        elif len(self.plan()) == 1 and config.training.batch_size > pairs:
            log.warning(
                "training.batch_size %s takes all pairs at once: an epoch is one step", config.training.batch_size
            )

    def run_epochs(self) -> None:
        """Train until the epochs or the patience run out. Raises Interrupted, after a save, on a signal."""
        stop = self.stop
        if self.record.validations:
            self.record.write_events()
        with stop_signals(stop):
            while self.state.epoch <= self.settings.epochs and not self._patience_is_spent():
                try:
                    self._take_steps()
                    self._end_epoch()
                except MemoryShortage as shortage:
                    raise self._saved_before(shortage) from None
                if self._agreed()[0] and self.state.epoch <= self.settings.epochs:
                    raise stop.interrupted()
            if self.settings.average and self._agreed()[0]:
                raise stop.interrupted()
            averaging.average_epochs(self.run, self.learner, self.valid_sentences, self.state)
        self.record.say_best()

    def plan(self) -> Sequence[Rows]:
        """Returns the batches of the epoch that the state is in, in order."""
        sentences, epoch = self.train_sentences, self.state.epoch
        if self._planned[0] != epoch:
            self._planned = (epoch, plan_epoch(sentences.split, sentences.rows, self.settings, epoch))
        return self._planned[1]

    def step(self, batches: Sequence[Rows]) -> None:
        """Take one optimiser step on these batches of the training sentences; the state counts them as done.

        Raises ConfigError if it is the last of MOST_SKIPPED steps in a row whose loss or gradient was not finite.
        """
        state = self.state
        self.learner.set_learning_rate(self._learning_rate(state.step + 1, state.batch))
        split, cut = self.train_sentences.cut(batches, epoch=state.epoch, first=state.batch)
        loss = self.learner.gradient(split, cut, number=state.step + 1)
        with self.stop.held_off():
            self.learner.update(loss)
            state.step += 1
            state.batch += len(batches)
            if loss is None:
                state.skipped_in_a_row += 1
                state.running.skipped_steps += 1
            else:
                state.skipped_in_a_row = 0
                state.running.add(loss.nll, loss.tokens)
        if state.skipped_in_a_row >= MOST_SKIPPED:
            how = f"no finite loss or gradient in {state.skipped_in_a_row} steps in a row, the last of them step "
            with self.world.together():  # all processes find the same
                raise diverged(self.learner, f"{how}{state.step:,} with a rate of {self.learner.learning_rate:g}")

    def _take_steps(self) -> None:
        """Take the epoch's remaining steps; save now and then, unless the epoch is about to end, and on a signal."""
        plan = self.plan()
        saved = started = time.monotonic()
        seconds_before = self.state.running.seconds
        with self._bar() as bar:
            while self.state.batch < len(plan):
                batches = plan[self.state.batch : self.state.batch + self.settings.accumulate]
                self.step(batches)
                now = time.monotonic()
                self.state.running.seconds = seconds_before + now - started
                self._show(bar, batches)
                is_asked_to_stop, save_is_due = self._agreed(now - saved >= self.settings.save_minutes * 60)
                if is_asked_to_stop:
                    self._save()
                    raise self.stop.interrupted()
                if save_is_due and self.state.batch < len(plan):  # else the end of the epoch saves
                    self._save()
                    saved = time.monotonic()

    def _learning_rate(self, step: int, batch: int) -> float:
        """Returns the rate of a step of this epoch, which begins with the given batch of the plan."""
        done = batch / self.settings.accumulate / self._steps_of_epoch()  # of the epoch
        return learning_rate(self.settings, step, (self.state.epoch - 1 + done) / self.settings.epochs)

    def _steps_of_epoch(self) -> int:
        return math.ceil(len(self.plan()) / self.settings.accumulate)

    def _agreed(self, save_is_due: bool = False) -> tuple[bool, bool]:
        """The same in every process: whether any of them got a signal, and whether a save is due by rank 0's clock."""
        answers = self.world.gather(self.stop.signal_number or 0, save_is_due)
        signals = [int(number) for number, _ in answers if number]
        if signals:
            self.stop.signal_number = signals[0]
        return bool(signals), bool(answers[0][1])

    def _end_epoch(self) -> None:
        """Validate, record, save, and show the result."""
        first_of_last_step = (self._steps_of_epoch() - 1) * self.settings.accumulate
        self.learner.set_learning_rate(self._learning_rate(self.state.step, first_of_last_step))  # unknown if resumed
        found = validate(self.learner, self.valid_sentences, self.state)
        with self.stop.held_off():
            self.record.keep(found)
            self.state.end_epoch(found.valid_loss, is_best=found.best)
            averaging.keep_epoch(self.run, self.learner, found.epoch)
        self._save()  # not held off for longer than it writes: it waits for all processes
        averaging.forget_old_epochs(self.run, self.learner, found.epoch)
        log.info(as_line(found, self.settings.epochs))
        self.record.show()

    def _saved_before(self, shortage: MemoryShortage) -> MemoryShortage:
        """Save what was learned before what does not fit in memory. Returns the error, with how to go on."""
        if self.world.size > 1 or not self.state.step:  # the others are in the middle of a step
            return shortage
        self._save_rest()
        where = f"from the save at step {self.state.step:,}"
        return MemoryShortage(f"{shortage}; the same command goes on {where} where more memory is free")

    def _save(self) -> None:
        self._save_rest()
        # torchrun ends all as soon as one has ended: none may end while rank 0 is writing, so all wait here
        sums = self.world.gather(bit_sum(self.learner.model) if self.world.size > 1 else 0)
        if self._are_alike and sums.count(sums[0]) < len(sums):
            self._are_alike = False
            log.warning(
                "the processes' weights are not the same at step %s: their machines round differently; rank 0's are "
                "saved, and the others go on from these if the same command is given again",
                f"{self.state.step:,}",
            )

    def _save_rest(self) -> bool:
        """Save what has been done since the last save. Returns whether this process is the one that saves."""
        with self.stop.held_off():
            if self._saved != self._place():
                if self.world.is_first:
                    ends_epoch = self.state.batch > 0 and self.state.batch == len(self.plan())
                    save(self.run, self.learner.model, self.learner.optimizer, self.state, awaits_validation=ends_epoch)
                self._saved = self._place()
                self.stop.saved_step = self.state.step
        return self.world.is_first

    def _place(self) -> tuple[int, int]:
        """How far training has come: each save has another place."""
        return self.state.epoch, self.state.batch

    def _patience_is_spent(self) -> bool:
        patience, n_epochs = self.settings.patience, self.state.validations_since_best
        spent = patience is not None and n_epochs >= patience
        if spent:
            log.info("no better validation loss in %s (patience): stopping", counted(n_epochs, "epoch"))
        return spent

    def _bar(self) -> "progress.Bar":
        """Returns a bar that counts the plan's target tokens, and begins with those that are done."""
        return progress.bar(
            f"epoch {self.state.epoch}/{self.settings.epochs}",
            total=self.train_sentences.target_tokens(self.plan()),
            unit=" tokens",
            unit_scale=True,
            initial=self.train_sentences.target_tokens(self.plan()[: self.state.batch]),
            as_lines=not self.world.is_first,  # the log of the others is muted
        )

    def _show(self, bar: "progress.Bar", done: Sequence[Rows]) -> None:
        running = self.state.running
        loss = running.nll / max(1, running.target_tokens)
        bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
        bar.update(self.train_sentences.target_tokens(done))


def bit_sum(model: torch.nn.Module) -> int:
    """Returns a sum of the bits of all weights: exact, so that it is the same wherever the weights are."""
    total = sum(int(each.detach().view(torch.int32).sum(dtype=torch.int64)) for each in model.parameters())
    return total % 2**52  # which a float holds
