"""How training stops before its end: the first signal is noted, and training saves and ends after what it is doing.

Knows nothing of steps.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from transformer_cli.errors import DistributedError, Interrupted
from transformer_cli.system.signals import STOP_SIGNALS, Stopped, current_stop_handler, temporary_handler


class StopRequest:
    """The signal that has arrived, if any, and how far the run has been saved."""

    def __init__(self, *, saved_step: int | None = None, was_fresh: bool = False) -> None:
        """saved_step: the step of the last save; None if there is none yet.

        was_fresh: --fresh was given, and the old run has been moved aside: given again, it would begin anew once more.
        """
        self.signal_number: int | None = None
        self.saved_step = saved_step
        self.resume_command = f"the same command{' without --fresh' if was_fresh else ''}"
        """the command that goes on, in words"""

    def note(self, number: int) -> None:
        """Note the first signal."""
        self.signal_number = number

    def interrupted(self, how: str = "stopped and saved") -> Interrupted:
        """Returns what ends training, as a rule when all that was done has been saved."""
        words = f"stopped before the first step; give {self.resume_command} again"
        if self.saved_step is not None:
            words = f"{how} at step {self.saved_step:,}; {self.resume_command} goes on"
        return Interrupted(words, self.signal_number or signal.SIGINT)


@contextmanager
def stop_signals(stop: StopRequest) -> Iterator[None]:
    """Note the first signal in a StopRequest during the block instead of ending the process.

    On the command line, `signals` says what the next ones do. Elsewhere, such as in a notebook, they have their usual
    effect.
    """
    with ExitStack() as handled:

        def note(number: int, _frame: object) -> None:
            stop.note(number)
            handled.close()

        if handler := current_stop_handler():
            handled.enter_context(handler.with_listener(stop.note))
        elif threading.current_thread() is threading.main_thread():  # it alone may set handlers
            handled.enter_context(temporary_handler(STOP_SIGNALS, note))
        yield


@contextmanager
def resume_hint(stop: StopRequest) -> Iterator[None]:
    """Say of what ends training before its time which command goes on."""
    try:
        yield
    except Stopped as stopped:  # before the first step
        stop.note(stopped.number)
        raise stop.interrupted() from None
    except DistributedError as lost:
        if stop.signal_number:  # the others got it too, and one of them has ended before this one could save
            raise stop.interrupted("stopped at once; the last save is") from None
        how = f"start {stop.resume_command} again: it goes on from the last save"
        raise DistributedError(f"{lost}; {how}") from None
