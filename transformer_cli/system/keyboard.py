"""Lines that somebody types at a terminal: a prompt and editing. Knows nothing of what they are for.

Editing is GNU readline's, or that of libedit, which Python has on macOS: keys, ~/.inputrc and all.
"""

import signal
import sys
from collections.abc import Callable

from transformer_cli.system import signals, terminal

try:
    import readline
except ImportError:  # not every Python is built with it
    readline = None  # type: ignore[assignment]


def converse(answer: Callable[[int, str], None], prompt: str) -> None:
    """Ask for lines until Ctrl-D, and call `answer` with the number of each, from 1, and its text.

    Ctrl-C drops what is being typed, or what is being answered. A text that was pasted is answered line by line.
    Bytes that are not UTF-8 come as surrogates.
    """
    number = 0
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    with signals.handling([signal.SIGINT], signal.default_int_handler):
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
