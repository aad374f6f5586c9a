"""What a run keeps of its validations: history.jsonl, curves.png and, if enabled, TensorBoard's event file."""

import logging
from collections.abc import Sequence
from typing import Any

from transformer_cli.errors import CheckpointError
from transformer_cli.runs.identity import RESTORE
from transformer_cli.runs.pointers import steadily
from transformer_cli.runs.run import Run, is_new
from transformer_cli.runs.seals import HISTORY, check_history
from transformer_cli.runs.state import TrainingState, load_average, load_state
from transformer_cli.system.reading import as_record
from transformer_cli.system.terminal import note
from transformer_cli.training import events
from transformer_cli.training.validation import Validation

log = logging.getLogger(__name__)


def read_validations(run: Run, state: TrainingState) -> list[Validation]:
    """Returns the validations up to a save, oldest first; a later validation, whose save was cut off, is left out.

    Raises CheckpointError if a validation is missing or damaged.
    """
    path = run.folder / HISTORY
    found = []
    for number, entry in enumerate(run.history(), start=1):
        try:
            found.append(as_record(Validation, entry))
            if found[-1].epoch != number:
                raise ValueError(f"epoch: {found[-1].epoch} should be {number}")
        except ValueError as error:
            raise CheckpointError(f"{path}: damaged: line {number}: {error}; {RESTORE}") from None
    kept = [each for each in found if each.epoch < state.epoch]
    if len(kept) != state.epoch - 1:  # every epoch ends with one
        raise CheckpointError(f"{path}: damaged: {len(kept)} of {state.epoch - 1} validations; {RESTORE}")
    check_history(run.folder, run.checkpoint("last"), run.identity.id, len(kept))
    return kept


def validations_so_far(run: Run) -> list[Validation]:
    """Returns the validations up to the last save of a run that may be in training, oldest first.

    Raises CheckpointError as `read_validations` does.
    """
    if is_new(run.folder):
        return []
    return steadily(run.folder / "last", lambda: read_validations(run, load_state(run)))


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
