"""Lines that somebody types at a terminal: a prompt and editing. Knows nothing of what they are for.

Editing is GNU readline's, or that of libedit, which Python has on macOS: keys, ~/.inputrc and all.
"""

import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from transformer_cli.system import signals

with suppress(ImportError):  # not every Python is built with it
    import readline  # noqa: F401  # which `input` uses then


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
                for line in input(prompt).split("\n"):
                    number += 1
                    answer(number, line)
            except EOFError:
                break
            except KeyboardInterrupt:
                sys.stderr.write("\n")
    sys.stderr.write("\n")  # behind the last prompt
