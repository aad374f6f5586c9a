"""What several commands share: options, the runs and the search that they describe, files to read and to write."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from transformer_cli.commands import completion
from transformer_cli.errors import DataError
from transformer_cli.system.files import STANDARD, is_stream

log = logging.getLogger(__name__)

A_RUN = "A run's name under runs/, or its folder."


def option(text: str, *names: str, metavar: str | None = None, **more: Any) -> Any:
    """Returns an option. text: its help."""
    return typer.Option(*names, metavar=metavar, help=text, **more)


def a_file(text: str, *names: str) -> Any:
    """Returns an option that names a file; of a file of lines, - is standard input or output. text: its help."""
    return option(text, *names, metavar="FILE")


def of_runs(text: str, *, default: str | bool = "the newest") -> Any:
    """Returns the option --run. text: its help."""
    return option(text, "--run", "-r", metavar="RUN", show_default=default, autocompletion=completion.runs)


def run_argument(metavar: str) -> Any:
    """Returns an argument that names what --run names."""
    return typer.Argument(
        metavar=metavar, help="The same as --run.", show_default=False, autocompletion=completion.runs
    )


def _set(text: str, offered: Any) -> Any:
    return option(f"{text} Repeatable.", "--set", "-s", metavar="KEY=VALUE", autocompletion=offered)


ConfigOption = Annotated[
    str | None,
    option(
        "A config that comes with tfm, such as demo, or a YAML file.",
        *("--config", "-c"),
        metavar="NAME|FILE",
        show_default="the built-in settings, as `tfm config` prints them",
        autocompletion=completion.configs,
    ),
]
SetOption = Annotated[list[str] | None, _set("Override one setting, such as training.epochs=3.", completion.settings)]
DecodingSetOption = Annotated[
    list[str] | None,
    _set("Override a setting of the search, such as decoding.length_penalty=0.6.", completion.decoding_settings),
]
BeamSizeOption = Annotated[
    int | None,
    option(
        "Hypotheses that the search keeps; 1 is greedy search.",
        metavar="N",
        show_default="the run's decoding.beam_size",
    ),
]
LikeOption = Annotated[
    str | None,
    option(
        "A run whose model is to be trained further on this text: its languages, codecs and shape are taken.",
        metavar="RUN",
        autocompletion=completion.runs,
    ),
]
RunOption = Annotated[str | None, of_runs(A_RUN)]
RunsOption = Annotated[
    list[str] | None, of_runs(f"{A_RUN} Several runs of one dataset translate together, as an ensemble.")
]
RunArgument = Annotated[str | None, run_argument("[RUN]")]
RunsArgument = Annotated[list[str] | None, run_argument("[RUN]...")]
SplitOption = Annotated[
    list[str] | None,
    option(
        "valid, train or a test set of the (first) run's dataset. Repeatable.",
        metavar="SPLIT",
        show_default="every test set",
        autocompletion=completion.splits,
    ),
]
DeviceOption = Annotated[
    str,
    option(
        "auto, cpu, cuda, cuda:N or mps; only cpu has been tested.", metavar="DEVICE", autocompletion=completion.devices
    ),
]
HoldOption = Annotated[
    bool,
    option("Let placeholders such as {name} and %s, and addresses of the web and of mail, pass.", "--hold/--no-hold"),
]
GlossaryOption = Annotated[
    Path | None, a_file("Fixed translations: a word or phrase, a TAB and its translation on each line.", "--glossary")
]
LowercaseOption = Annotated[bool, option("Score without case. Lower-cased runs are scored so anyway.", "--lowercase")]
ReferenceOption = Annotated[
    list[Path] | None,
    a_file("A file of reference translations. Repeatable: a sentence may have several references.", "--reference"),
]
MetricsOption = Annotated[str, option("Scores to print: chrf++ and ter, too.", "--metrics", metavar="NAME,…")]
METRICS = ("bleu", "chrf", "chrf++", "ter")  # of --metrics; the first two are always found
JsonOption = Annotated[bool, option("Print JSON.", "--json")]
JsonLinesOption = Annotated[bool, option("Print one JSON object per line.", "--json")]


def find_runs(argument: str | Sequence[str] | None, option: str | Sequence[str] | None = None) -> list[Path]:
    """Find the runs that an argument or --run names, by default the newest; torch is not imported for that.

    Raises CheckpointError for one that does not exist, BadParameter for one that is named twice.
    """
    from transformer_cli.runs.run import find_run

    if argument and option:
        raise typer.BadParameter("a run is named as an argument and by --run; use one of the two")
    given = argument or option
    folders = [find_run(each) for each in ([given] if given is None or isinstance(given, str) else given)]
    for number, folder in enumerate(folders):
        if any(folder.samefile(other) for other in folders[:number]):
            raise typer.BadParameter(f"{folder} is named twice; name each run once")
    return folders


def further_metrics(names: str) -> list[str]:
    """Returns what --metrics names beside BLEU and chrF. Raises BadParameter for what is no metric."""
    wanted = dict.fromkeys(names.lower().split(","))
    if unknown := [name for name in wanted if name not in METRICS]:
        raise typer.BadParameter(f"--metrics: no metric {unknown[0]!r}; there are {', '.join(METRICS)}")
    return [name for name in wanted if name not in METRICS[:2]]


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


def refuse_repeated(source: Path | None, references: Sequence[Path]) -> None:
    """Raises BadParameter if a file of references is named twice, or standard input for both sides."""
    if len(set(references)) < len(references) or STANDARD == source in references:
        raise typer.BadParameter("--reference names what is named already (- is standard input); name each file once")


def check_text(*paths: Path | None) -> None:
    """Warn of files of lines that are not plain text. Raises DataError for one that cannot be read, or is no text."""
    from transformer_cli.text.lines import unpacked

    for path in paths:
        if path is not None and path != STANDARD and not is_stream(path):
            with unpacked(path) as file:
                warn_of_form(file.peek(1), path)


def warn_of_form(beginning: bytes, name: Path | str) -> None:
    """Warn if text that begins so is not plain. name: what the warning calls it."""
    from transformer_cli.text.forms import form_of

    if form := form_of(beginning):
        remedy = "; `tfm translate --format html` translates HTML" if "HTML" in form else ""
        log.warning("%s: %s, as it seems; every line of it is read as a sentence%s", name, form, remedy)


def refuse_unwritable(*paths: Path | None, read: Sequence[Path | None] = ()) -> None:
    """Raises DataError for a file that cannot be written, or is read too, before there is work to lose."""
    for number, path in enumerate(paths):
        if path is None or path == STANDARD:
            continue
        if path in paths[:number]:
            raise unwritable(path, "it is to be written twice")
        if path.is_dir():
            raise unwritable(path, "it is a folder")
        refuse_without_folder(path)
        if is_stream(path):
            continue
        if any(each and each.exists() and path.exists() and path.samefile(each) for each in read):
            raise unwritable(path, "it is what is read")
        if not os.access(path.resolve().parent, os.W_OK):
            raise unwritable(path, f"{path.parent} is closed to you")


def refuse_without_folder(path: Path) -> None:
    """Raises DataError if the folder in which a file or a folder is to be made is not there."""
    if not path.resolve().parent.is_dir():
        raise unwritable(path, f"there is no folder {path.parent}", "make it first")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Run a block that writes the file `path`; an OSError in it becomes a DataError that names the file."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from None


def unwritable(path: Path, reason: str, remedy: str = "name another file") -> DataError:
    """Returns the error for an output file that cannot be written."""
    return DataError(f"{path}: cannot be written: {reason}; {remedy}")
