"""train(config): set up, step, validate, save, resume. Knows how a run goes; not what a layer or a file looks like.

A step is a function of (weights, moments, batch, step number): the plan of an epoch follows from (seed, epoch) and
dropout from (seed, step, rank). So a run that was killed and goes on from its last save ends like one that was not.

Under torchrun every process runs this same code on its part of each batch, with the same weights and state; the first
alone speaks, and writes.
"""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transformer_cli import progress
from transformer_cli.compute import threads
from transformer_cli.compute.devices import autocast, choose_device_of, choose_precision, describe
from transformer_cli.compute.world import ALONE, World
from transformer_cli.config.schema import Config
from transformer_cli.data.batching import collate, parts_by_length, plan_epoch, rows_within, share_of
from transformer_cli.data.dataset import Dataset, EncodedSplit, find_dataset
from transformer_cli.data.lengths import Rows
from transformer_cli.errors import ConfigError, DataError, DistributedError, Interrupted
from transformer_cli.evaluation.losses import corpus_losses, perplexity
from transformer_cli.model.fast.packing import packed_token_losses
from transformer_cli.model.loss import TokenLoss, token_losses
from transformer_cli.model.transformer import count_frozen, count_parameters
from transformer_cli.runs.run import Run, RunningLoss, TrainingState
from transformer_cli.training import events
from transformer_cli.training.interruption import Stop, stop_signals
from transformer_cli.training.opening import locked, open_run
from transformer_cli.training.optim import learning_rate, make_optimizer
from transformer_cli.training.pretrained import load_pretrained

log = logging.getLogger(__name__)

PART = 4096  # target tokens of a batch that the CPU computes at a time: bounds the memory that they take


def train(config: Config, *, data_dir: Path = Path("data"), runs_dir: Path = Path("runs"), fresh: bool = False) -> Run:
    """Train a run, or go on with it where it was saved last. Returns it when its epochs or its patience are spent.

    Sets torch's random seed, and its number of threads if the config names one, for the whole process.

    fresh: move a run of this name aside and begin anew. Raises DataError without a dataset, ConfigError if the run on
    disk was begun with other settings or is being trained, Interrupted (after a save) on SIGINT or SIGTERM,
    DistributedError if another process of the same training ends before its time.
    """
    world = World.from_environment()
    device = choose_device_of(world, config.training.device)
    if config.training.tensorboard:
        events.check_installed()
    threads.set_num_threads(config.training.num_threads)
    folder = runs_dir / config.name
    with world.joined(device), ExitStack() as locks:
        if world.is_first:
            with world.leading():
                if not folder.exists():
                    find_dataset(config.data, data_dir)  # its error leaves no trace in runs_dir
                locks.enter_context(locked(folder))
                run, dataset, pretrained = open_run(folder, config, device=device, data_dir=data_dir, fresh=fresh)
        else:
            world.follow()
            run = Run.open(folder)
            dataset, pretrained = Dataset.open(find_dataset(run.config.data, data_dir)), []
        with _told_how_to_go_on(fresh=fresh):
            trainer = Trainer(run, dataset, device, world)
            if run.has_checkpoint("last"):
                trainer.restore()
            else:
                load_pretrained(trainer.model, pretrained)
                world.copy_from_first(trainer.model)
            trainer.announce()
            trainer.run_epochs()
    return run


class Trainer:
    """A run in training: its model, optimiser and state, on one device, in one of the world's processes."""

    def __init__(self, run: Run, dataset: Dataset, device: torch.device, world: World = ALONE) -> None:
        self.run = run
        self.dataset = dataset
        self.device = device
        self.world = world
        self.settings = run.config.training
        self.precision = choose_precision(self.settings.precision, device)
        self.train_split, self.train_rows = self._usable("train")
        self.valid_split, self.valid_rows = self._usable("valid")
        self.model = run.new_model().to(device)
        self.packs = self.settings.fast and device.type == "cpu"
        self.token_loss = world.share_gradients(
            TokenLoss(
                self.model,
                packed_token_losses if self.packs else token_losses,
                label_smoothing=self.settings.label_smoothing,
            )
        )
        self.optimizer = make_optimizer(self.model, self.settings)
        self.state = TrainingState()
        self.history: list[dict[str, Any]] = []
        self.event_file: events.EventFile | None = None

    def announce(self) -> None:
        """Say what the run is, and where it goes on."""
        data = self.run.config.data
        frozen = count_frozen(self.model)
        log.info(
            "%s: %s parameters%s; %s→%s, %s pairs of %s; epochs: %s; %s; %s",
            self.run.config.name,
            f"{count_parameters(self.model):,}",
            f", {frozen:,} of them frozen vectors" if frozen else "",
            data.source,
            data.target,
            f"{len(self.train_rows):,}",
            self.dataset.folder,
            self.settings.epochs,
            describe(self.device) + (f" × {self.world.size} processes" if self.world.size > 1 else ""),
            self.precision,
        )
        if self.state.epoch > self.settings.epochs:
            more = "" if self.settings.schedule == "cosine" else "; raise training.epochs to go on"
            log.info("all %d epochs are trained%s", self.state.epoch - 1, more)
        elif self.state.step:
            where = f"epoch {self.state.epoch}, {self.state.batch} batches into it"
            log.info("resuming from the save at step %s (%s)", f"{self.state.step:,}", where)

    def restore(self) -> None:
        """Weights, moments, state and history of the last save; history written after it is dropped."""
        self.state = self.run.load_last(self.model, self.optimizer)
        if self.world.is_first:
            self.run.mend(self.state)
        self.history = [entry for entry in self.run.history() if entry["step"] <= self.state.step]
        self._write_events()

    def run_epochs(self) -> None:
        """Train until the epochs or the patience are spent."""
        with stop_signals() as stop:
            while self.state.epoch <= self.settings.epochs and not self._patience_is_spent():
                plan = plan_epoch(self.train_split, self.train_rows, self.settings, self.state.epoch)
                self._run_epoch(plan, stop)
                self._end_epoch()
                signal_number, _ = self._agreed(stop)
                if signal_number and self.state.epoch <= self.settings.epochs:
                    raise self._stopped(signal_number)
        best = min(self.history, key=lambda entry: entry["valid_loss"])
        log.info(
            "best validation loss %.3f (PPL %.2f) in epoch %d of %d: %s",
            best["valid_loss"],
            best["valid_ppl"],
            best["epoch"],
            self.state.epoch - 1,
            self.run.checkpoint("best"),
        )

    def _run_epoch(self, plan: Sequence[Rows], stop: Stop) -> None:
        """The epoch's batches from where the state stands; saves now and then, and when asked to stop."""
        saved = started = time.monotonic()
        seconds_before = self.state.running.seconds
        with self._bar() as bar:
            while self.state.batch < len(plan):
                self._set_learning_rate(len(plan))
                self._step(plan[self.state.batch : self.state.batch + self.settings.accumulate])
                now = time.monotonic()
                self.state.running.seconds = seconds_before + now - started
                self._show(bar)
                is_last = self.state.batch == len(plan)  # then the epoch's end saves
                signal_number, save_is_due = self._agreed(stop, now - saved >= self.settings.save_minutes * 60)
                if signal_number and not is_last:
                    self._save()
                    raise self._stopped(signal_number)
                if save_is_due and not is_last:
                    self._save()
                    saved = time.monotonic()

    def _set_learning_rate(self, num_batches: int) -> None:
        """That of the next step; num_batches: of this epoch. Batches of tokens make epochs of different lengths."""
        num_steps = math.ceil(num_batches / self.settings.accumulate)
        done = self.state.batch / self.settings.accumulate / num_steps  # of the epoch
        progress = (self.state.epoch - 1 + done) / self.settings.epochs
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.settings, self.state.step + 1, progress)

    def _agreed(self, stop: Stop, save_is_due: bool = False) -> tuple[int | None, bool]:
        """The same in every process: the signal that any of them got, and whether the first's clock says to save."""
        answers = self.world.gather(stop.signal_number or 0, save_is_due)
        signals = [int(number) for number, _ in answers if number]
        return (signals[0] if signals else None), bool(answers[0][1])

    def _step(self, batches: Sequence[Rows]) -> None:
        """One optimiser step on the mean loss of the target tokens of all these batches."""
        state = self.state
        state.step += 1
        torch.manual_seed(_dropout_seed(self.settings.seed, state.step, self.world.rank))
        nll, tokens = self._backward(batches)
        limit = self.settings.clip_grad_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        state.batch += len(batches)
        if math.isfinite(norm):
            self.optimizer.step()
            state.running.add(nll, tokens)
        else:
            state.running.skipped_steps += 1
        self.optimizer.zero_grad()

    def _backward(self, batches: Sequence[Rows]) -> tuple[float, int]:
        """Add the batches' gradient, part by part; returns the sum of their losses and of how many tokens it is."""
        self.model.train()
        parts = [part for rows in batches for part in self._parts(rows)]
        weight = self.world.size  # undoes the division in the mean over the processes
        if not parts:  # more processes than sentences: this one takes part with nothing
            parts, weight = [batches[0][:1]], 0
        tokens = int((self.train_split.target.lengths[np.concatenate(batches)] + 1).sum())  # of all, with <eos>
        nll = 0.0
        for index, part in enumerate(parts, start=1):
            batch = collate(self.train_split, part).to(self.device)
            with self.world.pass_of(self.token_loss, is_last=index == len(parts)):
                with autocast(self.device, self.precision):
                    losses = self.token_loss(batch.source, batch.target)
                nll += losses.nll.sum().item() if weight else 0.0  # after nccl's part it might wait for the dead
                (losses.objective * weight / tokens).backward()
        return sum(share for (share,) in self.world.gather(nll)), tokens

    def _parts(self, rows: Rows) -> list[Rows]:
        """This process's share of a batch, in the parts that are computed one after another."""
        share = share_of(self.train_split, rows, self.world)
        if not len(share):
            return []
        return parts_by_length(self.train_split, share, PART) if self.packs else [share]

    def _end_epoch(self) -> None:
        """Validate, record, and save."""
        state, running = self.state, self.state.running
        started = time.monotonic()
        valid = corpus_losses(self.model, self.valid_split, self.valid_rows, self.world)
        if not math.isfinite(valid.loss) or not running.batches:
            raise ConfigError(
                f"training.learning_rate: {self.settings.learning_rate:g} made training diverge (validation loss "
                f"{valid.loss} in epoch {state.epoch}); lower it and train with --fresh"
            )
        is_best = state.best_valid_loss is None or valid.loss < state.best_valid_loss
        entry = {
            "epoch": state.epoch,
            "step": state.step,
            "train_loss": running.nll / running.target_tokens,
            "valid_loss": valid.loss,
            "train_loss_batch_mean": running.batch_means / running.batches,
            "valid_loss_batch_mean": valid.loss_batch_mean,
            "valid_ppl": valid.ppl,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "target_tokens": running.target_tokens,
            "train_seconds": round(running.seconds, 3),
            "valid_seconds": round(time.monotonic() - started, 3),
            "skipped_steps": running.skipped_steps,
            "best": is_best,
        }
        self.history.append(entry)
        if is_best:
            state.best_valid_loss = valid.loss
        state.validations_since_best = 0 if is_best else state.validations_since_best + 1
        state.epoch, state.batch, state.running = state.epoch + 1, 0, RunningLoss()
        if self.world.is_first:
            self.run.write_history(self.history)
        self._save(is_best=is_best)
        log.info(_epoch_line(entry, self.settings.epochs))
        if self.world.is_first:
            self._draw_curves()
        self._write_events()

    def _save(self, *, is_best: bool = False) -> None:
        if self.world.is_first:
            self.run.save(self.model, self.optimizer, self.state, is_best=is_best)
        self.world.wait()  # if one ended before the first has written, torchrun would end that too

    def _draw_curves(self) -> None:
        from transformer_cli import plots  # matplotlib: half a second that the first steps need not wait for

        try:
            plots.draw_curves({self.run.config.name: self.history}, self.run.folder / "curves.png")
        except (OSError, ValueError) as error:  # no reason to stop training
            log.warning("curves.png could not be drawn: %s", error)

    def _write_events(self) -> None:
        if not (self.settings.tensorboard and self.world.is_first):
            return
        try:
            if self.event_file is None:
                self.event_file = events.EventFile(self.run.folder / "tensorboard", self.history)
            else:
                self.event_file.add(self.history[-1])
        except OSError as error:  # no reason to stop training; the next validation begins a new file
            self.event_file = None
            log.warning("TensorBoard's event file could not be written: %s", error)

    def _stopped(self, signal_number: int) -> Interrupted:
        return Interrupted(f"stopped and saved at step {self.state.step:,}", signal_number)

    def _patience_is_spent(self) -> bool:
        patience = self.settings.patience
        spent = patience is not None and self.state.validations_since_best >= patience
        if spent:
            log.info("no better validation loss in %s epochs (patience): stopping", self.state.validations_since_best)
        return spent

    def _usable(self, name: str) -> tuple[EncodedSplit, Rows]:
        split = self.dataset.split(name)
        limit = self.run.config.model.max_length
        rows = rows_within(split, limit)
        if len(rows) < len(split):
            log.warning("%s: left out %d pairs longer than max_length %s", name, len(split) - len(rows), limit)
        if not len(rows):
            raise DataError(f"{self.dataset.folder}: no pair of {name} fits in model.max_length {limit}")
        return split, rows

    def _bar(self) -> "progress.Bar":
        """Counts target tokens; begins where the state stands."""
        lengths = self.train_split.target.lengths
        return progress.bar(
            f"epoch {self.state.epoch}/{self.settings.epochs}",
            total=int(lengths[self.train_rows].sum()) + len(self.train_rows),
            unit=" tokens",
            unit_scale=True,
            initial=self.state.running.target_tokens,
            as_lines=not self.world.is_first,  # which nobody hears
        )

    def _show(self, bar: "progress.Bar") -> None:
        running = self.state.running
        loss = running.nll / max(1, running.target_tokens)
        bar.set_postfix_str(f"loss {loss:.3f}, PPL {perplexity(loss):.1f}", refresh=False)
        bar.update(running.target_tokens - bar.n)


@contextmanager
def _told_how_to_go_on(*, fresh: bool) -> Iterator[None]:
    """Add to what ends training before its time which command goes on; with --fresh it would begin anew once more."""
    without = " without --fresh" if fresh else ""
    try:
        yield
    except Interrupted as stopped:
        raise Interrupted(f"{stopped}; the same command{without} goes on", stopped.signal_number) from None
    except DistributedError as lost:
        how = f"start the same command again{without}: it goes on from the last save"
        raise DistributedError(f"{lost}; {how}") from None


def _dropout_seed(seed: int, step: int, rank: int) -> int:
    """32 well-mixed bits: torch's CPU generator looks at no more of a seed."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1)[0])


def _epoch_line(entry: dict[str, Any], epochs: int) -> str:
    return (
        f"epoch {entry['epoch']:>{len(str(epochs))}}/{epochs}"
        f"  train {entry['train_loss']:.3f} (PPL {perplexity(entry['train_loss']):.2f})"
        f"  valid {entry['valid_loss']:.3f} (PPL {entry['valid_ppl']:.2f})"
        f"  {entry['train_seconds']:.1f} s + {entry['valid_seconds']:.1f} s"
        + (f"  {entry['skipped_steps']} steps skipped (gradient not finite)" if entry["skipped_steps"] else "")
        + ("  best" if entry["best"] else "")
    )
