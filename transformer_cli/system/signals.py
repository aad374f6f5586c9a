"""Signals that ask a command to stop: SIGINT, SIGTERM, SIGHUP and SIGUSR1. Knows nothing of what the command does.

The first signal raises StopSignal, or calls the command's listener if it has one. After it, Ctrl-C (SIGINT) ends the
process at once. The other signals are then ignored, because they often arrive twice: `timeout` signals the process and
its group, and torchrun forwards a signal that the scheduler has sent to all processes.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)]


class StopSignal(BaseException):
    """A signal has asked the command to stop. A BaseException, so that `except Exception` does not catch it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class StopSignalHandler:
    """The handler of stop signals during one command."""

    number: int | None = None
    """the first signal"""
    _listener: Callable[[int], object] | None = None

    @contextmanager
    def with_listener(self, listener: Callable[[int], object]) -> Iterator[None]:
        """Call the listener with the first signal's number during the block, instead of raising StopSignal."""
        self._listener = listener
        try:
            yield
        finally:
            self._listener = None

    def handle(self, number: int, _frame: object) -> None:
        """Handle a signal. Python calls this in the main thread, between two operations."""
        if self.number is not None:
            return
        self.number = number
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self._listener is None:
            raise StopSignal(number)
        self._listener(number)


_stop_handlers: list[StopSignalHandler] = []


@contextmanager
def collect_hangups() -> Iterator["SimpleQueue[bool]"]:
    """Yield a queue that gets True for each SIGHUP in the block, instead of ending the command.

    If the command's terminal was closed, SIGHUP still ends it.
    """
    hangups: SimpleQueue[bool] = SimpleQueue()  # its put() may be interrupted by another signal
    handler, had_terminal = current_stop_handler(), os.isatty(2)

    def handle(number: int, frame: object) -> None:
        if handler is not None and had_terminal and not os.isatty(2):
            handler.handle(number, frame)
        else:
            hangups.put(True)

    with temporary_handler([signal.SIGHUP], handle):
        yield hangups


@contextmanager
def handle_stop_signals() -> Iterator[StopSignalHandler]:
    """Handle stop signals during the block. Only the main thread receives signals; in others, nothing happens."""
    handler = StopSignalHandler()
    if threading.current_thread() is not threading.main_thread():
        yield handler
        return
    _stop_handlers.append(handler)
    try:
        with temporary_handler(STOP_SIGNALS, handler.handle):
            yield handler
    finally:
        _stop_handlers.remove(handler)


def current_stop_handler() -> StopSignalHandler | None:
    """Returns the handler of the running command; None if tfm is used as a library."""
    return _stop_handlers[-1] if _stop_handlers else None


@contextmanager
def temporary_handler(numbers: list[int], handler: Callable[[int, Any], object]) -> Iterator[None]:
    """Set a handler of signals during the block. Signals that are ignored, as in background jobs, stay ignored."""
    before = {number: signal.getsignal(number) for number in numbers}
    changed = [number for number in numbers if before[number] != signal.SIG_IGN]
    try:
        for number in changed:
            signal.signal(number, handler)
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])
