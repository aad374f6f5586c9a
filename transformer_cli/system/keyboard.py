"""Lines that somebody types at a terminal: a prompt, editing and a history. Knows nothing of what they are for.

Editing is GNU readline's, or that of libedit, which Python has on macOS: keys, ~/.inputrc and all.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from transformer_cli.system import signals, terminal

try:
    import readline
except ImportError:  # not every Python is built with it
    readline = None  # type: ignore[assignment]

LONGEST_HISTORY = 1000  # lines


def converse(answer: Callable[[int, str], None], prompt: str) -> None:
    """Ask for lines until Ctrl-D, and call `answer` with the number of each, from 1, and its text.

    Ctrl-C drops what is being typed, or what is being answered. A text that was pasted is answered line by line.
    Bytes that are not UTF-8 come as surrogates.
    """
    number = 0
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    with signals.handling([signal.SIGINT], signal.default_int_handler), _history():
        while True:
            try:
                for line in _ask(prompt).removesuffix("\n").split("\n"):
                    number += 1
                    answer(number, line)
            except EOFError:
                break
            except KeyboardInterrupt:
                sys.stderr.write("\n")
    sys.stderr.write("\n")  # behind the last prompt


def _ask(prompt: str) -> str:
    """Returns the next line. Raises EOFError where there is none."""
    if readline and isinstance(sys.stdout, terminal.Terminal):
        return input(prompt)
    sys.stderr.write(prompt)  # readline would draw into a file of results
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


@contextmanager
def _history() -> Iterator[None]:
    """Offer the lines of earlier sessions during the block, and keep those of this one, for their owner alone to read.

    Where they cannot be read or kept, there is no history: that is no reason to translate nothing. With TFM_HISTORY=off
    nothing is read from disk, and nothing kept there.
    """
    if readline is None or os.environ.get("TFM_HISTORY") == "off":
        yield
        return
    import platformdirs

    path = Path(platformdirs.user_state_dir("tfm"), "history")
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(LONGEST_HISTORY)
    try:
        yield
    finally:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            readline.write_history_file(path)
