"""What several commands share: their common options, the config from `--config` and `--set`, and files to write."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.commands import completion
from transformer_cli.errors import DataError

if TYPE_CHECKING:
    from transformer_cli.config.decoding import DecodingConfig
    from transformer_cli.config.schema import Config
    from transformer_cli.decoding.settings import SearchSettings

ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|FILE",
        help="A config that comes with tfm, such as demo, or a YAML file.",
        show_default="the built-in settings, as `tfm config` prints them",
        autocompletion=completion.configs,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Override one setting, such as training.epochs=3. Repeatable.",
        autocompletion=completion.settings,
    ),
]
DecodingSetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Override a setting of the search, such as decoding.length_penalty=0.6. Repeatable.",
        autocompletion=completion.decoding_settings,
    ),
]
BeamSizeOption = Annotated[
    int | None,
    typer.Option(
        "--beam-size",
        metavar="N",
        help="Hypotheses that the search keeps; 1 is greedy search.",
        show_default="the run's decoding.beam_size",
    ),
]
RunsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--run",
        "-r",
        metavar="RUN",
        help="A run's name under runs/, or its folder. Several runs of one dataset translate together, as an ensemble.",
        show_default="the newest",
        autocompletion=completion.runs,
    ),
]
RunOption = Annotated[
    str | None,
    typer.Option(
        "--run",
        "-r",
        metavar="RUN",
        help="A run's name under runs/, or its folder.",
        show_default="the newest",
        autocompletion=completion.runs,
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="auto, cpu, cuda, cuda:N or mps; only cpu has been tested.",
        autocompletion=completion.devices,
    ),
]
LowercaseOption = Annotated[
    bool, typer.Option("--lowercase", help="Score without case. Lower-cased runs are scored so anyway.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def dash_as_input(path: Path | None) -> Path | None:
    """Let - name standard input, as most programs do: the callback of an option that is a file to read."""
    return Path("/dev/stdin") if path == Path("-") else path


def dash_as_output(path: Path | None) -> Path | None:
    """Let - name standard output: the callback of an option that is a file of lines to write."""
    return Path("/dev/stdout") if path == Path("-") else path


def read_config(name: str | None, overrides: Sequence[str] | None) -> "Config":
    """Returns the config that `--config` and `--set` describe. Raises ConfigError."""
    from transformer_cli.config.load import load_config

    return load_config(name, overrides or ())


def search_settings(
    decoding: "DecodingConfig",
    overrides: Sequence[str] | None,
    *,
    beam_size: int | None = None,
    n_best: int | None = None,
    max_tokens: int | None = None,
) -> "SearchSettings":
    """Returns how to search: as the flags say, else as `--set` says, else as `decoding`, the run's own settings, says.

    Raises ConfigError.
    """
    from transformer_cli.config.load import override_decoding
    from transformer_cli.decoding.settings import SearchSettings

    chosen = override_decoding(decoding, overrides or (), beam_size=beam_size)
    return SearchSettings(max_tokens=max_tokens, n_best=1 if n_best is None else n_best, decoding=chosen)


def as_text(argument: str, name: str) -> str:
    """Returns an argument that is text, not a file's name. Raises DataError, which calls it `name`, if it is not UTF-8.

    The system hands over any bytes; Python keeps those that are not UTF-8 as surrogates, which no file can hold.
    """
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        byte = ord(argument[error.start]) & 0xFF
        where = f"{name}: character {error.start + 1}"
        raise DataError(f"{where} is the byte 0x{byte:02x}, which is not UTF-8; give it in UTF-8") from None
    return argument


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Run a block that writes the file `path`; an OSError in it becomes a DataError that names the file."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from None


def unwritable(path: Path, reason: str) -> DataError:
    """Returns the error for an output file that cannot be written."""
    return DataError(f"{path}: cannot be written: {reason}; name another file")
