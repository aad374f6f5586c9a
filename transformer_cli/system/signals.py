"""Signals that ask a command to stop: SIGINT, SIGTERM, SIGHUP and SIGUSR1. Knows nothing of what the command does.

The first one is a request. It raises Stopped wherever the command is, or only tells the command's listener, if it has
one. After PATIENCE seconds, or at a second signal, a thread ends the process, whatever the command is doing: Python
runs a handler of a signal only between two operations of the main thread, and an operation of torch may take minutes.
"""

import math
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Protocol

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
    """A command that ends by itself after the first signal. Threads other than the main one call the last two."""

    signal_number: int | None
    """the first signal, as soon as it has arrived"""

    def rescue(self) -> str | None:
        """Save what can be saved: the process ends now. Returns the last words; None if it shall wait for the end."""

    def last_words(self) -> str:
        """Returns what is said if the process ends at once."""


class Watch:
    """Waits for signals on behalf of one command."""

    number: int | None = None
    """the first signal, as soon as it has arrived"""

    def __init__(self, *, is_silent: bool = False) -> None:
        """is_silent: another process says what becomes of the command."""
        self._is_silent = is_silent
        self._listener: Listener | None = None
        self._is_heard = False
        self._passed_over: int | None = None

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
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        self._passed_over = signal.SIGINT
        try:
            yield
        finally:
            self._passed_over = None
            signal.signal(signal.SIGINT, handler)

    def finish(self) -> None:
        """Raise Stopped no more: the command has ended, and only says why."""
        self._is_heard = True

    @contextmanager
    def open(self) -> Iterator[None]:
        """Catch the signals that are not ignored, such as SIGINT in a shell's background jobs, during the block."""
        read, write = os.pipe()
        os.set_blocking(write, False)
        before: dict[int, Any] = {}
        fd_before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in NUMBERS:
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, self._handle)
        thread = threading.Thread(target=self._watch, args=(read,), name="signals", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.finish()
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(fd_before)
            os.close(write)
            thread.join()
            os.close(read)

    def _handle(self, number: int, _frame: object) -> None:
        """Python calls this in the main thread, between two operations."""
        self._note(number)
        is_first, self._is_heard = not self._is_heard, True
        if is_first and self._listener is None:
            raise Stopped(number)

    def _note(self, number: int) -> None:
        if self.number is None:
            self.number = number
        if self._listener is not None and self._listener.signal_number is None:
            self._listener.signal_number = self.number

    def _watch(self, pipe: int) -> None:
        """The thread: read the numbers of signals as they arrive, until the other end of the pipe is closed."""
        echo = ECHO_OF_TORCHRUN if "TORCHELASTIC_RUN_ID" in os.environ else ECHO
        first = deadline = math.inf
        while True:
            wait = max(0.0, deadline - monotonic())
            if not select.select([pipe], [], [], None if wait == math.inf else wait)[0]:
                deadline = math.inf
                listener = self._listener
                self._end(self._how() if listener is None else listener.rescue())
            elif not (received := os.read(pipe, 1)):
                return
            elif received[0] not in NUMBERS or received[0] == self._passed_over:
                pass  # somebody else's, or the main thread's alone
            elif first == math.inf:
                first = monotonic()
                deadline = first + PATIENCE
                self._note(received[0])
            elif monotonic() - first > echo:
                self._end(self._how() if self._listener is None else self._listener.last_words())

    def _how(self) -> str:
        return str(Stopped(self.number or 0))

    def _end(self, words: str | None) -> None:
        """End the process if there are last words. Standard error may be blocked: they are said only if they can be."""
        if words is None:
            return
        start = "\n" if sys.stderr.isatty() else ""  # a bar may stand in the line
        with suppress(OSError):
            if not self._is_silent and select.select([], [2], [], 0)[1]:
                os.write(2, f"{start}tfm: {words}\n".encode())
        os._exit(128 + (self.number or 0))


_watches: list[Watch] = []


@contextmanager
def watched(*, is_silent: bool = False) -> Iterator[Watch]:
    """Watch for signals during the block. Beside the main thread, which alone gets them, nothing is watched.

    is_silent: another process says what becomes of the command.
    """
    watch = Watch(is_silent=is_silent)
    if threading.current_thread() is not threading.main_thread():
        yield watch
        return
    _watches.append(watch)
    try:
        with watch.open():
            yield watch
    finally:
        _watches.remove(watch)


def current_watch() -> Watch | None:
    """Returns the watch of the command that is running; None if the caller is no command of ours."""
    return _watches[-1] if _watches else None
