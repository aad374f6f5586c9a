"""Lines that somebody types at a terminal: a prompt, editing and a history. Knows nothing of what they are for.

Editing is GNU readline's, or that of libedit, which Python has on macOS: keys, ~/.inputrc and all.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from transformer_cli.system import signals, terminal

LONGEST_HISTORY = 1000  # lines


def converse(answer: Callable[[int, str], None], prompt: str) -> None:
    """Ask for lines until Ctrl-D, and call `answer` with the number of each, from 1, and its text.

    Ctrl-C drops what is being typed, or what is being answered. A text that was pasted is answered line by line.
    Bytes that are not UTF-8 come as surrogates.
    """
    watch = signals.current_watch()
    number = 0
    with watch.interruptible() if watch else nullcontext(), _asking(prompt) as ask:
        while True:
            try:
                for line in ask().removesuffix("\n").split("\n"):
                    number += 1
                    answer(number, line)
            except EOFError:
                break
            except KeyboardInterrupt:
                sys.stderr.write("\n")
    sys.stderr.write("\n")  # behind the last prompt


@contextmanager
def _asking(prompt: str) -> Iterator[Callable[[], str]]:
    """A function that returns the next line; it raises EOFError where there is none."""
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    readline = _readline()
    if readline is None:
        yield lambda: _read(prompt)
        return
    with _history(readline):
        yield lambda: _edited(readline, prompt)


def _edited(readline: Any, prompt: str) -> str:
    """Read a line that readline lets the user edit.

    After a Ctrl-Z and `fg`, the prompt appears again with what had been typed. The shell has used the terminal and
    changed its settings meanwhile, and where Python has the signals, readline hears nothing of it.
    """
    import termios  # not on Windows, which hears from cli.py that it is not supported

    settings: list[Any] = []  # the terminal's while readline reads

    def keep() -> None:
        settings[:] = termios.tcgetattr(sys.stdin)

    def go_on(_number: int, _frame: object) -> None:
        if settings:
            with suppress(termios.error):  # still in the background, which another SIGCONT will end
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)
                sys.stdout.write(f"{terminal.bold(prompt)}{readline.get_line_buffer()}")
                sys.stdout.flush()

    shown = prompt
    if terminal.has_styles(sys.stdout):
        shown = f"\x01\x1b[1m\x02{prompt}\x01\x1b[0m\x02"  # \x01 and \x02 tell readline what takes no room
    readline.set_startup_hook(keep)
    handler = signal.signal(signal.SIGCONT, go_on)
    try:
        return input(shown)
    finally:
        signal.signal(signal.SIGCONT, handler)
        readline.set_startup_hook()


def _readline() -> Any:
    """Returns the module that edits lines; None if there is none, or if it would draw into a file of results."""
    if not isinstance(sys.stdout, terminal.Terminal):
        return None
    try:
        import readline
    except ImportError:  # not every Python is built with it
        return None
    return readline


def _read(prompt: str) -> str:
    """Read a line that only the terminal lets the user edit."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


def history_file() -> Path:
    """Returns where the lines of earlier sessions are kept."""
    import platformdirs

    return Path(platformdirs.user_state_dir("tfm"), "history")


@contextmanager
def _history(readline: Any) -> Iterator[None]:
    """Offer the lines of earlier sessions during the block, and keep those of this one, for their owner alone to read.

    Where they cannot be read or kept, there is no history: that is no reason to translate nothing. With TFM_HISTORY=off
    nothing is read from disk, and nothing kept there.
    """
    if os.environ.get("TFM_HISTORY") == "off":
        yield
        return
    path = history_file()
    with suppress(OSError):
        readline.read_history_file(path)
    n_before = readline.get_current_history_length()
    readline.set_history_length(LONGEST_HISTORY)
    try:
        yield
    finally:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            if hasattr(readline, "append_history_file"):  # so two sessions at a time lose nothing
                readline.append_history_file(readline.get_current_history_length() - n_before, path)
            else:
                readline.write_history_file(path)
