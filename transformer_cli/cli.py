"""The command line: the app, and errors → exit codes. Knows no command's options; does not import torch by itself.

Results go to standard output, everything else to standard error. Exit codes: 0 success, 1 a mistake in the user's input
or files, 2 wrong usage, 130 interrupted, 143 terminated.
"""

import errno
import io
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from transformer_cli.commands.compare import compare
from transformer_cli.commands.curves import curves
from transformer_cli.commands.evaluate import evaluate
from transformer_cli.commands.inspect import inspect
from transformer_cli.commands.prepare import prepare
from transformer_cli.commands.score import score
from transformer_cli.commands.train import train
from transformer_cli.commands.translate import translate
from transformer_cli.commands.verify import verify
from transformer_cli.compute import threads
from transformer_cli.errors import DistributedError, Interrupted, TfmError

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},  # for every command
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich takes a tenth of a second to import
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `tfm` and exit the process with its exit code. arguments: None uses the arguments of the process."""
    _set_up_process()
    try:
        app(args=arguments, prog_name="tfm")
    except TfmError as error:
        _exit(f"tfm: error: {error}", 1)
    except OSError as error:  # a path, the permissions, the disk
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f"{error.filename}: " if error.filename else ""
        _exit(f"tfm: error: {where}{error.strerror}; correct the path, the permissions or the space left", 1)
    except Interrupted as interruption:
        _exit(f"tfm: {interruption}", 128 + interruption.signal_number)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Train, judge and run the Transformer of "Attention Is All You Need" for translation."""
    if show_version:
        from importlib.metadata import version  # this import costs more than everything that the help needs

        typer.echo(f"tfm {version('transformer-cli')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        _start_log()


@contextmanager
def _said_once() -> Iterator[None]:
    """An error that ends all processes of a training is printed once on each machine, by the process of local rank 0.

    They leave the first some time to speak: torchrun ends all as soon as one has ended. One that is still there after
    that has an error of its own, and says it. (`World.together` makes all that are connected fail alike.)
    """
    try:
        yield
    except (TfmError, Interrupted) as error:
        from transformer_cli.compute.world import World

        if isinstance(error, DistributedError) or World.from_environment().local_rank == 0:
            raise
        if isinstance(error, Interrupted):
            time.sleep(1)  # short, because all processes notice the signal at the same moment
            sys.exit(128 + error.signal_number)
        time.sleep(30)
        raise


app.command()(prepare)
app.command()(_said_once()(train))  # the one command that runs in several processes
app.command()(evaluate)
app.command()(compare)
app.command()(score)
app.command()(translate)
app.command()(inspect)
app.command()(curves)
app.command()(verify)


def _set_up_process() -> None:
    """Set what belongs to the whole process, before any command runs and before torch is imported."""
    threads.bound_spinning()
    for stream, errors in ((sys.stdout, "strict"), (sys.stderr, "replace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)  # like the input, whatever the locale


def _start_log() -> None:
    from transformer_cli.progress import LineHandler

    package = logging.getLogger("transformer_cli")
    package.handlers = [LineHandler()]
    package.setLevel(logging.INFO)
    package.propagate = False


def _exit(message: str, code: int) -> None:
    sys.stderr.write(f"{message}\n")  # in one call, so that no other process's line comes before the line's end
    sys.exit(code)
