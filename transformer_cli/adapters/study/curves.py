"""Learning curves of a run, updated after validations: curves.png, and TensorBoard's event file.

Only this module uses tensorboard, which is optional and imported only if it is enabled.
"""

import io
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from transformer_cli.errors import ConfigError
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Validation
from transformer_cli.system.terminal import show_status
from transformer_cli.training.callbacks import Callback, TrainerView

MIN_SECONDS = 30  # between two drawings, each of which takes most of a second

log = logging.getLogger(__name__)


class DrawCurves(Callback):
    """Draws curves.png, at most every MIN_SECONDS, and at the end. A failure is only a warning."""

    def __init__(self) -> None:
        self._n_drawn, self._drawn_at = 0, -math.inf

    def on_validation(self, trainer: TrainerView) -> None:
        """Draw all validations so far, if the last drawing is old enough."""
        if time.monotonic() - self._drawn_at >= MIN_SECONDS:
            self.on_end(trainer)

    def on_end(self, trainer: TrainerView) -> None:
        """Draw all validations, unless that has been done."""
        if len(trainer.validations) == self._n_drawn:
            return
        self._n_drawn, self._drawn_at = len(trainer.validations), time.monotonic()
        from transformer_cli.adapters.study import plots  # imported late: it takes half a second

        show_status("drawing curves.png")
        try:
            figure = plots.draw_curves({trainer.run.config.run_name: [asdict(each) for each in trainer.validations]})
            plots.save(figure, trainer.run.folder / "curves.png", follow=False)
        except (OSError, ValueError) as error:
            log.warning("curves.png could not be drawn: %s", error)


class TensorBoard(Callback):
    """Writes the history as TensorBoard's event file (`training.tensorboard`)."""

    implements = "training.tensorboard"

    def __init__(self) -> None:
        """Raises ConfigError if tensorboard is not installed."""
        try:
            import tensorboard  # noqa: F401
        except ImportError:
            raise ConfigError(
                "training.tensorboard: tensorboard is not installed; run `pip install 'tensorboard>=2.18'`, "
                "or set it to false"
            ) from None

    def on_validation(self, trainer: TrainerView) -> None:
        """Write all validations so far."""
        write_events(trainer.run, trainer.validations)


def write_events(run: Run, validations: Sequence[Validation]) -> None:
    """Write all validations as TensorBoard's event file; warns if that fails.

    The file is overwritten in place and always begins with the same bytes, so that a running TensorBoard reads what was
    added. torch's SummaryWriter is not used: its thread prints a traceback if the disk is full.
    """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter
    from torch.utils.tensorboard.summary import text

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
        for each in found.steps:
            values = [Summary.Value(tag=f"step/{key}", simple_value=each[key]) for key in each if key != "step"]
            event = Event(wall_time=date, step=int(each["step"]), summary=Summary(value=values))
            writer.write(event.SerializeToString())
        for number, example in enumerate(found.examples, start=1):
            lines = "\n".join(f"    {kind:11}  {line}" for kind, line in example.items())  # indented: no Markdown
            summary = text(f"example/{number}", lines)
            writer.write(Event(wall_time=date, step=found.step, summary=summary).SerializeToString())
    folder = run.folder / "tensorboard"
    try:
        folder.mkdir(exist_ok=True)
        (folder / "events.out.tfevents").write_bytes(content.getvalue())
    except OSError as error:
        log.warning("TensorBoard's event file could not be written: %s", error)
