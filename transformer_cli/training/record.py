"""What training says: of its validations, in the log, as curves.png and for TensorBoard; and of how it ended.

The first signal is noted, and training saves and ends after the step or validation in progress. Knows nothing of steps.
The one owner of tensorboard, an extra that is imported only if it is enabled.
"""

import io
import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import datetime

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.errors import ConfigError, DistributedError, Interrupted
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Average, Validation, best_of, load_average
from transformer_cli.scoring.losses import perplexity, perplexity_text
from transformer_cli.system.signals import NUMBERS, Stopped, current_watch, handling
from transformer_cli.system.terminal import counted, note

SCORES = {"loss": "loss", "bleu": "BLEU", "chrf": "chrF"}  # by training.validate_by

log = logging.getLogger(__name__)


def as_line(found: Validation, training: TrainingConfig) -> str:
    """Returns a validation as a line for the log."""
    return (
        f"{_progress(found, training)}"
        f"{_loss('train', found.train_loss)}{_loss('valid', found.valid_loss)}{_loss('watched', found.watch_loss)}"
        f"  {found.train_seconds + found.valid_seconds:.1f} s"
        + (f"  {counted(found.skipped_steps, 'step')} skipped (gradient not finite)" if found.skipped_steps else "")
        + _score(found.valid_score, training)
        + ("  best" if found.best else "")
    )


def _loss(name: str, loss: float | None) -> str:
    return "" if loss is None else f"  {name} {loss:.3f} (PPL {perplexity_text(perplexity(loss), 2)})"


def _score(score: float | None, training: TrainingConfig) -> str:
    return "" if score is None else f"  {SCORES[training.validate_by]} {score:.2f}"


def _progress(found: Validation, training: TrainingConfig) -> str:
    """Returns how far training had come, by epochs, or by steps where these decide when it validates or ends."""
    unit, number = training.end
    if unit == "epochs" and training.validate_every is None:
        return f"epoch {found.epoch:>{len(str(number))}}/{number}"
    of = f"/{number:,}" if unit == "steps" else ""
    return f"step {found.step:>{len(of) - 1 if of else 1},}{of} (epoch {found.epoch})"


def best_as_line(run: Run, validations: Sequence[Validation]) -> str:
    """Returns how the best checkpoint was validated, and where it is, as a line for the log.

    With a share of the start it fits two texts, so it is not said to have the best validation.
    """
    best = best_of(validations)
    average = load_average(run, "best")
    loss, ppl = (average.valid_loss, average.valid_ppl) if average else (best.valid_loss, best.valid_ppl)
    where = f"of averaged weights after step {average.step:,}" if average else f"at step {best.step:,}"
    head = "best validation"
    if average and average.start_share is not None:
        head, where = "validation", f"with {average.start_share:.0%} of the start's weights"
    elif run.config.training.validate_every is None:
        where = f"of averaged weights after epoch {average.epochs[-1]}" if average else f"in epoch {best.epoch}"
        where += f" of {validations[-1].epoch}"
    score = average.valid_score if average else best.valid_score
    found = f"loss {loss:.3f} (PPL {perplexity_text(ppl, 2)})"
    if score is not None:
        name = SCORES[run.config.training.validate_by]
        found = f"{name} {score:.2f} (loss {loss:.3f}, PPL {perplexity_text(ppl, 2)})"
    return f"{head} {found} {where}: {run.checkpoint('best')}"


def mean_as_line(made: Average, count: int, training: TrainingConfig, *, is_best: bool) -> str:
    """Returns the validation of the mean of so many validations' weights as a line for the log."""
    return (
        f"mean of the last {count} validations' weights"
        f"{_loss('valid', made.valid_loss)}{_score(made.valid_score, training)}{'  best' if is_best else ''}"
    )


def draw_curves(run: Run, validations: Sequence[Validation]) -> None:
    """Draw curves.png. Where that fails there is a warning, since it is no reason to stop training."""
    from transformer_cli.adapters.study import plots  # matplotlib takes half a second: not before the first steps

    note("drawing curves.png")
    try:
        figure = plots.draw_curves({run.config.run_name: [asdict(each) for each in validations]})
        plots.save(figure, run.folder / "curves.png")
    except (OSError, ValueError) as error:
        log.warning("curves.png could not be drawn: %s", error)


def check_tensorboard() -> None:
    """Raises ConfigError if tensorboard is not installed."""
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise ConfigError(
            "training.tensorboard: tensorboard is not installed; run `pip install 'tensorboard>=2.18'`, "
            "or set it to false"
        ) from None


def write_events(run: Run, validations: Sequence[Validation]) -> None:
    """Write all validations as TensorBoard's event file, if the config says so; a warning says if that cannot be done.

    The file always begins with the same bytes, and is written in its place, so a TensorBoard that has opened it finds
    what is new. torch's SummaryWriter works in a thread, which prints a traceback where the disk is full.
    """
    if not run.config.training.tensorboard:
        return
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    content = io.BytesIO()
    writer = RecordWriter(content)
    writer.write(Event(file_version="brain.Event:2").SerializeToString())
    for found in validations:
        curves = {
            "loss/train": found.train_loss,
            "loss/valid": found.valid_loss,
            "perplexity/valid": found.valid_ppl,
            "learning_rate": found.learning_rate,
            "target_tokens_per_second": found.target_tokens_per_second,
        }
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in curves.items()])
        date = datetime.fromisoformat(found.date).timestamp()
        writer.write(Event(wall_time=date, step=found.step, summary=summary).SerializeToString())
    folder = run.folder / "tensorboard"
    try:
        folder.mkdir(exist_ok=True)
        (folder / "events.out.tfevents").write_bytes(content.getvalue())
    except OSError as error:
        log.warning("TensorBoard's event file could not be written: %s", error)


class Stop:
    """The signal that has arrived, if any, and how far the run has been saved."""

    def __init__(self, *, saved_step: int | None = None, was_fresh: bool = False) -> None:
        """saved_step: the step of the last save; None if there is none yet.

        was_fresh: --fresh was given, and the old run has been moved aside: given again, it would begin anew once more.
        """
        self.signal_number: int | None = None
        self.saved_step = saved_step
        self.same_command = f"the same command{' without --fresh' if was_fresh else ''}"
        """the command that goes on, in words"""

    def note(self, number: int) -> None:
        """Note the first signal."""
        self.signal_number = number

    def interrupted(self, how: str = "stopped and saved") -> Interrupted:
        """Returns what ends training, as a rule when all that was done has been saved."""
        words = f"stopped before the first step; give {self.same_command} again"
        if self.saved_step is not None:
            words = f"{how} at step {self.saved_step:,}; {self.same_command} goes on"
        return Interrupted(words, self.signal_number or signal.SIGINT)


@contextmanager
def stop_signals(stop: Stop) -> Iterator[None]:
    """Note the first signal in a Stop during the block instead of ending the process.

    On the command line, `signals` says what the next ones do. Elsewhere, such as in a notebook, they have their usual
    effect.
    """
    with ExitStack() as handled:

        def note(number: int, _frame: object) -> None:
            stop.note(number)
            handled.close()

        if watch := current_watch():
            handled.enter_context(watch.telling(stop.note))
        elif threading.current_thread() is threading.main_thread():  # it alone may set handlers
            handled.enter_context(handling(NUMBERS, note))
        yield


@contextmanager
def told_how_to_go_on(stop: Stop) -> Iterator[None]:
    """Say of what ends training before its time which command goes on."""
    try:
        yield
    except Stopped as stopped:  # before the first step
        stop.note(stopped.number)
        raise stop.interrupted() from None
    except DistributedError as lost:
        if stop.signal_number:  # the others got it too, and one of them has ended before this one could save
            raise stop.interrupted("stopped at once; the last save is") from None
        how = f"start {stop.same_command} again: it goes on from the last save"
        raise DistributedError(f"{lost}; {how}") from None
