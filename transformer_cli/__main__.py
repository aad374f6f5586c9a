"""The process `tfm`, or `python -m transformer_cli`: Ctrl-C ends it quietly from its first moment to its last."""

import os
import signal
import sys


def main() -> None:
    """Run the command line. It sets signal handlers of its own; before and after, Ctrl-C ends the process at once."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # not in a shell's background jobs
        signal.signal(signal.SIGINT, _exit_on_signal)
    if sys.getfilesystemencoding() != "utf-8":  # arguments and names of files are UTF-8 whatever the locale
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    from transformer_cli.commands.app import main as run  # takes longer than a quick Ctrl-C

    run()


def _exit_on_signal(number: int, _frame: object) -> None:
    try:
        os.write(2, b"tfm: stopped by SIGINT\n")
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
