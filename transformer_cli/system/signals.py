"""Signals that ask a command to stop: SIGINT, SIGTERM, SIGHUP and SIGUSR1. Knows nothing of what the command does.

The first one is a request. It raises Stopped wherever the command is, or only tells the command's listener, if it has
one. After PATIENCE seconds, or at a second signal, a thread ends the process, whatever the command is doing: Python
runs a handler of a signal only between two operations of the main thread, and an operation of torch may take minutes.
The thread reads the numbers of signals from a pipe, into which the system's own handler writes them at once.
"""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Protocol

from transformer_cli.system.terminal import is_second

NUMBERS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)]
PATIENCE = 10.0  # seconds between a first signal and the end of the process
ECHO = 0.25  # seconds: `timeout` sends its signal to the process and then to its group, which is no second request
ECHO_OF_TORCHRUN = 2.0  # seconds: it passes on what a terminal or a scheduler has sent to all processes already


class Stopped(BaseException):
    """A signal has asked the command to stop. No error, so that nothing that catches errors catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Listener(Protocol):
    """A command that ends by itself after the first signal. Threads other than the main one call the functions."""

    signal_number: int | None
    """the first signal, as soon as the main thread knows of it"""

    def rescue(self) -> str | None:
        """Save what can be saved: the process ends now. Returns the last words; None if it shall wait for the end."""

    def last_words(self) -> str:
        """Returns what is said if the process ends at once."""


class Watch:
    """Waits for signals on behalf of one command."""

    number: int | None = None
    """the first signal, as soon as the main thread knows of it"""
    _listener: Listener | None = None
    _passed_over: int | None = None

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Tell this listener of signals during the block, instead of raising Stopped."""
        self._listener = listener
        try:
            yield
        finally:
            self._listener = None

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let Ctrl-C raise KeyboardInterrupt during the block, as often as it is pressed, and ask for nothing more."""
        self._passed_over = signal.SIGINT
        try:
            with handling([signal.SIGINT], signal.default_int_handler):
                yield
        finally:
            self._passed_over = None

    def handle(self, number: int, _frame: object) -> None:
        """Python calls this in the main thread, between two operations."""
        if self.number is None:
            self.number = number
            if self._listener is None:
                raise Stopped(number)
            self._listener.signal_number = number

    def wait(self, pipe: int) -> None:
        """The thread: read the numbers of signals as they arrive, until the other end of the pipe is closed."""
        echo = ECHO_OF_TORCHRUN if "TORCHELASTIC_RUN_ID" in os.environ else ECHO
        first, arrived, patience = 0, 0.0, None
        while True:
            if not select.select([pipe], [], [], patience)[0]:
                patience = None
                self._end(first, lambda listener: listener.rescue())
            elif not (received := os.read(pipe, 1)):
                return
            elif received[0] not in NUMBERS or received[0] == self._passed_over:
                pass  # somebody else's, or the main thread's alone
            elif not first:
                first, arrived, patience = received[0], monotonic(), PATIENCE
            elif monotonic() - arrived > echo:
                self._end(first, lambda listener: listener.last_words())

    def _end(self, number: int, words_of: Callable[[Listener], str | None]) -> None:
        """End the process if there are last words. Standard error may be blocked: they are said only if they can be."""
        listener = self._listener
        words = words_of(listener) if listener else str(Stopped(number))
        if words is None:
            return
        start = "\n" if sys.stderr.isatty() else ""  # a bar may stand in the line
        with suppress(OSError):
            if not is_second() and select.select([], [2], [], 0)[1]:
                os.write(2, f"{start}tfm: {words}\n".encode())
        os._exit(128 + number)


_watches: list[Watch] = []


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch for signals during the block. Beside the main thread, which alone gets them, nothing is watched."""
    watch = Watch()
    if threading.current_thread() is not threading.main_thread():
        yield watch
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    thread = threading.Thread(target=watch.wait, args=(read,), name="signals", daemon=True)
    thread.start()
    _watches.append(watch)
    try:
        with handling(NUMBERS, watch.handle):
            yield watch
    finally:
        _watches.remove(watch)
        signal.set_wakeup_fd(before)
        os.close(write)
        thread.join()
        os.close(read)


def current_watch() -> Watch | None:
    """Returns the watch of the command that is running; None if the caller is no command of ours."""
    return _watches[-1] if _watches else None


@contextmanager
def handling(numbers: list[int], handler: Callable[[int, Any], object]) -> Iterator[None]:
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
