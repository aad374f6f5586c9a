"""What several commands share: one table of all options, the runs that they name, files to read and to write."""

import fnmatch
import glob
import inspect
import io
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TextIO

import typer

from transformer_cli.commands import spelling
from transformer_cli.errors import CheckpointError, ConfigError, DataError
from transformer_cli.system.files import PACKERS, STANDARD, is_stream, new_file

log = logging.getLogger(__name__)

A_RUN = "A run's name under runs/, or its folder."
EXAMPLES = 3  # of --examples


@dataclass(frozen=True)
class Row:
    """An option or an argument, as the help shows it. Its type and its default are those of the command's parameter."""

    name: str
    """of the parameter"""
    form: str
    """its flags, and what stands for its value, such as "--output -o FILE"; an argument has no flags"""
    help: str
    default: str | bool | None = None
    """what the help calls the default, if not the parameter's"""
    of: str = ""
    """the commands whose row it is; by default all those that have none of their own"""
    bounds: tuple[int | None, int | None] = (None, None)
    """the least and the largest value"""
    variable: str | None = None
    """the environment variable that can have the value, too"""


TABLE = {  # by the groups of the help
    "Arguments": (
        Row("sentences", "", "The sentences to translate.", "standard input"),
        Row("sentence", "", "The sentence to translate and look into."),
        Row("files", "[FILE]...", "Training text: TMX, XLIFF, .po, TSV, CSV or JSON lines, or files of one side each, "
            "such as a.de and a.en.", default=False),
        Row("systems", "A B [C …]", "Runs (names or folders), or files of translations. The others are compared with "
            "the first. A1,A2 B1,B2 or 'a-s*' 'b-s*' compares recipes: several runs of each; one alone gives its mean "
            "and spread. NAME=… names any of them.", default=False),
        Row("named", "[RUN]...", "The same as --run.", default=False, of="curves serve"),
        Row("named", "[RUN]...", "Runs, each judged by itself; 'rate3-s*' is all whose names begin so.", "the newest",
            of="evaluate"),
        Row("named", "[RUN]", "The same as --run.", default=False),
        Row("base", "[NAME|FILE]", "A config that comes with tfm, or a YAML file.", "the built-in settings"),
        Row("folder", "FOLDER", "A folder as Marian wrote it (.npz, with .spm or .yml), or as Hugging Face has it "
            "(config.json)."),
    ),
    "Input": (
        Row("input_file", "--input -i FILE", "Translate the lines of a file, a document, or a folder of them.",
            of="translate"),
        Row("input_file", "--input -i FILE", "Evaluate on your own sentences, with --reference.", of="evaluate"),
        Row("input_file", "--input -i FILE", "Your own sentences, with --reference. Files do not need it.",
            of="compare"),
        Row("input_file", "--input -i FILE", "The sentences.", of="score"),
        Row("reference", "--reference FILE", "A file of reference translations. Repeatable: a sentence may have "
            "several references."),
        Row("target_file", "--target FILE", "Their translations, line by line."),
        Row("source", "--source CODE", "The language of the source.", "as the files say", of="import"),
        Row("source", "--source CODE", "The language of the source."),
        Row("target", "--target CODE", "The language of the target.", "as the files say", of="import"),
        Row("target", "--target CODE", "The language of the target."),
        Row("to", "--to CODE", "Of a model of several targets, the language to translate into."),
        Row("columns", "--columns A,B", "The columns of source and target: names, or numbers from 1."),
        Row("split", "--split SPLIT", "valid, train or a test set of the (first) run's dataset. Repeatable.",
            "every test set"),
        Row("text_format", "--format", "What the --input is: lines of text, or a document that is kept but for its "
            "text.", "as its name says"),
        Row("split_sentences", "--split-sentences/--no-split-sentences", "Translate each sentence of a line by itself.",
            "only in a conversation"),
        Row("on_error", "--on-error", "Of a line that is too long: stop with an error, leave it blank, copy it, or "
            "translate its beginning.", of="translate"),
        Row("on_error", "--on-error", "What becomes of a sentence that is too long: an error, or it is cut."),
        Row("language", "--language CODE", "The language of files of translations, for BLEU's tokeniser.",
            "the runs', or en"),
        Row("hold", "--hold/--no-hold", "Let placeholders such as {name} and %s, and addresses of the web and of mail, "
            "pass."),
        Row("hold_pattern", "--hold-pattern REGEX", "Hold also what this regular expression finds, such as "
            "'#[A-Z]+-\\d+'."),
    ),
    "Model and search": (
        Row("run", "--run -r RUN", f"{A_RUN} Repeatable.", "the newest", "curves"),
        Row("run", "--run -r RUN", f"{A_RUN} Repeatable: one run for each direction.", "the newest", "serve"),
        Row("run", "--run -r RUN", f"{A_RUN} Several runs of one dataset translate together, as an ensemble.",
            "the newest", "translate evaluate"),
        Row("run", "--run -r RUN", A_RUN, "the newest"),
        Row("overrides", "--set -s KEY=VALUE", "Override one setting, such as training.epochs=3. Repeatable."),
        Row("search", "--set -s KEY=VALUE", "Override a setting of the search, such as decoding.length_penalty=0.6. "
            "Repeatable."),
        Row("beam_size", "--beam-size N", "Hypotheses that the search keeps; 1 is greedy search.",
            "the run's decoding.beam_size"),
        Row("prefix", "--prefix TEXT", "Begin each translation with this text.", default=False),
        Row("max_tokens", "--max-tokens N", "Longest translation, in tokens.", "2 × source + 10", bounds=(1, 10_000)),
        Row("glossary", "--glossary FILE", "Fixed translations: a word or phrase, a TAB and its translation on each "
            "line; or a CSV or TBX."),
        Row("device", "--device DEVICE", "auto, cpu, cuda or cuda:N; only cpu has been tested."),
    ),
    "Output": (
        Row("output", "--output -o FILE", "Write to a file, which appears when it is whole, or to a folder.",
            of="translate"),
        Row("output", "--output -o FILE", "Keep the translations, one per line.", of="evaluate"),
        Row("output", "--output -o FILE", "The .svg, .pdf or .png to write.  [default: inspect.png]", of="inspect"),
        Row("output", "--output -o FILE", "The .svg, .pdf or .png to write.", of="curves"),
        Row("output", "--output -o DIR", "The folder to make.", "exports/RUN, or exports/RUN-int8 and so on", "export"),
        Row("output_tokens", "--output-tokens FILE", "Keep the decoder's tokens, one sentence per line."),
        Row("to", "--to", "The format to write.", of="export"),
        Row("quantization", "--quantization -q", "How weights are kept; int8 is the smallest, and on CPUs with VNNI "
            "the fastest."),
        Row("n_best", "--n-best K", "Print the K best of each line: line number, score, text, between tabs.",
            bounds=(1, 1000)),
        Row("keep_unk", "--keep-unk", "Keep <unk>, in whose place the source word attended to most is written."),
        Row("lowercase", "--lowercase", "Score without case. Lower-cased runs are scored so anyway."),
        Row("metrics", "--metrics NAME,…", "Scores to print: chrf++ and ter, too."),
        Row("details", "--details", "Print brevity penalty, length ratio and n-gram precisions of BLEU, too."),
        Row("form", "--format", "How tables are printed. LaTeX needs the package booktabs."),
        Row("examples", "--examples N", "How many of the sentences that changed most are shown.", str(EXAMPLES),
            bounds=(0, None)),
        Row("kind", "--kind", "Self-attention of one stack, or attention between the two. Repeatable.", "all"),
        Row("layer", "--layer N", "Which layer, counted from 1.", "the last"),
        Row("head", "--head N", "Which head, counted from 1. Repeatable.", "every head"),
        Row("as_blocks", "--text", "Print the attention weights as blocks of text; no picture."),
        Row("as_json", "--json", "Print the numbers as JSON, with scores before softmax; no picture.", of="inspect"),
        Row("as_json", "--json", "Print one JSON object per line.", of="translate score"),
        Row("as_json", "--json", "Print JSON."),
    ),
    "Word vectors instead of a model": (
        Row("vectors", "--vectors FILE", "Use no model: show the attention of these word vectors over themselves. Give "
            "a file, or a name that gensim knows. Words are split at white space; each word gets the vector of its own "
            "spelling, or else the vector of its lower-case form."),
        Row("query", "--query WORD", "Show only this word's rows."),
        Row("scale", "--scale", "Divide the scores by √dimension, or not.", "sqrt"),
    ),
    "Options": (
        Row("config", "--config -c NAME|FILE", "A config that comes with tfm, such as demo, or a YAML file.",
            "the built-in settings, as `tfm config` prints them"),
        Row("name", "--name NAME", "What NAME.yaml and the run are called.", "FILE's", "prepare"),
        Row("name", "--name NAME", "What the run is called.", "FOLDER's"),
        Row("like", "--like RUN", "A run whose model is to be trained further on this text: its languages, codecs and "
            "shape are taken."),
        Row("dry_run", "--dry-run", "Show what would be left out, and write nothing."),
        Row("source_dir", "--source-dir FOLDER", "A folder with Multi30k's files, instead of the download; or set "
            "TFM_MULTI30K_DIR."),
        Row("begin_from", "--from RUN", "Begin with the weights of this run, and take the settings from it that must "
            "be equal."),
        Row("watch", "--watch FILE", "With --from: text that is not to be forgotten, as pairs, or a split of the "
            "dataset. Its loss is shown, and a share of the start's weights is kept. Repeatable."),
        Row("along", "--along FILE", "With --from: pairs that make up half of each epoch, or sentences that the start "
            "translates. Repeatable."),
        Row("fresh", "--fresh", "Move an existing run of this name aside and begin a new one."),
        Row("list_names", "--list -l", "List the configs that come with tfm."),
        Row("model", "--model FILE", "The file with the weights, where FOLDER has several."),
        Row("positions", "--positions", "Which sines and cosines are computed: those of Marian, which trained the "
            "model, or those of transformers, which hardly change translations, but do change scores.",
            "those of the program that wrote the folder"),
        Row("host", "--host ADDRESS", "Where to listen; 0.0.0.0 is every network of this machine."),
        Row("port", "--port N", "The port; 0 lets the system choose.", bounds=(0, 65535)),
        Row("api_key", "--api-key KEY", "What requests have to bring as api_key. The variable is better: others can "
            "see a command's options.", variable="TFM_API_KEY"),
        Row("allow_host", "--allow-host NAME", "A name that clients call this server by, such as tr.example.org; * for "
            "any. Repeatable.", "localhost, numeric addresses, --host's and this machine's name"),
        Row("cors_origin", "--cors-origin URL", "Let pages of this other server use this one, such as "
            "https://example.org. Repeatable.", "none"),
    ),
}  # fmt: skip
COMPLETED: dict[str, Callable[..., list[str]]] = {  # what a shell offers, by the names of parameters
    **dict.fromkeys(("named", "run", "systems", "like", "begin_from"), spelling.runs),
    **dict.fromkeys(("base", "config"), spelling.configs),
    "overrides": spelling.settings,
    "search": spelling.decoding_settings,
    "split": spelling.splits,
}


def row_of(command: str, name: str) -> tuple[str, Row]:
    """Returns the group and the row of a command's parameter."""
    rows = [(group, row) for group, rows in TABLE.items() for row in rows if row.name == name]
    found = [(group, row) for of in (command, "") for group, row in rows if of in (row.of.split() or [""])]
    assert found, f"the parameter {name} of {command} has no row in commands/options.py::TABLE"
    return found[0]


def with_rows(function: Callable[..., None], command: str) -> Callable[..., None]:
    """Returns a command's function as Typer reads it: each parameter has its row for a default."""
    signature = inspect.signature(function)
    parameters = [
        each.replace(default=_for_typer(row_of(command, name)[1], each.default))
        for name, each in signature.parameters.items()
    ]

    @wraps(function)
    def run(**given: Any) -> None:
        function(**given)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _for_typer(row: Row, default: Any) -> Any:
    flags = [word for word in row.form.split() if word.startswith("-")]
    least, most = row.bounds
    about: dict[str, Any] = {
        "help": row.help,
        "metavar": row.form[len(" ".join(flags)) :].strip() or None,
        "show_default": row.default is None or row.default,
        "autocompletion": COMPLETED.get(row.name),
        "envvar": row.variable,
        "min": least,
        "max": most,
    }
    value = ... if default is inspect.Parameter.empty else default
    return typer.Option(value, *flags, **about) if flags else typer.Argument(value, **about)


def find_runs(argument: str | Sequence[str] | None, option: str | Sequence[str] | None = None) -> list[Path]:
    """Find the runs that an argument or --run names, by default the newest; torch is not imported for that.

    Raises CheckpointError for one that does not exist, BadParameter for one that is named twice, and for a pattern that
    several match where one is wanted.
    """
    from transformer_cli.runs.run import find_run

    if argument and option:
        raise typer.BadParameter("a run is named as an argument and by --run; use one of the two")
    given = argument or option
    names = [given] if isinstance(given, str) else given
    folders = [find_run(name) for each in names for name in matching(each)] if names else [find_run(None)]
    if isinstance(given, str) and len(folders) > 1:
        raise typer.BadParameter(f"{given} matches {', '.join(map(str, folders))}; name one run")
    for number, folder in enumerate(folders):
        if any(folder.samefile(other) for other in folders[:number]):
            raise typer.BadParameter(f"{folder} is named twice; name each run once")
    return folders


def matching(name: str) -> list[str]:
    """Returns the runs whose names match a pattern such as 'rate3-s*', in order; other names as they are.

    Raises CheckpointError if none does.
    """
    from transformer_cli.runs.run import known_runs

    if not set("*?[") & set(name) or Path(name).exists():
        return [name]
    known, there = known_runs(Path("runs")), sorted(glob.glob(name))
    runs = [each for each in there if Path(each, "run.json").is_file()]  # and not the files beside them, such as latest
    if found := fnmatch.filter(known, name) or runs or there:
        return found
    raise CheckpointError(f"{name}: no run has such a name; runs/ has {', '.join(known) or 'none'}")


def chosen(**options: Any) -> dict[str, Any]:
    """Returns the options that were given; those that were not are None."""
    return {name: value for name, value in options.items() if value is not None}


def further_metrics(names: str) -> list[str]:
    """Returns what --metrics names beside BLEU and chrF. Raises BadParameter for what is no metric."""
    from transformer_cli.scoring.metrics import further_metrics

    try:
        return further_metrics(names.split(","))
    except ConfigError as error:
        raise typer.BadParameter(f"--metrics: {error}") from None


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


def check_text(*paths: Path | None, refuses: bool = False) -> None:
    """Warn of files of lines that are not plain text. Raises DataError for one that cannot be read, or is no text.

    refuses: whether to raise it also for what surely is of another form, as its name or its beginning says.
    """
    from transformer_cli.text.lines import unpacked

    for path in paths:
        if path is not None and path != STANDARD and not is_stream(path):
            with unpacked(path) as file:
                warn_of_form(file.peek(1), path, refuses=refuses)


def warn_of_form(beginning: bytes, name: Path | str, *, refuses: bool = False) -> None:
    """Warn if text that begins so is not plain. name: what the warning calls it. refuses: as `check_text` has it."""
    from transformer_cli.adapters.documents.files import FORMATS, TEXT, other_form_of
    from transformer_cli.text.forms import MAY_BE_PLAIN, form_of

    named = other_form_of(name) if refuses and isinstance(name, Path) else None
    if form := named or form_of(beginning):
        known = next((each for each, one in FORMATS.items() if form in one.what), None)
        seems = "" if named else ", as it seems"
        if refuses and form not in MAY_BE_PLAIN:
            others = (
                f"its texts can be translated as {', '.join(each for each in FORMATS if each != TEXT)}; export them"
            )
            remedy = f"`--format {known}` translates it as what it is" if known else others
            raise DataError(f"{name}: {form}{seems}; {remedy}, or `--format text` translates its lines, marks and all")
        remedy = f"; `tfm translate --format {known}` translates it as what it is" if known else ""
        log.warning("%s: %s%s; every line of it is read as a sentence%s", name, form, seems, remedy)


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


def refuse_folder_below(path: Path, other: Path) -> None:
    """Raises DataError for a folder that cannot be filled, or is in the other one, which is read."""
    remedy = "name another folder"
    if path.exists() and not path.is_dir():
        raise unwritable(path, "it is not a folder", remedy)
    refuse_without_folder(path)
    if path.resolve().is_relative_to(other.resolve()):
        raise unwritable(path, "it is in the folder that is read", remedy)
    if not os.access(path if path.exists() else path.resolve().parent, os.W_OK | os.X_OK):
        raise unwritable(path, "it is closed to you", remedy)


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


@contextmanager
def printing_to(output: Path | None) -> Iterator[TextIO]:
    r"""What text is printed to: a file that appears when the block has ended well, or standard output.

    A file is UTF-8 with "\n" at the end of lines, packed as its name says.
    """
    if output is None or output == STANDARD:
        yield sys.stdout
        return
    with writing(output), new_file(output) as file:
        if pack := PACKERS.get(output.suffix.lower()):
            out: TextIO = io.TextIOWrapper(pack(file), encoding="utf-8", newline="\n")
        else:
            out = open(file.fileno(), "w", encoding="utf-8", newline="\n", closefd=False)
        with out:  # closing it writes all, and leaves the file open
            yield out


def unwritable(path: Path, reason: str, remedy: str = "name another file") -> DataError:
    """Returns the error for an output file that cannot be written."""
    return DataError(f"{path}: cannot be written: {reason}; {remedy}")
