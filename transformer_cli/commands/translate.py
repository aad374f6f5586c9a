"""`tfm translate`: sentences from arguments, a file, a pipe or a terminal → one line of output for each."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli import progress, terminal
from transformer_cli.commands.options import (
    BeamSizeOption,
    DecodingSetOption,
    DeviceOption,
    RunsOption,
    as_text,
    search_settings,
    writing,
)
from transformer_cli.decoding.limits import DEFAULT_LIMIT
from transformer_cli.errors import DataError
from transformer_cli.keyboard import converse
from transformer_cli.output import long_lines_as_text, translation_as_json
from transformer_cli.pictures import picture_format
from transformer_cli.streams import stream_named

if TYPE_CHECKING:
    from transformer_cli.decoding.settings import SearchSettings
    from transformer_cli.translator import Options, Translation, Translator

CHUNK = 1000  # lines that are read before they are translated together
CHUNK_TO_WATCH = 20  # the same where somebody watches: slower, but the lines come steadily
NAMED = 10  # lines that were too long, of which the numbers are said

Render = Callable[[int, "Translation"], str]
"""The number of a line and its translation → what is printed"""

log = logging.getLogger(__name__)


class OnErrorChoice(str, Enum):
    """The values that `tfm translate --on-error` accepts."""

    stop = "stop"
    blank = "blank"
    copy = "copy"
    truncate = "truncate"


def translate(
    sentences: Annotated[
        list[str] | None, typer.Argument(help="The sentences to translate.", show_default="standard input")
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="Translate the lines of a file.")
    ] = None,
    run: RunsOption = None,
    overrides: DecodingSetOption = None,
    beam_size: BeamSizeOption = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            metavar="K",
            help="Print the K best translations of each line: line number, score and text, with tabs between them.",
            show_default="only the best one, as plain text",
        ),
    ] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Begin every translation with this text.", show_default=False)
    ] = "",
    device: DeviceOption = "auto",
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, metavar="N", help="Longest translation, in tokens.", show_default=DEFAULT_LIMIT
        ),
    ] = None,
    on_error: Annotated[
        OnErrorChoice,
        typer.Option(
            help="What becomes of a line that is too long: an error, which stops; an empty line; the line itself; or "
            "the translation of its beginning."
        ),
    ] = OnErrorChoice.stop,
    keep_unk: Annotated[
        bool,
        typer.Option(
            "--keep-unk", help="Keep <unk>, instead of replacing it by the source word that is attended to most."
        ),
    ] = False,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print the decoder's tokens instead of text.")] = False,
    attention: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw what the translation of one sentence attends to: a .svg, .pdf or .png."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Translate sentences, one line of output for each line of input.

    A line is one sentence: put the sentences of a paragraph on lines of their own. Markup such as <b> is read as text.
    """
    if sentences and input_file:
        raise typer.BadParameter("sentences and --input cannot be used together")
    if tokens and as_json:
        raise typer.BadParameter("--tokens and --json cannot be used together (the JSON has the tokens)")
    if attention and (input_file or len(sentences or ()) != 1):
        raise typer.BadParameter("--attention draws one sentence: give exactly one, as an argument")
    if attention and len(run or ()) > 1:
        raise typer.BadParameter("--attention draws the attention of one model: give one --run")
    if attention:
        picture_format(attention)
    from transformer_cli.translator import Options, Translator

    translator = Translator.load(*(run or ()), device=device)
    settings = search_settings(
        translator.run.config.decoding, overrides, beam_size=beam_size, n_best=n_best, max_tokens=max_tokens
    )
    options = Options(
        keep_unk=keep_unk,
        on_error=on_error.value,
        keep_attention=attention is not None,
        prefix=as_text(prefix, "--prefix"),
    )
    render = _renderer(tokens=tokens, as_json=as_json, n_best=n_best)
    if not sentences and not input_file and sys.stdin.isatty():
        _answer_a_terminal(translator, options, settings, render)
        return
    name, lines = _named_lines(sentences, input_file)
    with _counting_long_lines(name, on_error) as long_lines, _progress(sentences, input_file) as (chunk, done):
        translations = translator.stream(lines, options, settings, chunk=chunk, name=name, done=done)
        for number, translation in enumerate(translations, start=1):
            if translation.was_too_long:
                long_lines.add(number)
            if attention:  # there is only one sentence: several were refused above
                _draw_cross_attention(translation, attention, layer=translator.run.config.model.num_decoder_layers)
            is_last = number % CHUNK == 0  # of those that were read: who sent them may wait for their translations
            print(render(number, translation), flush=is_last)


def _renderer(*, tokens: bool, as_json: bool, n_best: int | None) -> Render:
    written = _tokens if tokens else _text
    if as_json:
        return lambda number, translation: translation_as_json(translation)
    if n_best is None:
        return lambda number, translation: written(translation)
    return lambda number, translation: "\n".join(
        f"{number}\t{each.score:.4f}\t{written(each)}" for each in (translation, *translation.alternatives)
    )


def _text(translation: "Translation") -> str:
    return translation.text


def _tokens(translation: "Translation") -> str:
    return " ".join(token.replace(" ", "▁") for token in translation.tokens)  # a subword may begin with a space


def _answer_a_terminal(
    translator: "Translator", options: "Options", settings: "SearchSettings", render: Render
) -> None:
    """Translate each line as soon as it is typed."""
    folders = ", ".join(str(each.folder) for each in translator.runs)
    data = translator.run.config.data
    log.info("%s: %s → %s", folders, data.source, data.target)
    log.info("One sentence per line. Ctrl-C drops a line, Ctrl-D ends.")

    def answer(number: int, line: str) -> None:
        terminal.note("translating")
        try:
            sentence = as_text(line, f"line {number}")
            (translation,) = translator.translations([sentence], options, settings, first_line=number)
        except DataError as error:  # one sentence too long is no reason to leave
            print(terminal.message(f"tfm: error: {error}"), file=sys.stderr)
        else:
            if translation.was_too_long:
                log.warning("%s", long_lines_as_text(1, [number], options.on_error))
            print(render(number, translation), flush=True)

    converse(answer, prompt=f"{terminal.on_one_line(data.source)}> ")


@contextmanager
def _progress(sentences: Sequence[str] | None, path: Path | None) -> Iterator[tuple[int, Callable[[int], object]]]:
    """How many lines are translated together, and who is told of them: a bar, unless somebody sees the lines appear."""
    if sys.stdout.isatty():
        terminal.note("translating")
        yield CHUNK_TO_WATCH, lambda n_lines: None
        return
    with progress.bar("translate", len(sentences) if sentences else _n_lines(path), " sentences") as bar:
        yield CHUNK, bar.update


def _n_lines(path: Path | None) -> int | None:
    """Returns how many lines a file has; None if that is not easily known."""
    from transformer_cli.data.lines import count_lines

    is_plain = path is not None and path.is_file() and stream_named(path) is None and path.suffix != ".gz"
    return count_lines(path) if path and is_plain else None


def _draw_cross_attention(translation: "Translation", path: Path, *, layer: int) -> None:
    from transformer_cli.inspection import cross_attention
    from transformer_cli.plots import draw_attention

    maps = cross_attention(translation, layer=layer)
    with writing(path):
        draw_attention(maps, path)
    log.info("%s: what each position of the translation attends to", path)


def _named_lines(sentences: Sequence[str] | None, path: Path | None) -> tuple[str, Iterable[str]]:
    """The sentences given as arguments, else the lines of the file, else those of standard input; and their name."""
    from transformer_cli.data.lines import cut_lines, lines_of

    def standard_input() -> Iterator[str]:
        try:
            yield from lines_of(sys.stdin.buffer, "standard input")
        except OSError as error:  # closed by `<&-`, or a folder
            raise DataError(
                f"standard input: cannot be read: {error.strerror}; give sentences, --input, or a pipe"
            ) from None

    if sentences:
        return "argument", [as_text(text, f"argument: line {number}") for number, text in enumerate(sentences, start=1)]
    if path:
        return str(path), cut_lines(path)
    return "standard input", standard_input()


class _LongLines:
    """Counts the lines that were too long."""

    def __init__(self) -> None:
        self.n_lines = 0
        self.first: list[int] = []

    def add(self, number: int) -> None:
        self.n_lines += 1
        if len(self.first) < NAMED:
            self.first.append(number)


@contextmanager
def _counting_long_lines(name: str, on_error: OnErrorChoice) -> Iterator[_LongLines]:
    """However the block ends, say at its end which lines were too long, if there were any."""
    found = _LongLines()
    try:
        yield found
    finally:
        if found.n_lines:
            log.warning("%s: %s", name, long_lines_as_text(found.n_lines, found.first, on_error.value))
