"""The app of the command line, which turns errors into exit codes. Knows no command's options; imports no torch.

Results go to standard output, everything else to standard error. Exit codes: 0 success, 1 an error in input or files,
2 wrong usage, 128 + n stopped by signal n (130: Ctrl-C; 141: the reader of a pipe has closed it).
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

from transformer_cli.commands import streams, suggestions
from transformer_cli.compute.world import World
from transformer_cli.errors import Interrupted, TfmError, defect
from transformer_cli.system import signals, terminal
from transformer_cli.system.files import remedy_for

GROUPS = {  # title in the help → command → (module in commands/, page in docs/, example)
    "Data and training": {
        "prepare": ("training", "own-text", "tfm prepare memory.tmx --source de --target en"),
        "train": ("training", "train", "tfm train --config demo --set training.epochs=5"),
        "curves": ("training", "train", "tfm curves demo --output demo.svg"),
    },
    "Evaluation": {
        "evaluate": ("evaluation", "evaluate", "tfm evaluate demo --beam-size 5"),
        "compare": ("evaluation", "evaluate", "tfm compare demo demo-2"),
        "score": ("evaluation", "evaluate", "tfm score demo --input in.de --translation out.en"),
    },
    "Translation": {
        "translate": ("translate", "translate", "tfm translate --input in.de --output out.en"),
        "inspect": ("inspect", "evaluate", "tfm inspect --output dog.svg 'Ein Hund läuft.'"),
        "serve": ("serve", "serve", "tfm serve demo --port 8080"),
    },
    "Runs and settings": {
        "import": ("management", "other-models", "tfm import opus-mt-de-en --name opus"),
        "runs": ("management", "train", "tfm runs"),
        "export": ("management", "other-models", "tfm export demo --quantization int8"),
        "config": ("management", "settings", "tfm config demo > mine.yaml"),
        "doctor": ("management", "operating", "tfm doctor"),
    },
}
COMMANDS = {name: about for group in GROUPS.values() for name, about in group.items()}
WITHOUT_TORCH = ("config", "curves", "runs")
"""the commands that do not import torch"""
IN_ONE_PROCESS = ("compare", "evaluate", "score", "translate")
"""the commands whose results several processes would print, and save, several times"""


class _Command(typer.core.TyperCommand):
    """A command whose help has groups of options, and which refuses repeated and unexpected arguments with a hint."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError."""
        if not ctx.resilient_parsing:  # which completion uses
            self._check_arguments(ctx, args)
        return super().parse_args(ctx, args)

    def _check_arguments(self, ctx: Any, args: list[str]) -> None:
        """Raises UsageError for unknown options, and for arguments that click would drop."""
        name, params = ctx.info_name, list[Any](self.params)
        parser: Any = self.make_parser(ctx)
        options = [param for param in params if param.param_type_name == "option"]
        known = [name for option in options for name in (*option.opts, *option.secondary_opts)]
        try:
            values, extra, order = parser.parse_args(args=[*args])
        except typer.TyperException as error:
            option = getattr(error, "option_name", None)
            if option and option not in known and (meant := suggestions.suggest_settings(name, option, known)):
                ctx.fail(f"no option {option}{meant}")
            raise
        if any(param.is_eager for param in order):  # --help
            return
        for param in order:
            is_lost = order.count(param) > 1 and not param.multiple
            if is_lost and not (param.is_flag and not param.secondary_opts):
                names = " / ".join([*param.opts, *param.secondary_opts])
                ctx.fail(f"{names} is given {order.count(param)} times; give it once")
        typed = {each.partition("=")[0].strip() for key in ("overrides", "search") for each in values.get(key) or ()}
        if "decoding.beam_size" in typed and values.get("beam_size") is not None:
            ctx.fail("--beam-size and --set decoding.beam_size are given; give one of them")
        if extra:
            taken = [values[param.name] or () for param in params if param not in options]
            words = [word for each in taken for word in ([each] if isinstance(each, str) else each)]
            ctx.fail(f"{name} does not take {' '.join(extra)}{suggestions.suggest_options(name, words, extra, known)}")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                group = getattr(param, "rich_help_panel", None) or f"{param.param_type_name.title()}s"
                groups.setdefault(group, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


class _Group(typer.core.TyperGroup):
    """`tfm`, whose commands are imported on demand."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": dict.fromkeys(COMMANDS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, page, example = COMMANDS[cmd_name]
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        epilog = f"Example: {example}\n\nMore: docs/{page}.md in the sources of tfm"
        name = "import_run" if cmd_name == "import" else cmd_name  # a keyword of Python
        function = getattr(import_module(f"transformer_cli.commands.{module}"), name)
        alone.command(cmd_name, cls=_Command, epilog=epilog)(function)
        return typer.main.get_command(alone)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. Raises UsageError."""
        for ours, names in suggestions.OTHER_COMMANDS.items():
            if args[0].lower() in names.split():
                ctx.fail(f"no command {args[0]}; did you mean tfm {ours}?")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before the command. Raises UsageError."""
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            option = getattr(error, "option_name", None)
            if option and (command := next((each for each in given if each in COMMANDS), "")):
                ctx.fail(f"no option {option} before the command; write tfm {command} {option} …")
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = formatter.width - 6 - max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.get_command(ctx, name).get_short_help_str(width)) for name in group])


app = typer.Typer(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},  # for every command
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # no rich, whose import takes a tenth of a second
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `tfm` and exit the process with its exit code. arguments: None uses the arguments of the process."""
    if importlib.util.find_spec("fcntl") is None:
        line, code = "tfm: error: Windows is not supported: tfm locks files in a way that Unix alone has; use WSL", 1
    else:
        streams.set_up_streams()
        try:
            with signals.handle_stop_signals() as handler:
                line, code = _run(arguments, handler)
        except signals.StopSignal as stopped:
            line, code = "" if terminal.is_secondary_process() else f"tfm: {stopped}", 128 + stopped.number
    if line:
        sys.stderr.write(f"{terminal.escape_controls(line)}\n")  # one call, so that processes do not mix their lines
    terminal.clear_status()
    sys.exit(code)


def _run(arguments: Sequence[str] | None, handler: signals.StopSignalHandler) -> tuple[str, int]:
    """Runs a command. Returns the line that says why it ended, or "", and the exit code.

    With several processes, each reports its own error with its rank.
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
        return "" if terminal.is_secondary_process() else f"tfm: {interruption}", 128 + interruption.signal_number
    except streams.OutputClosed:
        return "", 128 + 13  # as if ended by SIGPIPE, like other programs
    except Exception as error:
        if handler.number is not None:  # a library has turned StopSignal into another error
            raise signals.StopSignal(handler.number) from None
        if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("transformer_cli"):
            why = f"this command needs {error.name}, which is not installed"
            return f"tfm: error: {rank}{why}; install tfm as README.md says", 1
        if isinstance(error, OSError) and (error.filename or error.errno in (errno.ENOSPC, errno.EDQUOT)):
            where = f"{error.filename}: " if error.filename else ""  # OSErrors of paths, permissions and full disks
            remedy = remedy_for(error, Path(os.fsdecode(error.filename)) if error.filename else None)
            return f"tfm: error: {rank}{where}{error.strerror}; {remedy}", 1
        sys.stderr.write("".join(traceback.format_exception(error)))
        return f"tfm: error: {rank}{defect(error)}", 1


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Train, evaluate and run the Transformer of "Attention Is All You Need" for translation."""
    if show_version:
        from importlib.metadata import version  # a slow import

        typer.echo(f"tfm {version('transformer-cli')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    elif context.invoked_subcommand in IN_ONE_PROCESS and World.from_environment().size > 1:
        raise typer.BadParameter(f"tfm {context.invoked_subcommand} runs in one process; start it without torchrun")
    else:
        from transformer_cli.system.progress import LineHandler

        package = logging.getLogger("transformer_cli")
        package.handlers = [LineHandler()]
        package.setLevel(logging.INFO)
        package.propagate = False
        if context.invoked_subcommand not in WITHOUT_TORCH:
            # PyTorch takes seconds to import, and half a minute after a reboot
            terminal.show_status("loading libraries")
