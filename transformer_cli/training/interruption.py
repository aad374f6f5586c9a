"""Notes signals, so that training can save and end, and says which command goes on. Knows nothing of training."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformer_cli.errors import DistributedError, Interrupted


class Stop:
    """The number of the signal that has arrived; None until then."""

    signal_number: int | None = None


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Note the first SIGINT or SIGTERM instead of ending the process; a second one has its usual effect.

    A signal that the process ignores stays ignored, for example SIGINT in a shell's background jobs.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may set handlers
        return
    previous: dict[int, Any] = {}

    def note(number: int, _frame: object) -> None:
        stop.signal_number = number
        for known, handler in previous.items():
            signal.signal(known, handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            previous[number] = signal.signal(number, note)
    try:
        yield stop
    finally:
        for known, handler in previous.items():
            signal.signal(known, handler)


@contextmanager
def told_how_to_go_on(*, was_fresh: bool = False) -> Iterator[None]:
    """Add to what ends training before its time which command goes on.

    was_fresh: --fresh was given, and the old run has been moved aside; given again, it would begin anew once more.
    """
    without = " without --fresh" if was_fresh else ""
    try:
        yield
    except Interrupted as stopped:
        raise Interrupted(f"{stopped}; the same command{without} goes on", stopped.signal_number) from None
    except DistributedError as lost:
        how = f"start the same command again{without}: it goes on from the last save"
        raise DistributedError(f"{lost}; {how}") from None
