"""The command line: the app, and errors → exit codes. Knows no command's options; does not import torch by itself.

Results go to standard output, everything else to standard error. Exit codes: 0 success, 1 a mistake in the user's input
or files, 2 wrong usage, 128 + n stopped by signal n (130 by Ctrl-C), or 141 because nobody reads the results any more.
"""

import errno
import importlib.util
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from transformer_cli.errors import Interrupted, TfmError, defect
from transformer_cli.system import signals, streams, terminal

COMMANDS = {
    "prepare": "prepare",
    "train": "train",
    "evaluate": "evaluate",
    "compare": "evaluate",
    "score": "evaluate",
    "translate": "translate",
    "inspect": "inspect",
    "serve": "serve",
    "curves": "train",
    "runs": "train",
    "import": "import",
    "export": "export",
    "config": "settings",
    "doctor": "operating",
}
"""in the order of the help; each is the function of its name in commands/NAME.py, and has its page in docs/PAGE.md"""
WITHOUT_TORCH = ("config", "curves", "runs")
"""the commands that begin at once"""


class _Group(typer.core.TyperGroup):
    """`tfm`, with commands that are imported when they are looked up: the help of one needs none of the others."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": dict.fromkeys(COMMANDS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a command, or None."""
        if cmd_name not in COMMANDS:
            return None
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        page = f"More: docs/{COMMANDS[cmd_name]}.md in the sources of tfm"
        name = "import_run" if cmd_name == "import" else cmd_name  # which Python keeps for itself
        alone.command(cmd_name, epilog=page)(getattr(import_module(f"transformer_cli.commands.{name}"), name))
        return typer.main.get_command(alone)


app = typer.Typer(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},  # for every command
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich takes a tenth of a second to import
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `tfm` and exit the process with its exit code. arguments: None uses the arguments of the process."""
    if importlib.util.find_spec("fcntl") is None:
        said, code = "tfm: error: Windows is not supported, as files are locked as only Unix does it; run tfm in WSL", 1
    else:
        streams.set_up()
        try:
            with signals.watched() as watch:
                said, code = _outcome(arguments, watch)
        except signals.Stopped as stopped:
            said, code = "" if terminal.is_second() else f"tfm: {stopped}", 128 + stopped.number
    if said:
        sys.stderr.write(f"{terminal.on_one_line(said)}\n")  # in one call: no other process's line comes in between
    terminal.forget_note()
    sys.exit(code)


def _outcome(arguments: Sequence[str] | None, watch: signals.Watch) -> tuple[str, int]:
    """Run a command. Returns the line that says why it has ended, or "", and the exit code.

    Of several processes each says its own error, with its rank.
    """
    rank = f"rank {os.environ.get('RANK')}: " if "WORLD_SIZE" in os.environ else ""
    try:
        try:
            code = app(args=arguments, prog_name="tfm", standalone_mode=False) or 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        return "", code
    except TfmError as error:
        return f"tfm: error: {rank}{error}", 1
    except typer.TyperException as error:
        if context := getattr(error, "ctx", None):
            sys.stderr.write(f"{context.get_usage()}\nTry '{context.command_path} -h' for help.\n\n")
        return f"tfm: error: {error.format_message()}", error.exit_code
    except Interrupted as interruption:
        return "" if terminal.is_second() else f"tfm: {interruption}", 128 + interruption.signal_number
    except streams.ReaderGone:
        return "", 128 + 13  # as if SIGPIPE had ended it, as it ends other programs
    except Exception as error:
        if watch.number is not None:  # a library has made something else of Stopped
            raise signals.Stopped(watch.number) from None
        if isinstance(error, OSError) and _is_users(error, sys.argv[1:] if arguments is None else arguments):
            where = f"{error.filename}: " if error.filename else ""  # a path, the permissions, the disk
            return f"tfm: error: {rank}{where}{error.strerror}; correct the path, the permissions or the space left", 1
        sys.stderr.write("".join(traceback.format_exception(error)))
        return f"tfm: error: {rank}{defect(error)}", 1


def _is_users(error: OSError, arguments: Sequence[str]) -> bool:
    """Whether an error is about a full disk, or a path in the working folder, the cache or one that the user named."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    if not isinstance(error.filename, str | bytes):
        return False
    from transformer_cli.data.multi30k import cache_folder

    path = Path(os.path.abspath(os.fsdecode(error.filename)))
    named = (Path(os.path.abspath(each.partition("=")[2] if each.startswith("-") else each)) for each in arguments)
    return any(path.is_relative_to(folder) for folder in (Path.cwd(), cache_folder(), *named))


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
        from transformer_cli.system.progress import LineHandler

        package = logging.getLogger("transformer_cli")
        package.handlers = [LineHandler()]
        package.setLevel(logging.INFO)
        package.propagate = False
        if context.invoked_subcommand not in WITHOUT_TORCH:
            terminal.note("loading PyTorch")  # takes seconds, and half a minute when the computer has just been started
