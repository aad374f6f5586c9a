"""The command line: the app, and errors → exit codes. Knows no command's options; does not import torch by itself.

Results go to standard output, everything else to standard error. Exit codes: 0 success, 1 a mistake in the user's input
or files, 2 wrong usage, 128 + n stopped by signal n (130 by Ctrl-C), or 141 because nobody reads the results any more.
"""

import errno
import importlib.util
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core

from transformer_cli.compute import threads
from transformer_cli.errors import DistributedError, Interrupted, TfmError
from transformer_cli.system import signals, streams, terminal

COMMANDS = (
    "prepare",
    "train",
    "evaluate",
    "compare",
    "score",
    "translate",
    "inspect",
    "serve",
    "curves",
    "runs",
    "export",
    "verify",
    "config",
    "doctor",
)
"""in the order of the help; each is the function of its name in commands/NAME.py"""
IN_SEVERAL_PROCESSES = ("train", "translate")
WITHOUT_TORCH = ("config", "curves", "runs", "verify")
"""the commands that begin at once"""
UsageError: Any = typer.BadParameter.__mro__[1]  # click's, or that of the copy of click in newer versions of typer


class _Commands(Mapping[str, Any]):
    """Name → command, which is imported when it is looked up: the help of one needs none of the others."""

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        function = getattr(import_module(f"transformer_cli.commands.{name}"), name)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command()(_said_once()(function) if name in IN_SEVERAL_PROCESSES else function)
        return typer.main.get_command(alone)


class _Group(typer.core.TyperGroup):
    """`tfm`, with these commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": _Commands()})


app = typer.Typer(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},  # for every command
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich takes a tenth of a second to import
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `tfm` and exit the process with its exit code. arguments: None uses the arguments of the process."""
    if importlib.util.find_spec("fcntl") is None:
        _say("tfm: error: Windows is not supported, because files are locked as only Unix does it; run tfm in WSL")
        sys.exit(1)
    threads.bound_spinning()
    streams.set_up()
    try:
        with signals.watched(is_silent=_is_second()) as watch:
            message, code = _outcome(arguments, watch)
            _say(message)
    except signals.Stopped as stopped:
        code = 128 + stopped.number
        _say("" if _is_second() else f"tfm: {stopped}")
    terminal.forget_note()
    sys.exit(code)


def _outcome(arguments: Sequence[str] | None, watch: signals.Watch) -> tuple[str, int]:
    """Run a command. Returns the line that says why it has ended, or "", and the exit code."""
    try:
        code = _code(arguments)
        sys.stdout.flush()
        return "", code
    except TfmError as error:
        return f"tfm: error: {error}", 1
    except UsageError as error:
        if error.ctx is not None:
            sys.stderr.write(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} -h' for help.\n\n")
        return f"tfm: error: {error.format_message()}", 2
    except Interrupted as interruption:
        return f"tfm: {interruption}", 128 + interruption.signal_number
    except streams.ReaderGone:
        return "", 128 + 13  # as if SIGPIPE had ended it, as it ends other programs
    except Exception as error:
        if watch.number is not None:  # a library has made something else of Stopped
            raise signals.Stopped(watch.number) from None
        watch.finish()
        if isinstance(error, OSError) and (error.filename or error.errno in (errno.ENOSPC, errno.EDQUOT)):
            where = f"{error.filename}: " if error.filename else ""  # a path, the permissions, the disk
            return f"tfm: error: {where}{error.strerror}; correct the path, the permissions or the space left", 1
        from transformer_cli.system import reports

        return f"tfm: error: {_rank()}{reports.tell(error)}", 1


def _code(arguments: Sequence[str] | None) -> int:
    """Run a command. Returns its exit code, if it ends with one."""
    try:
        return app(args=arguments, prog_name="tfm", standalone_mode=False) or 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


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
        if context.invoked_subcommand not in WITHOUT_TORCH:
            terminal.note("loading PyTorch")  # takes seconds, and half a minute when the computer has just been started
        if context.invoked_subcommand != "train":  # which prints nothing there
            streams.check_standard_output()


@contextmanager
def _said_once() -> Iterator[None]:
    """An error that ends all processes of a job is printed once on each machine, by the process of local rank 0.

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


def _start_log() -> None:
    from transformer_cli.system.progress import LineHandler

    package = logging.getLogger("transformer_cli")
    package.handlers = [LineHandler()]
    package.setLevel(logging.INFO)
    package.propagate = False


def _is_second() -> bool:
    """Whether another process of the same job speaks on this machine."""
    return "WORLD_SIZE" in os.environ and os.environ.get("LOCAL_RANK", "0") != "0"


def _rank() -> str:
    """Returns which process of a job this one is, as the beginning of a line."""
    rank = os.environ.get("RANK", "")
    return f"rank {rank}: " if rank and "WORLD_SIZE" in os.environ else ""


def _say(message: str) -> None:
    if message:
        terminal.erase_line()
        line = f"{terminal.message(message)}\n"
        sys.stderr.write(line)  # in one call, so that no other process's line comes before the line's end
