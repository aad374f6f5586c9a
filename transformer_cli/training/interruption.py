"""Stopping a training well: what a signal asks for, what is saved then, and what is said. Knows nothing of steps.

The first signal is noted, and training ends after the step or validation in progress. Where that takes too long, a
thread of `signals` calls `Stop.rescue`: what is in progress is dropped, since it has changed nothing yet, and what was
done before is saved. Whatever changes weights, the state of training or their files is inside `Stop.held_off`.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from transformer_cli.errors import DistributedError, Interrupted
from transformer_cli.system.signals import NUMBERS, Stopped, current_watch, handling


class Stop:
    """The signal that has arrived, if any, and how far the run has been saved."""

    def __init__(
        self, save_rest: Callable[[], bool] = lambda: True, *, saved_step: int | None = None, was_fresh: bool = False
    ) -> None:
        """save_rest: saves what has been done since the last save; whether this process is the one that saves.

        saved_step: the step of the last save; None if there is none yet. was_fresh: --fresh was given, and the old run
        has been moved aside: given again, it would begin anew once more.
        """
        self.signal_number: int | None = None
        self.save_rest = save_rest
        self.saved_step = saved_step
        self.same_command = f"the same command{' without --fresh' if was_fresh else ''}"
        """the command that goes on, in words"""
        self._changing = threading.RLock()
        self._is_over = False

    def held_off(self) -> AbstractContextManager[object]:
        """A block in which `rescue` waits: what is saved would be neither the state before it nor the one after it."""
        return self._changing

    def interrupted(self) -> Interrupted:
        """Returns what ends training when all that was done has been saved."""
        with self._changing:
            self._is_over = True
        return Interrupted(self._saved_words(), self.signal_number or signal.SIGINT)

    def rescue(self) -> str | None:
        """Save what was done before the step or validation in progress. Returns the last words of this process.

        None: this one has saved and is about to end, or another process saves, and this one must not end before.
        """
        with self._changing:
            if self._is_over:
                return None
            try:
                return self._saved_words() if self.save_rest() else None
            except Exception as error:  # a full disk, for example: the process ends all the same
                return f"{self.last_words()} (it could not be saved: {error})"

    def last_words(self) -> str:
        """Returns what a process says that ends at once."""
        if self.saved_step is None:
            return f"stopped at once; nothing has been saved yet, and {self.same_command} begins again"
        step = f"{self.saved_step:,}"
        return f"stopped at once; the last save is that of step {step}, from which {self.same_command} goes on"

    def _saved_words(self) -> str:
        if self.saved_step is None:
            return f"stopped before the first step; give {self.same_command} again"
        return f"stopped and saved at step {self.saved_step:,}; {self.same_command} goes on"


@contextmanager
def stop_signals(stop: Stop) -> Iterator[None]:
    """Note the first signal in a Stop during the block instead of ending the process.

    On the command line, `signals` does what follows if that is not enough. Elsewhere, such as in a notebook, a second
    signal has its usual effect.
    """
    with ExitStack() as handled:

        def note(number: int, _frame: object) -> None:
            stop.signal_number = number
            handled.close()

        if watch := current_watch():
            handled.enter_context(watch.listening(stop))
        elif threading.current_thread() is threading.main_thread():  # it alone may set handlers
            handled.enter_context(handling(NUMBERS, note))
        yield


@contextmanager
def told_how_to_go_on(stop: Stop) -> Iterator[None]:
    """Say of what ends training before its time which command goes on."""
    try:
        yield
    except Stopped as stopped:  # before the first step
        stop.signal_number = stopped.number
        raise stop.interrupted() from None
    except DistributedError as lost:
        if stop.signal_number:  # the others got it too, and one of them has ended sooner
            raise Interrupted(stop.last_words(), stop.signal_number) from None
        how = f"start {stop.same_command} again: it goes on from the last save"
        raise DistributedError(f"{lost}; {how}") from None
