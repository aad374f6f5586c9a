"""How training stops on a signal: it notes the first one, finishes its step or validation, saves and ends."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from transformer_cli.errors import DistributedError, Interrupted
from transformer_cli.system.signals import STOP_SIGNALS, StopSignal, current_stop_handler, temporary_handler


class Interruption:
    """The signal that has arrived, if any, and the last checkpoint."""

    def __init__(self, *, saved_step: int | None = None, was_fresh: bool = False) -> None:
        """saved_step: the step of the last checkpoint (None: there is none). was_fresh: the command had --fresh."""
        self.signal_number: int | None = None
        self.saved_step = saved_step
        self.resume_command = f"the same command{' without --fresh' if was_fresh else ''}"
        """the command that resumes training, in words: --fresh would begin anew"""

    def note(self, number: int) -> None:
        """Note the first signal."""
        self.signal_number = number

    def error(self, how: str = "stopped and saved") -> Interrupted:
        """Returns the exception that ends training."""
        message = f"stopped before the first step; give {self.resume_command} again"
        if self.saved_step is not None:
            message = f"{how} at step {self.saved_step:,}; {self.resume_command} resumes it"
        return Interrupted(message, self.signal_number or signal.SIGINT)


@contextmanager
def stop_signals(interruption: Interruption) -> Iterator[None]:
    """During the block, the first signal is noted in `interruption` instead of ending the process.

    What further signals do is up to system/signals.py on the command line; elsewhere, as in a notebook, they have their
    usual effect.
    """
    with ExitStack() as handled:

        def note(number: int, _frame: object) -> None:
            interruption.note(number)
            handled.close()

        if handler := current_stop_handler():
            handled.enter_context(handler.with_listener(interruption.note))
        elif threading.current_thread() is threading.main_thread():  # the only one that may set handlers
            handled.enter_context(temporary_handler(STOP_SIGNALS, note))
        yield


@contextmanager
def resume_hint(interruption: Interruption) -> Iterator[None]:
    """Add the command that resumes training to an error that ends it."""
    try:
        yield
    except StopSignal as stopped:  # before the first step
        interruption.note(stopped.number)
        raise interruption.error() from None
    except DistributedError as lost:
        if interruption.signal_number:  # another process got the signal too, and ended before this one could save
            raise interruption.error("stopped at once; the last checkpoint is") from None
        remedy = f"run {interruption.resume_command} again: it resumes from the last checkpoint"
        raise DistributedError(f"{lost}; {remedy}") from None
