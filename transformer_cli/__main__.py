"""Entry point of `tfm` and `python -m transformer_cli`. Ctrl-C ends it without a traceback at any time."""

import gc
import os
import signal
import sys


def main() -> None:
    """Runs the command line. It sets its own signal handlers; until then and afterwards, Ctrl-C ends at once."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:  # a shell's background jobs ignore SIGINT
        signal.signal(signal.SIGINT, _exit_on_signal)
    if sys.getfilesystemencoding() != "utf-8":  # read arguments and file names as UTF-8 in any locale
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    gc.set_threshold(10_000, 10, 10)  # importing torch creates 170,000 objects that stay; do not visit them repeatedly
    try:
        from transformer_cli.commands.app import main as run  # takes so long that Ctrl-C may come first
    except ModuleNotFoundError as error:
        if str(error.name).startswith("transformer_cli"):
            raise
        remedy = 'for exported models, `pip install -r "$(python -m transformer_cli.runtime)"`; else see README.md'
        sys.exit(f"tfm: error: tfm needs {error.name}, which is not installed; {remedy}")

    try:
        run()
    finally:
        gc.freeze()  # spare the collections with which Python ends: with torch, they take 0.2 s or more


def _exit_on_signal(number: int, _frame: object) -> None:
    try:
        os.write(2, b"tfm: stopped by SIGINT\n")
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
