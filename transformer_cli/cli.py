"""The command line: options → config → one call → print. Imports no torch at module level.

Results go to standard output, all else to standard error. Exit codes: 0 fine, 1 the user's input or files were at
fault, 2 wrong usage, 130 interrupted, 143 terminated.
"""

import errno
import io
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.decoding.settings import DEFAULT_LIMIT
from transformer_cli.errors import DataError, DistributedError, Interrupted, TfmError
from transformer_cli.output import (
    inspection_as_json,
    prepared_as_json,
    prepared_as_table,
    results_as_json,
    results_as_table,
    translation_as_json,
    words_as_json,
    words_as_table,
)

if TYPE_CHECKING:
    from transformer_cli.config.schema import Config
    from transformer_cli.evaluation.evaluate import Judged
    from transformer_cli.translator import Translation, Translator

CHUNK = 1000  # lines that are read before they are translated together

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich takes a tenth of a second to import
    help='Train, judge and run the Transformer of "Attention Is All You Need" for translation.',
)

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="A YAML file.", show_default="built in: as configs/multi30k.yaml"
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Override a setting: training.epochs=3. Repeatable."),
]
RunOption = Annotated[
    str | None, typer.Option("--run", "-r", help="A run's name under runs/, or its folder.", show_default="the newest")
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:N or mps; only cpu is tried.")]
TruncateOption = Annotated[bool, typer.Option("--truncate", help="Cut what is too long for the model.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class KindChoice(str, Enum):
    """What `tfm inspect --kind` takes."""

    encoder = "encoder"
    decoder = "decoder"
    cross = "cross"


class ScaleChoice(str, Enum):
    """What `tfm inspect --scale` takes."""

    sqrt = "sqrt"
    none = "none"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `tfm` and exit the process with its code. arguments: None for those of the process."""
    for stream, errors in ((sys.stdout, "strict"), (sys.stderr, "replace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)  # as the input is read, whatever the locale
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
        typer.echo(f"tfm {version('transformer-cli')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    else:
        _start_log()


@app.command()
def prepare(
    config: ConfigOption = None,
    overrides: SetOption = None,
    source_dir: Annotated[
        Path | None,
        typer.Option(help="A folder with Multi30k's files, instead of the download; also TFM_MULTI30K_DIR."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch, tokenise, count and encode parallel text into data/."""
    from transformer_cli.data.prepare import prepare

    prepared = prepare(_load(config, overrides), source_dir=source_dir)
    if not prepared.created:
        logging.getLogger(__name__).info("%s: nothing has changed, nothing to do", prepared.folder)
    print(prepared_as_json(prepared) if as_json else prepared_as_table(prepared))


@app.command()
def train(
    config: ConfigOption = None,
    overrides: SetOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Move an old run of this name aside and begin anew.")] = False,
) -> None:
    """Train a run under runs/. One that was interrupted goes on where it was saved last."""
    with _said_once():
        settings = _load(config, overrides)
        from transformer_cli.training.trainer import train

        train(settings, fresh=fresh)


@app.command()
def evaluate(
    run: RunOption = None,
    split: Annotated[
        list[str] | None, typer.Option(help="valid, train or a test set. Repeatable.", show_default="every test set")
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", metavar="FILE", help="Judge on your own sentences …")
    ] = None,
    reference: Annotated[Path | None, typer.Option(metavar="FILE", help="… and their translations.")] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the translations, a line each.")] = None,
    output_tokens: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the decoder's tokens.")] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Loss, perplexity, BLEU and chrF of a run's best checkpoint."""
    if (input_file is None) != (reference is None):
        raise typer.BadParameter("--input and --reference go together")
    if input_file and split:
        raise typer.BadParameter("--split and --input exclude each other")
    for path in (output, output_tokens):
        if path and path.is_dir():
            raise _unwritable(path, "it is a folder")
    from transformer_cli.evaluation.evaluate import evaluate
    from transformer_cli.runs.run import find_run

    files = (input_file, reference) if input_file and reference else None
    folder = find_run(run)
    judged = list(evaluate(folder, splits=split or (), files=files, device=device))
    results = [each.result for each in judged]
    print(results_as_json(folder, results) if as_json else results_as_table(results))
    _keep(judged, output, output_tokens)


@app.command()
def translate(
    sentences: Annotated[list[str] | None, typer.Argument(help="Sentences; none: standard input.")] = None,
    input_file: Annotated[Path | None, typer.Option("--input", "-i", metavar="FILE", help="Lines of a file.")] = None,
    run: RunOption = None,
    device: DeviceOption = "auto",
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Longest translation, in tokens.", show_default=DEFAULT_LIMIT),
    ] = None,
    truncate: TruncateOption = False,
    keep_unk: Annotated[
        bool, typer.Option("--keep-unk", help="Leave <unk>, instead of the source word attended to most.")
    ] = False,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print the decoder's tokens.")] = False,
    attention: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw a PNG of what attends to what, of one sentence."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line.")] = False,
) -> None:
    """Translate sentences: a line out for every line in."""
    if sentences and input_file:
        raise typer.BadParameter("sentences and --input exclude each other")
    if tokens and as_json:
        raise typer.BadParameter("--tokens and --json exclude each other (JSON has the tokens)")
    if attention and (input_file or len(sentences or ()) != 1):
        raise typer.BadParameter("--attention draws one sentence: give exactly one, as an argument")
    from transformer_cli.decoding.settings import SearchSettings
    from transformer_cli.translator import Options, Translator

    translator = Translator.load(run, device=device)
    options = Options(keep_unk=keep_unk, truncate=truncate, keep_attention=attention is not None)
    settings = SearchSettings(max_tokens=max_tokens)
    is_interactive = not sentences and not input_file and sys.stdin.isatty()
    lines = _lines(sentences, input_file)
    if is_interactive:
        print("A sentence a line; Ctrl-D ends.", file=sys.stderr)
        for line in lines:
            try:
                (translation,) = translator.translations([line], options, settings)
            except DataError as error:  # one sentence too long is no reason to leave
                print(f"tfm: error: {error}", file=sys.stderr)
            else:
                print(_rendered(translation, tokens, as_json), flush=True)
    elif attention:
        (translation,) = translator.translations(list(lines), options, settings)
        _draw_cross_attention(translator, translation, attention)
        print(_rendered(translation, tokens, as_json))
    else:
        for translation in translator.stream(lines, options, settings, chunk=CHUNK):
            print(_rendered(translation, tokens, as_json))


@app.command()
def inspect(
    sentence: Annotated[str, typer.Argument(help="The sentence to translate and look into.")],
    run: RunOption = None,
    device: DeviceOption = "auto",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The PNG to write.", show_default="inspect.png"),
    ] = None,
    kind: Annotated[
        list[KindChoice] | None,
        typer.Option(help="Self-attention of a stack, or between them. Repeatable.", show_default="all three"),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Counts from 1.", show_default="the last")] = None,
    head: Annotated[
        list[int] | None, typer.Option(help="Counts from 1. Repeatable.", show_default="every head")
    ] = None,
    truncate: TruncateOption = False,
    vectors: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="No model: attention of these word vectors over themselves. A file, or a name that gensim knows. "
            "Words are split at white space; each has the vector of its own spelling, else of the lower-case one.",
        ),
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="WORD", help="With --vectors: only this word's rows.")] = None,
    scale: Annotated[
        ScaleChoice | None,
        typer.Option(help="With --vectors: divide scores by √dimension, or not.", show_default="sqrt"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as JSON, with scores before softmax; no picture.")
    ] = False,
) -> None:
    """Draw what attends to what in a sentence. Also, where its token vectors move."""
    if output and as_json:
        raise typer.BadParameter("--output and --json exclude each other")
    picture = output or Path("inspect.png")
    if vectors is not None:
        of_a_model: dict[str, object] = {
            "--run": run,
            "--device": device != "auto",
            "--kind": kind,
            "--layer": layer is not None,
            "--head": head,
            "--truncate": truncate,
        }
        if given := [option for option, value in of_a_model.items() if value]:
            raise typer.BadParameter(f"--vectors looks into no model, so it excludes {', '.join(given)}")
        _inspect_words(sentence, vectors, query, scale is not ScaleChoice.none, None if as_json else picture)
        return
    if query is not None or scale:
        raise typer.BadParameter("--query and --scale go with --vectors")
    from transformer_cli.inspection import KINDS, inspect_sentence
    from transformer_cli.translator import Options, Translator

    inspection = inspect_sentence(Translator.load(run, device=device), sentence, Options(truncate=truncate))
    kinds = [each for each in KINDS if not kind or KindChoice(each) in kind]
    maps = inspection.maps(kinds, layer=layer, heads=head or ())
    if as_json:
        print(inspection_as_json(inspection, maps))
        return
    from transformer_cli.plots import draw_inspection

    with _writing(picture):
        draw_inspection(inspection, maps, picture)
    print(f"{inspection.translation}\n{picture}")


@app.command()
def curves(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Names under runs/, or folders.", show_default="the newest")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The PNG to write.")] = Path(
        "curves.png"
    ),
) -> None:
    """Draw learning curves. Those of several runs are laid over each other."""
    from transformer_cli.plots import draw_curves
    from transformer_cli.runs.run import Run, find_run

    folders = [find_run(run) for run in runs or (None,)]
    histories = {str(folder): Run.open(folder).history() for folder in folders}
    for name, history in histories.items():
        if not history:
            raise DataError(f"{name}: no validation yet, so there is nothing to draw; let `tfm train` reach one")
    with _writing(output):
        draw_curves(histories, output)
    print(output)


def _load(config: Path | None, overrides: Sequence[str] | None) -> "Config":
    from transformer_cli.config.load import load_config

    return load_config(config, overrides or ())


@contextmanager
def _said_once() -> Iterator[None]:
    """What ends all processes of a training alike is said by the first on each machine; the others end in silence.

    They leave the first some time to speak: torchrun ends all as soon as one has ended.
    """
    try:
        yield
    except (TfmError, Interrupted) as error:
        from transformer_cli.compute.world import World

        if isinstance(error, DistributedError) or World.from_environment().local_rank == 0:
            raise
        if isinstance(error, Interrupted):
            time.sleep(1)  # all notice it at the same moment
            sys.exit(128 + error.signal_number)
        time.sleep(30)
        sys.exit(1)


def _start_log() -> None:
    from transformer_cli.progress import LineHandler

    package = logging.getLogger("transformer_cli")
    package.handlers = [LineHandler()]
    package.setLevel(logging.INFO)
    package.propagate = False


def _exit(message: str, code: int) -> None:
    sys.stderr.write(f"{message}\n")  # at once: another process's line does not come between it and its end
    sys.exit(code)


def _lines(sentences: Sequence[str] | None, path: Path | None) -> Iterable[str]:
    from transformer_cli.data.lines import decode_line, read_lines

    def standard_input() -> Iterator[str]:
        for number, line in enumerate(sys.stdin.buffer, start=1):
            yield decode_line(line, "standard input", number)

    if sentences:
        return [decode_line(os.fsencode(text), "argument", number) for number, text in enumerate(sentences, start=1)]
    return read_lines(path) if path else standard_input()


def _rendered(translation: "Translation", tokens: bool, as_json: bool) -> str:
    if as_json:
        return translation_as_json(translation)
    return " ".join(translation.tokens) if tokens else translation.text


def _draw_cross_attention(translator: "Translator", translation: "Translation", path: Path) -> None:
    from transformer_cli.inspection import cross_attention
    from transformer_cli.plots import draw_attention

    maps = cross_attention(translation, layer=translator.run.config.model.num_decoder_layers)
    with _writing(path):
        draw_attention(maps, path)
    logging.getLogger(__name__).info("%s: what each position of the translation attends to", path)


def _inspect_words(sentence: str, where: str, query: str | None, is_scaled: bool, picture: Path | None) -> None:
    """picture: None for JSON instead."""
    from transformer_cli.inspection import attend_over_words

    found = attend_over_words(sentence, where, is_scaled=is_scaled, query=query)
    if picture is None:
        print(words_as_json(found))
        return
    from transformer_cli.plots import draw_words

    with _writing(picture):
        draw_words(found, picture)
    print(f"{words_as_table(found)}\n{picture}")


def _keep(judged: Sequence["Judged"], output: Path | None, output_tokens: Path | None) -> None:
    """Write translations and tokens, the splits one after another, a line for every sentence."""
    from transformer_cli.files import write_text

    translations = [translation for each in judged for translation in each.translations]
    texts = "".join(f"{translation.text}\n" for translation in translations)
    tokens = "".join(f"{' '.join(translation.tokens)}\n" for translation in translations)
    for path, content in ((output, texts), (output_tokens, tokens)):
        if path:
            with _writing(path):
                write_text(path, content)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None


def _unwritable(path: Path, reason: str) -> DataError:
    return DataError(f"{path}: cannot be written: {reason}; name another file")
