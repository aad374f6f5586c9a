"""What a run keeps of its validations: history.jsonl, curves.png and, if enabled, TensorBoard's event file."""

import logging
from collections.abc import Sequence
from typing import Any

from transformer_cli.runs.run import Run
from transformer_cli.runs.state import Validation, load_average
from transformer_cli.system.terminal import note
from transformer_cli.training import events

log = logging.getLogger(__name__)


class Record:
    """The validations of a run in training, and the files that show them."""

    def __init__(self, run: Run, validations: Sequence[Validation] = (), *, writes: bool = True) -> None:
        """writes: whether to write the files: True in one process only, though all of them know the validations."""
        self.run = run
        self.validations = list(validations)
        self.writes = writes
        self._event_file: events.EventFile | None = None

    def keep(self, validation: Validation) -> None:
        """Add a line to the history."""
        self.validations.append(validation)
        if self.writes:
            self.run.write_history(self._entries())

    def show(self) -> None:
        """Draw the curves, and bring the event file up to date."""
        if self.writes:
            self._draw_curves()
            self.write_events()

    def write_events(self) -> None:
        """Write all validations to a new event file, or the last one to the file that is open."""
        if not (self.writes and self.run.config.training.tensorboard):
            return
        entries = self._entries()
        try:
            if self._event_file is None:
                self._event_file = events.EventFile(self.run.folder / "tensorboard", entries)
            else:
                self._event_file.add(entries[-1])
        except OSError as error:  # no reason to stop training; the next validation begins a new file
            self._event_file = None
            log.warning("TensorBoard's event file could not be written: %s", error)

    def say_best(self) -> None:
        """Log which validation was the best, and where its checkpoint is."""
        epochs, path = len(self.validations), self.run.checkpoint("best")
        if average := load_average(self.run, "best"):
            where, found = (
                f"of averaged weights after epoch {average.epochs[-1]}",
                (average.valid_loss, average.valid_ppl),
            )
        else:
            best = min(self.validations, key=lambda validation: validation.valid_loss)
            where, found = f"in epoch {best.epoch}", (best.valid_loss, best.valid_ppl)
        log.info("best validation loss %.3f (PPL %.2f) %s of %d: %s", *found, where, epochs, path)

    def _draw_curves(self) -> None:
        from transformer_cli.inspection import plots  # matplotlib takes half a second: not before the first steps

        note("drawing curves.png")
        try:
            plots.draw_curves({self.run.config.run_name: self._entries()}, self.run.folder / "curves.png")
        except (OSError, ValueError) as error:  # no reason to stop training
            log.warning("curves.png could not be drawn: %s", error)

    def _entries(self) -> list[dict[str, Any]]:
        return [each.as_json() for each in self.validations]
