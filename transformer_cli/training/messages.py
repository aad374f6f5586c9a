"""What training logs: a summary at its beginning, its progress, each validation, and the result."""

import logging
import math
import time
from collections.abc import Sequence

from transformer_cli.compute.devices import describe_device
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.data.dataset import Rows
from transformer_cli.model.transformer import count_parameters
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Average, Validation, best_of, load_average
from transformer_cli.scoring.losses import perplexity, perplexity_text
from transformer_cli.system import progress
from transformer_cli.system.terminal import pluralize
from transformer_cli.training.callbacks import TrainerView

MIN_VALID_PAIRS = 20  # with fewer, the validation loss varies by some tenths by chance
STEP_COST = 3  # a step takes as long as three validations of the same tokens: one forward, two backward
SCORE_NAMES = {"loss": "loss", "bleu": "BLEU (NFC)", "chrf": "chrF (NFC)"}  # by training.best_checkpoint_metric

log = logging.getLogger(__name__)


def log_start(trainer: TrainerView) -> None:
    """Log the model, the text, the device and where training resumes; warn of settings that do not suit the text."""
    run, learner, state = trainer.run, trainer.learner, trainer.state
    config, training, world = run.config, run.config.training, trainer.world
    unit, number = training.end
    pairs = len(trainer.texts.train.rows)
    parameters = f"{count_parameters(learner.model):,} parameters"
    if n_frozen := sum(each.numel() for each in learner.model.parameters() if not each.requires_grad):
        parameters += f" and {n_frozen:,} frozen ones ({', '.join(training.freeze)})"
    text = f"{config.data.source}→{config.data.target}, {pluralize(pairs, 'pair')} of {trainer.dataset.folder}"
    where = describe_device(learner.device) + (f" × {world.size} processes" if world.size > 1 else "")
    facts = (parameters, text, pluralize(number, unit[:-1]), where, learner.precision)
    log.info("%s: %s", config.run_name, "; ".join(facts))
    for name, sentences in (("valid", trainer.texts.valid), ("training.extra_valid", trainer.texts.extra_valid)):
        if sentences and len(sentences.rows) < MIN_VALID_PAIRS and training.best_checkpoint_metric != "last":
            what = "%s: %s are too few to choose a checkpoint; use a few hundred"
            log.warning(what, name, pluralize(len(sentences.rows), "pair"))
    if state.has_ended(training) and not state.patience_is_spent(training):
        done = f"the only {unit[:-1]} is" if number == 1 else f"all {number:,} {unit} are"
        more = "" if training.needs_horizon else f"; raise training.{training.end_key} to train on"
        log.info("%s trained%s", done, more)
    elif state.step:
        where = f"epoch {state.epoch}, {pluralize(state.batch, 'batch', 'batches')} into it"
        log.info("resuming from the checkpoint at step %s (%s)", f"{state.step:,}", where)
    else:
        rate = training.muon_learning_rate
        if training.optimizer != "muon" and rate != TrainingConfig.model_fields["muon_learning_rate"].default:
            log.warning("training.muon_learning_rate: %g changes nothing without training.optimizer: muon", rate)
        n_batches = len(trainer.plan())
        n_steps = number * training.num_steps(n_batches) if unit == "epochs" else number
        if n_steps <= training.warmup_steps:
            what = "training.warmup_steps %s: training has about %s, so its rate never reaches training.learning_rate"
            log.warning(what, f"{training.warmup_steps:,}", pluralize(n_steps, "step"))
        elif n_batches == 1 and training.batch_size > pairs:
            what = "training.batch_size %s takes all pairs at once: an epoch is one step"
            log.warning(what, training.batch_size)


def time_estimate(trainer: TrainerView, *, valid_seconds: float = 0.0, epoch_seconds: float = 0.0) -> str:
    """Returns how long training will take, in words, judged by the time of a validation or of an epoch's steps."""
    texts, training, plan = trainer.texts, trainer.run.config.training, trainer.plan()
    unit, number = training.end
    steps = training.num_steps(len(plan))
    epochs = number if unit == "epochs" else number / steps
    validated = sum(each.count_target_tokens([each.rows]) for each in texts.validation_splits)
    per_epoch = texts.train.count_target_tokens(plan)
    validations = epochs * steps / (training.validate_every or steps)
    valid_seconds = valid_seconds or epoch_seconds * validated / per_epoch / STEP_COST
    minutes = valid_seconds * (STEP_COST * epochs * per_epoch / validated + validations) / 60
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes / 60:.1f} hours" if minutes > 120 else f"about {pluralize(math.ceil(minutes), 'minute')}"


class StepBar:
    """A progress bar, in target tokens, of an epoch, or of its part up to the last step. Only rank 0 shows it."""

    def __init__(self, trainer: TrainerView) -> None:
        """Shows nothing before `open`."""
        self.trainer = trainer
        self._bar: progress.Bar | None = None
        self._logged_at = time.time()  # a line, by a bar or a validation: an epoch, which has a bar, may be short

    def open(self) -> None:
        """Show the bar, unless it is open already."""
        if self._bar is None:
            texts, state, plan = self.trainer.texts, self.trainer.state, self.trainer.plan()
            training = self.trainer.run.config.training
            unit, number = training.end
            end = len(plan)
            if unit == "steps":
                end = state.batch + (number - state.step) * training.gradient_accumulation_steps
            self._bar = progress.bar(
                self._progress_text(),
                total=texts.train.count_target_tokens(plan[:end]),
                unit=" tokens",
                unit_scale=True,
                initial=texts.train.count_target_tokens(plan[: state.batch]),
                is_silent=not self.trainer.world.is_main,
                logged_at=self._logged_at,
            )

    def update(self, batches: Sequence[Rows]) -> None:
        """Count a step on these batches, and show the mean loss since the last validation."""
        assert self._bar, "it is open"
        running = self.trainer.state.running
        self._bar.set_description_str(self._progress_text(), refresh=False)
        self._bar.set_postfix_str(f"loss {running.nll / max(1, running.target_tokens):.3f}", refresh=False)
        self._bar.update(self.trainer.texts.train.count_target_tokens(batches))

    def restart_minute(self) -> None:
        """Without a terminal, let the next line follow a minute after now, since a validation was logged."""
        self._logged_at = time.time()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._logged_at = getattr(self._bar, "last_print_t", self._logged_at)  # a silent bar has none
            self._bar.close()
            self._bar = None

    def _progress_text(self) -> str:
        """Returns the epoch in progress, or the number of steps, such as "epoch 2/10"."""
        state, (unit, number) = self.trainer.state, self.trainer.run.config.training.end
        return f"epoch {state.epoch}/{number}" if unit == "epochs" else f"step {state.step:,}/{number:,}"


def validation_as_line(validation: Validation, training: TrainingConfig) -> str:
    """Returns a validation as a line for the log."""
    skipped = pluralize(validation.skipped_steps, "step")
    return (
        f"{_progress(validation, training)}"
        f"{_loss('train', validation.train_loss)}{_loss('valid', validation.valid_loss)}"
        f"{_loss('extra_valid', validation.extra_valid_loss)}"
        f"  {validation.train_seconds + validation.valid_seconds:.1f} s"
        + (f"  {skipped} skipped (gradient not finite)" if validation.skipped_steps else "")
        + _score(validation.valid_score, training)
        + ("  best" if validation.best else "")
    )


def _loss(name: str, loss: float | None) -> str:
    return "" if loss is None else f"  {name} {loss:.3f} (PPL {perplexity_text(perplexity(loss), 2)})"


def _score(score: float | None, training: TrainingConfig) -> str:
    return "" if score is None else f"  {SCORE_NAMES[training.best_checkpoint_metric]} {score:.2f}"


def _progress(validation: Validation, training: TrainingConfig) -> str:
    """Returns the progress at a validation: "epoch 2/10", or in steps if training ends or validates by steps."""
    unit, number = training.end
    if unit == "epochs" and training.validate_every is None:
        return f"epoch {validation.epoch:>{len(str(number))}}/{number}"
    of = f"/{number:,}" if unit == "steps" else ""
    return f"step {validation.step:>{len(of) - 1 if of else 1},}{of} (epoch {validation.epoch})"


def best_as_line(run: Run, validations: Sequence[Validation]) -> str:
    """Returns the validation of the best checkpoint, and its folder, as a line for the log.

    An interpolation was chosen by two texts, so the line does not call its validation the best.
    """
    best = best_of(validations)
    average = load_average(run, "best")
    loss, ppl = (average.valid_loss, average.valid_ppl) if average else (best.valid_loss, best.valid_ppl)
    where = f"of averaged weights after step {average.step:,}" if average else f"at step {best.step:,}"
    head = "last validation" if run.config.training.best_checkpoint_metric == "last" else "best validation"
    if average and average.interpolation is not None:
        head, where = "validation", f"with {average.interpolation:.0%} of the initial weights"
    elif run.config.training.validate_every is None and (average is None or average.epochs):
        where = f"of averaged weights after epoch {average.epochs[-1]}" if average else f"in epoch {best.epoch}"
        where += f" of {validations[-1].epoch}"
    score = average.valid_score if average else best.valid_score
    found = f"loss {loss:.3f} (PPL {perplexity_text(ppl, 2)})"
    if score is not None:
        name = SCORE_NAMES[run.config.training.best_checkpoint_metric]
        found = f"{name} {score:.2f} (loss {loss:.3f}, PPL {perplexity_text(ppl, 2)})"
    return f"{head} {found} {where}: {run.checkpoint('best')}"


def final_as_line(average: Average, training: TrainingConfig, *, is_best: bool) -> str:
    """Returns the validation of averaged weights as a line for the log."""
    what = f"mean of the last {len(average.epochs)} validations' weights" if average.epochs else "final weights"
    best = "  best" if is_best else ""
    return f"{what}{_loss('valid', average.valid_loss)}{_score(average.valid_score, training)}{best}"
