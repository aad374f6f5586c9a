"""Signals that ask a command to stop: SIGINT, SIGTERM, SIGHUP and SIGUSR1. Knows nothing of what the command does.

The first one is a request: it raises Stopped wherever the command is, or tells the command's listener, if it has one.
From then on Ctrl-C (SIGINT) has the system's own effect, which ends the process at once. The other signals do nothing
more, because they often come twice: `timeout` sends one to the process and to its group, and torchrun passes on what a
scheduler has sent to all processes already.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)]


class Stopped(BaseException):
    """A signal has asked the command to stop. No error, so that nothing that catches errors catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class StopHandler:
    """Waits for signals on behalf of one command."""

    number: int | None = None
    """the first signal"""
    _listener: Callable[[int], object] | None = None

    @contextmanager
    def with_listener(self, listener: Callable[[int], object]) -> Iterator[None]:
        """Call the listener with the first signal's number during the block, instead of raising Stopped."""
        self._listener = listener
        try:
            yield
        finally:
            self._listener = None

    def handle(self, number: int, _frame: object) -> None:
        """Python calls this in the main thread, between two operations."""
        if self.number is not None:
            return
        self.number = number
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self._listener is None:
            raise Stopped(number)
        self._listener(number)


_stop_handlers: list[StopHandler] = []


@contextmanager
def collect_hangups() -> Iterator["SimpleQueue[bool]"]:
    """Collect SIGHUP during the block, where it does not end the command: True for each signal.

    If it says that the command's terminal was closed, it ends the command as ever.
    """
    asked: SimpleQueue[bool] = SimpleQueue()  # whose put() another signal may interrupt
    handler, had_terminal = current_stop_handler(), os.isatty(2)

    def handle(number: int, frame: object) -> None:
        if handler is not None and had_terminal and not os.isatty(2):
            handler.handle(number, frame)
        else:
            asked.put(True)

    with temporary_handler([signal.SIGHUP], handle):
        yield asked


@contextmanager
def handle_stop_signals() -> Iterator[StopHandler]:
    """Watch for signals during the block. Beside the main thread, which alone gets them, nothing is watched."""
    handler = StopHandler()
    if threading.current_thread() is not threading.main_thread():
        yield handler
        return
    _stop_handlers.append(handler)
    try:
        with temporary_handler(STOP_SIGNALS, handler.handle):
            yield handler
    finally:
        _stop_handlers.remove(handler)


def current_stop_handler() -> StopHandler | None:
    """Returns the handler of the command that is running; None if the caller is no command of ours."""
    return _stop_handlers[-1] if _stop_handlers else None


@contextmanager
def temporary_handler(numbers: list[int], handler: Callable[[int, Any], object]) -> Iterator[None]:
    """Set a handler of signals during the block. One that is ignored, as in a shell's background jobs, stays so."""
    before = {number: signal.getsignal(number) for number in numbers}
    changed = [number for number in numbers if before[number] != signal.SIG_IGN]
    try:
        for number in changed:
            signal.signal(number, handler)
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])
