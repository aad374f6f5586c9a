"""What several commands share: options, the runs and the search that they describe, and files to write."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_cli.commands import completion
from transformer_cli.errors import DataError

if TYPE_CHECKING:
    from transformer_cli.translator import Translator


def file_of_lines(text: str, *names: str) -> Any:
    """Returns an option that names a file of lines; - is standard input or output (STANDARD). text: its help."""
    return typer.Option(*names, metavar="FILE", help=text)


def of_runs(text: str) -> Any:
    return typer.Option(
        "--run", "-r", metavar="RUN", help=text, show_default="the newest", autocompletion=completion.runs
    )


def _set(text: str, offered: Any) -> Any:
    return typer.Option("--set", "-s", metavar="KEY=VALUE", help=text, autocompletion=offered)


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
    _set("Override one setting, such as training.epochs=3. Repeatable.", completion.settings),
]
DecodingSetOption = Annotated[
    list[str] | None,
    _set(
        "Override a setting of the search, such as decoding.length_penalty=0.6. Repeatable.",
        completion.decoding_settings,
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
LikeOption = Annotated[
    str | None,
    typer.Option(
        "--like",
        metavar="RUN",
        help="A run whose model is to be trained further on this text: its languages, codecs and shape are taken.",
        autocompletion=completion.runs,
    ),
]
RunOption = Annotated[str | None, of_runs("A run's name under runs/, or its folder.")]
RunsOption = Annotated[
    list[str] | None,
    of_runs("A run's name under runs/, or its folder. Several runs of one dataset translate together, as an ensemble."),
]
SplitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--split",
        metavar="SPLIT",
        help="valid, train or a test set of the (first) run's dataset. Repeatable.",
        show_default="every test set",
        autocompletion=completion.splits,
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
HoldOption = Annotated[
    bool,
    typer.Option(
        "--hold/--no-hold",
        help="Let placeholders such as {name} and %s, and addresses of the web and of mail, pass as they are.",
    ),
]
LowercaseOption = Annotated[
    bool, typer.Option("--lowercase", help="Score without case. Lower-cased runs are scored so anyway.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


def load_translator(runs: Sequence[str | None] | None, device: str) -> "Translator":
    """Open runs, by default the newest, as one translator.

    A run that does not exist is told before torch is imported, which takes seconds.
    """
    from transformer_cli.runs.run import find_run

    folders = [find_run(each) for each in runs or (None,)]
    from transformer_cli.translator import Translator

    return Translator.load(*folders, device=device)


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
