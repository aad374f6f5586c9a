"""`tfm train --check`: two minutes of training, thrown away, that show what a long one would show too late."""

import math
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, cycle, repeat
from pathlib import Path
from statistics import median

import numpy as np
import torch

from transformer_cli.adapters.study import plots
from transformer_cli.compute.devices import format_bytes
from transformer_cli.data.batching import collate
from transformer_cli.data.dataset import EncodedSplit, Rows
from transformer_cli.errors import ConfigError
from transformer_cli.scoring.metrics import bleu_of_tokens
from transformer_cli.system.terminal import pluralize, show_status
from transformer_cli.text.vocabulary import PAD
from transformer_cli.training.callbacks import Callback, TrainerView
from transformer_cli.training.learner import Learner
from transformer_cli.training.messages import time_estimate
from transformer_cli.training.translation_score import greedy_hypotheses

N_BATCHES, N_SHOWN = 3, 5  # batches, and pairs of each, that are shown
MIN_CORRELATION = 0.3  # of lengths
N_TIMED = 4  # steps of half a batch; the fastest counts, since other programs may run
RATES, SWEEP_S, SWEEP_STEPS = (1e-5, 1.0), 45, (25, 120)  # first and last rate; time; fewest and most steps
MARGIN = 4  # between the rate at which the loss is lowest and the suggested one
N_PAIRS, LEARN_S, WARMUP, LEARNED = 16, 40, 20, 0.05  # to learn by heart; time; steps; nats per target token


class CheckEnded(Exception):
    """Ends training before its first step."""


class Check(Callback):
    """Reports on text, speed, learning rates, and pairs to learn by heart; then raises CheckEnded."""

    def __init__(self, picture: Path, report: Callable[[str], object]) -> None:
        """picture: the file to write. report: called with each line."""
        self.picture, self.report = picture, report

    def on_begin(self, trainer: TrainerView) -> None:
        """Check the run, as the callbacks before this one have prepared it."""
        for line in chain(describe_text(trainer), train_on_trial(trainer, self.picture)):
            self.report(line)
        raise CheckEnded


def describe_text(trainer: TrainerView) -> Iterator[str]:
    """Yields pairs of the first batches, as the model reads them, and a line about the whole training text."""
    codecs, plan, rows, split = trainer.run.codecs, trainer.plan(), trainer.texts.train.rows, trainer.texts.train.split
    for number, batch in enumerate(plan[:N_BATCHES], start=1):
        yield f"batch {number} of {len(plan):,}, {pluralize(len(batch), 'pair')}:"
        for row in batch[:N_SHOWN]:
            source, target = split.source[row].tolist(), split.target[row].tolist()
            yield f"  {codecs.source.decode(source)} ||| {codecs.target.decode(target)}"
    ids = torch.cat([each.flatten() for batch in plan[:N_BATCHES] for each in vars(collate(split, batch)).values()])
    counts = trainer.dataset.manifest["splits"]["train"]
    with np.errstate(invalid="ignore"):  # NaN if all sentences are equally long
        correlation = np.corrcoef(split.source.lengths[rows], split.target.lengths[rows])[0, 1]
    verdict = "WRONG? usual is 0.7 to 0.95; about 0 if a side is shifted" if correlation < MIN_CORRELATION else "fine"
    lengths = f"the lengths of source and target correlate by {correlation:.2f}: {verdict}"
    if math.isnan(correlation):
        lengths = "all sentences of a side are equally long"
    yield (
        f"text: padding {(ids == PAD).float().mean():.0%}; unknown {counts['source']['unknown_rate']:.2%} of the "
        f"source, {counts['target']['unknown_rate']:.2%} of the target; too long, so left out: "
        f"{counts['sentences'] - len(rows):,} of {pluralize(counts['sentences'], 'pair')}; {lengths}"
    )


def train_on_trial(trainer: TrainerView, picture: Path) -> Iterator[str]:
    """Yields lines about speed, learning rate and pairs to learn by heart; draws the loss at rising learning rates."""
    learner, split, training = trainer.learner, trainer.texts.train.split, trainer.run.config.training
    plan, size = trainer.plan(), training.gradient_accumulation_steps
    steps = [plan[at : at + size] for at in range(0, len(plan), size)]
    halves = [[rows[: (len(rows) + 1) // 2] for rows in batches] for batches in steps]
    show_status("learning rates")
    half_seconds = min(seconds for _, seconds in train_steps(learner, split, cycle(halves), repeat(RATES[0], N_TIMED)))
    half_memory = peak_memory(learner.device)
    rates = np.geomspace(*RATES, int(np.clip(SWEEP_S / 2 / half_seconds, *SWEEP_STEPS)))
    losses, times = zip(*train_steps(learner, split, cycle(steps), rates), strict=True)
    seconds = median(times)
    yield (
        f"speed: {seconds:.2g} s per step, peak memory {peak_memory(learner.device)}, "
        f"{time_estimate(trainer, epoch_seconds=seconds * len(steps))} until the end; with half the batch size "
        f"{half_memory}, and {2 * half_seconds / min(times[:N_TIMED]):.2g} times as long"
    )
    smooth = np.convolve(np.pad(losses, 2, mode="edge"), np.full(5, 0.2), "valid")
    limit, given = float(rates[smooth.argmin()]), training.learning_rate
    suggested = float(f"{limit / MARGIN:.1g}")
    needs_warmup = given > limit / 2 and not training.warmup_steps
    verdict = "high: it needs warm-up" if needs_warmup else "low" if given < suggested / 10 else "fine"
    verdict = "TOO HIGH" if given > limit else verdict
    marks = {"suggested": suggested, "config": given}
    plots.save(plots.draw_sweep(rates[: len(losses)], smooth, marks), picture)
    said = f"suggested {suggested:g}, since the loss rises from {limit:.2g} on ({picture})"
    yield f"learning rate: {said}; the config has {given:g}: {verdict}"
    yield learn_by_heart(trainer, suggested)


def learn_by_heart(trainer: TrainerView, rate: float) -> str:
    """Returns whether a new model without dropout and label smoothing can learn N_PAIRS pairs, and write them."""
    model, split = trainer.run.new_model(), trainer.texts.train.split
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    training = trainer.learner.training.model_copy(update={"label_smoothing": 0.0, "consistency": 0.0})
    learner, losses, started = Learner(model, training, trainer.learner.device), list[float](), time.monotonic()
    rows = np.concatenate(trainer.plan()[:N_PAIRS])
    rows = rows[split.source.lengths[rows] > 0][:N_PAIRS]
    show_status(f"{len(rows)} pairs to learn by heart")
    for loss, _ in train_steps(learner, split, repeat([rows]), (rate * min(1.0, step / WARMUP) for step in count(1))):
        losses.append(loss)
        if loss < LEARNED or time.monotonic() - started > LEARN_S:
            break
    sources, targets = ([side[row].tolist() for row in rows] for side in (split.source, split.target))
    written = [each.tokens for each in greedy_hypotheses(model, sources)]
    bleu = bleu_of_tokens(*([[*map(str, ids)] for ids in side] for side in (written, targets)))
    verdict = "fine"
    if len(set(map(tuple, targets))) < len(rows) / 2:
        verdict = "WRONG? many targets are the same"
    elif losses[-1] > LEARNED:
        is_falling = losses[-1] < 0.9 * losses[len(losses) // 2]
        verdict = (
            "still falling" if is_falling else "WRONG: look for the mistake in the model, its loss or frozen parts"
        )
    elif written != targets and bleu < 95:
        verdict = "WRONG: the decoder sees in training what it should predict, or the search computes something else"
    return (
        f"{pluralize(len(rows), 'pair')} by heart: loss {losses[0]:.2f} → {losses[-1]:.2f} in "
        f"{pluralize(len(losses), 'step')} (0 is right), BLEU {bleu:.0f} (100 is right): {verdict}"
    )


def train_steps(
    learner: Learner, split: EncodedSplit, batches: Iterable[Sequence[Rows]], rates: Iterable[float]
) -> Iterator[tuple[float, float]]:
    """Take steps on these batches at these learning rates. Yields loss and seconds of each, while they are finite."""
    for step, (rows, rate) in enumerate(zip(batches, rates, strict=False), start=1):
        started = time.monotonic()
        learner.set_learning_rate(rate)
        found = learner.backward(split, rows, step=step)
        if not math.isfinite(found.nll + learner.step()):
            if step == 1:
                raise ConfigError("the first step has no finite loss or gradient; look at the model and its loss")
            break
        yield found.nll / found.tokens, time.monotonic() - started


def peak_memory(device: torch.device) -> str:
    """Returns the most memory that was in use so far: the GPU's, or that of this process."""
    of_process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return format_bytes(of_process if device.type == "cpu" else torch.cuda.max_memory_allocated(device))
