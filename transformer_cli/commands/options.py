"""Shared by commands: options and arguments, finding runs, and checks of files to read or write."""

import fnmatch
import glob
import io
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from transformer_cli.commands import suggestions
from transformer_cli.commands.tables import TableFormat
from transformer_cli.errors import CheckpointError, ConfigError, DataError
from transformer_cli.system.files import COMPRESSORS, STDIO, atomic_file, is_stream

log = logging.getLogger(__name__)

# groups of options in the help
Input = partial(typer.Option, rich_help_panel="Input")
Search = partial(typer.Option, rich_help_panel="Model and search")
Output = partial(typer.Option, rich_help_panel="Output")
Vectors = partial(typer.Option, rich_help_panel="Word vectors instead of a model")

# parameters of several commands
# fmt: off
_OfRun = partial(typer.Argument, show_default=False, autocompletion=suggestions.runs, help="The same as --run.")
RunArguments = Annotated[list[str] | None, _OfRun(metavar="[RUN]...")]
RunArgument = Annotated[str | None, _OfRun(metavar="[RUN]")]
References = Annotated[list[Path] | None, Input(
    "--reference", metavar="FILE", help="Reference translations, one per line. Repeatable, if each sentence has "
    "several references.")]
ToLanguage = Annotated[str | None, Input(
    "--to", metavar="CODE", help="The language to translate into, such as fra, if the model has several target "
    "languages.")]
Splits = Annotated[list[str] | None, Input(
    "--split", metavar="SPLIT", show_default="every test set", autocompletion=suggestions.splits,
    help="A split of the first run's dataset: valid, train or the name of a test set. Repeatable.")]
ProtectPattern = Annotated[str, Input(
    "--protect-pattern", metavar="REGEX", help="Also copy unchanged each match of this regular expression, such as "
    "'#[A-Z]+-\\d+'.")]
_Run = partial(Search, "--run", "-r", metavar="RUN", show_default="the newest", autocompletion=suggestions.runs)
_RUN = "The name of a run under runs/, or its folder."
_ENSEMBLE = "Repeatable: several runs of one dataset translate together, as an ensemble."
Runs = Annotated[list[str] | None, _Run(help=f"{_RUN} {_ENSEMBLE}")]
SeparateRuns = Annotated[list[str] | None, _Run(help=f"{_RUN} Repeatable.")]
OneRun = Annotated[str | None, _Run(help=_RUN)]
Overrides = Annotated[list[str] | None, typer.Option(
    "--set", "-s", metavar="KEY=VALUE", autocompletion=suggestions.settings, help="Override one setting of the config, "
    "such as training.epochs=3. Repeatable.")]
SearchOverrides = Annotated[list[str] | None, Search(
    "--set", "-s", metavar="KEY=VALUE", autocompletion=suggestions.decoding_settings, help="Override one of the run's "
    "decoding settings, such as decoding.length_penalty=0.6. Repeatable.")]
BeamSize = Annotated[int | None, Search(
    "--beam-size", metavar="N", show_default="the run's decoding.beam_size", help="The number of hypotheses in beam "
    "search; 1 is greedy search.")]
Glossary = Annotated[Path | None, Search(
    "--glossary", metavar="FILE", help="Fixed translations: on each line a word or phrase, a tab and its translation. "
    "Or a CSV or TBX file.")]
Device = Annotated[str, Search(
    "--device", metavar="DEVICE", help="Where to compute: auto, cpu, cuda or cuda:N. Only cpu has been tested.")]
Lowercase = Annotated[bool, Output(
    "--lowercase", help="Ignore case in the scores; always done for runs with lower-cased text.")]
Metrics = Annotated[str, Output(
    "--metrics", metavar="NAME,…", help="The scores to print, separated by commas. BLEU and chrF are always printed; "
    "add chrf++ or ter.")]
TableFormatOption = Annotated[TableFormat, Output(
    "--format", help="The format of tables. latex needs the package booktabs.")]
AsJson = Annotated[bool, Output("--json", help="Print JSON instead of a table.")]
AsJsonLines = Annotated[bool, Output("--json", help="Print one JSON object per line instead of text.")]
ConfigName = Annotated[str | None, typer.Option(
    "--config", "-c", metavar="NAME|FILE", show_default="the built-in settings, as `tfm config` prints them",
    autocompletion=suggestions.configs, help="The name of a config that comes with tfm, such as demo, or a YAML file.")]
# fmt: on


def find_runs(argument: str | Sequence[str] | None, option: str | Sequence[str] | None = None) -> list[Path]:
    """Finds the runs named by an argument or --run, by default the newest one. Imports no torch.

    Raises CheckpointError if a run does not exist, and BadParameter if one is named twice or if a pattern matches
    several where a single run is needed.
    """
    from transformer_cli.runs.finding import find_run

    if argument and option:
        raise typer.BadParameter("runs are given both as arguments and with --run; use one of the two")
    given = argument or option
    names = [given] if isinstance(given, str) else given
    folders = [find_run(name) for each in names for name in match_runs(each)] if names else [find_run(None)]
    if isinstance(given, str) and len(folders) > 1:
        raise typer.BadParameter(f"{given} matches {', '.join(map(str, folders))}; name one run")
    for number, folder in enumerate(folders):
        if any(folder.samefile(other) for other in folders[:number]):
            raise typer.BadParameter(f"{folder} is named twice; name each run once")
    return folders


def match_runs(name: str) -> list[str]:
    """Returns the runs that match a pattern such as 'rate3-s*', sorted; other names unchanged.

    Raises CheckpointError if no run matches.
    """
    from transformer_cli.runs.finding import run_names

    if not set("*?[") & set(name) or Path(name).exists():
        return [name]
    known, there = run_names(Path("runs")), sorted(glob.glob(name))
    runs = [each for each in there if Path(each, "run.json").is_file()]  # not files such as latest
    if found := fnmatch.filter(known, name) or runs or there:
        return found
    raise CheckpointError(f"{name}: no run matches; runs/ has {', '.join(known) or 'none'}")


def given_options(**options: Any) -> dict[str, Any]:
    """Returns the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def parse_metrics(names: str) -> list[str]:
    """Returns the metrics in --metrics besides BLEU and chrF. Raises BadParameter for an unknown one."""
    from transformer_cli.scoring.metrics import parse_metrics

    try:
        return parse_metrics(names.split(","))
    except ConfigError as error:
        raise typer.BadParameter(f"--metrics: {error}") from None


def require_utf8(argument: str, name: str) -> str:
    """Returns an argument that is text. Raises DataError if it is not UTF-8. name: of the argument, for the error.

    Python decodes other bytes to surrogates, which cannot be encoded again.
    """
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        byte = ord(argument[error.start]) & 0xFF
        where = f"{name}: character {error.start + 1}"
        raise DataError(f"{where} is the byte 0x{byte:02x}, which is not UTF-8; give it in UTF-8") from None
    return argument


def check_references(source: Path | None, references: Sequence[Path]) -> None:
    """Raises BadParameter if a reference file is named twice, or standard input is used for both sides."""
    if len(set(references)) < len(references) or STDIO == source in references:
        raise typer.BadParameter("--reference names a file already in use (- is standard input); name each file once")


def check_plain_text(*paths: Path | None, refuses: bool = False) -> None:
    """Warns of files that do not look like plain text. Raises DataError if one cannot be read or is binary.

    refuses: raise it also if the file's name or first bytes show another format.
    """
    from transformer_cli.text.lines import open_decompressed

    for path in paths:
        if path is not None and path != STDIO and not is_stream(path):
            with open_decompressed(path) as file:
                warn_if_not_plain(file.peek(1), path, refuses=refuses)


def warn_if_not_plain(beginning: bytes, name: Path | str, *, refuses: bool = False) -> None:
    """Warns if a file with these first bytes does not look like plain text. refuses: as in `check_plain_text`."""
    from transformer_cli.adapters.documents import files
    from transformer_cli.text.file_formats import MAY_BE_PLAIN, detect_format

    found, named, converted = detect_format(beginning), "", ""
    if refuses and isinstance(name, Path):
        named, converted = files.other_format(name)
        if not named and found in (None, *MAY_BE_PLAIN) and not files.may_be_plain_by_name(name):
            named = "neither plain text nor a known format, by its name"
    if form := named or found:
        known = next((each for each, one in files.FORMATS.items() if form in one.names), None)
        what = form if named else f"apparently {form}"
        if refuses and form not in MAY_BE_PLAIN:
            documents = ", ".join(each for each in files.FORMATS if each != files.PLAIN_TEXT)
            remedy = f"use `--format {known}`" if known else converted or f"export its text as one of {documents}"
            raise DataError(f"{name}: {what}; {remedy}, or translate its lines, markup included, by `--format text`")
        remedy = f"; use `tfm translate --format {known}` to translate its text" if known else ""
        log.warning("%s: %s; each of its lines is read as a sentence%s", name, what, remedy)


def check_writable(*paths: Path | None, read: Sequence[Path | None] = ()) -> None:
    """Raises DataError for an output file that cannot be written or is also an input (`read`)."""
    for number, path in enumerate(paths):
        if path is None or path == STDIO:
            continue
        if path in paths[:number]:
            raise write_error(path, "two options name it")
        if path.is_dir():
            raise write_error(path, "it is a folder")
        check_parent_folder(path)
        if is_stream(path):
            continue
        if path.resolve() in [each.resolve() for each in paths[:number] if each]:  # other names of one file
            raise write_error(path, "two options name it")
        if any(each and each.exists() and path.exists() and path.samefile(each) for each in read):
            raise write_error(path, "it is also the input")
        if not os.access(path.resolve().parent, os.W_OK):
            raise write_error(path, f"no permission to write in {path.parent}")


def check_output_folder(path: Path, other: Path) -> None:
    """Raises DataError for an output folder that cannot be written or is inside the input folder `other`."""
    remedy = "name another folder"
    if path.exists() and not path.is_dir():
        raise write_error(path, "it is not a folder", remedy)
    check_parent_folder(path)
    if path.resolve().is_relative_to(other.resolve()):
        raise write_error(path, "it is inside the input folder", remedy)
    if not os.access(path if path.exists() else path.resolve().parent, os.W_OK | os.X_OK):
        raise write_error(path, "no permission to write in it", remedy)


def check_parent_folder(path: Path) -> None:
    """Raises DataError if the parent folder of an output does not exist."""
    if not path.resolve().parent.is_dir():
        raise write_error(path, f"there is no folder {path.parent}", "create it first")


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """A block that writes the file `path`: turns an OSError into a DataError that names the file."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error.strerror or str(error)) from None


@contextmanager
def open_output(output: Path | None) -> Iterator[TextIO]:
    r"""Yields the stream for output text: standard output, or a file that appears once the block ends without error.

    A file is UTF-8 with "\n" as line ends, and packed if its name says so.
    """
    if output is None or output == STDIO:
        yield sys.stdout
        return
    pack = COMPRESSORS.get(output.suffix.lower(), nullcontext)
    with name_in_errors(output), atomic_file(output) as file, pack(file) as packed:
        out = io.TextIOWrapper(packed, encoding="utf-8", newline="\n")
        yield out
        out.detach()  # flushes, and leaves the file open


def write_error(path: Path, reason: str, remedy: str = "name another file") -> DataError:
    """Returns the error for an output file that cannot be written."""
    return DataError(f"{path}: cannot be written: {reason}; {remedy}")
