"""`tfm translate`: sentences from arguments, a file, a pipe or a terminal → one line of output for each."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from transformer_cli.commands.conversation import Render, answer_a_terminal
from transformer_cli.commands.options import (
    BeamSizeOption,
    DecodingSetOption,
    DeviceOption,
    RunsOption,
    as_text,
    dash_as_input,
    dash_as_output,
    search_settings,
    writing,
)
from transformer_cli.commands.sharding import choose_shard, facts_of, opened, translate_shard
from transformer_cli.decoding.limits import DEFAULT_LIMIT
from transformer_cli.errors import DataError
from transformer_cli.inspection.picture_files import picture_format
from transformer_cli.output.translations import long_lines_as_text, translation_as_json
from transformer_cli.system import progress, terminal
from transformer_cli.system.streams import stream_named

if TYPE_CHECKING:
    from transformer_cli.decoding.settings import SearchSettings
    from transformer_cli.translator import Options, Translation, Translator

CHUNK = 1000  # lines that are read before they are translated together
CHUNK_TO_WATCH = 20  # the same where somebody watches: slower, but the lines come steadily
NAMED = 10  # lines that were too long, of which the numbers are said

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
        Path | None,
        typer.Option("--input", "-i", metavar="FILE", help="Translate the lines of a file.", callback=dash_as_input),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to a file, which appears when it is whole.",
            callback=dash_as_output,
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Translate part I of N of the --input. Who finishes the last part joins all of them in --output.",
            show_default="all of it; under torchrun, each process its part",
        ),
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
            help="Print the K best translations of each line, for which the beam has to hold K: line number, score and "
            "text, with tabs between them.",
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
    place = choose_shard(shard, device, input_file, output)
    from transformer_cli.translator import Options, Translator

    translator = Translator.load(*(run or ()), device=place.device)
    settings = search_settings(
        translator.run.config.decoding, overrides, beam_size=beam_size, n_best=n_best, max_tokens=max_tokens
    )
    settings = replace(settings, scores=as_json or n_best is not None)  # else only text is printed
    options = Options(
        keep_unk=keep_unk,
        on_error=on_error.value,
        keep_attention=attention is not None,
        prefix=as_text(prefix, "--prefix"),
    )
    render = _renderer(tokens=tokens, as_json=as_json, n_best=n_best)
    work = _Work(translator, options, settings, render)
    if not sentences and not input_file and not output and sys.stdin.isatty():
        answer_a_terminal(translator, options, settings, render)
    elif place.shard and input_file and output:
        form = "json" if as_json else "tokens" if tokens else "text"
        facts = facts_of(translator, options, settings, input_file, form=form, numbered=n_best is not None)
        translate_shard(place, input_file, output, facts, work.translate, chunk=CHUNK)
    else:
        name, lines = _named_lines(sentences, input_file)
        with opened(output) as out:
            work.translate(lines, name, out, n_lines=_n_lines(sentences, input_file), attention=attention)


@dataclass(frozen=True)
class _Work:
    """How lines become what is printed."""

    translator: "Translator"
    options: "Options"
    settings: "SearchSettings"
    render: Render

    def translate(
        self,
        lines: Iterable[str],
        name: str,
        out: TextIO,
        *,
        n_lines: int | None = None,
        first_line: int = 1,
        attention: Path | None = None,
    ) -> None:
        """Print the translations of lines.

        n_lines: how many there are, if that is known. first_line: the number of the first one. attention: where it is
        drawn.
        """
        with (
            _counting_long_lines(name, self.options.on_error) as long_lines,
            _progress(out, n_lines) as (chunk, done),
        ):
            stream = self.translator.stream(
                lines, self.options, self.settings, chunk=chunk, name=name, first_line=first_line, done=done
            )
            for number, translation in enumerate(stream, first_line):
                if translation.was_too_long:
                    long_lines.add(number)
                if attention:  # there is only one sentence
                    layer = self.translator.run.config.model.num_decoder_layers
                    _draw_cross_attention(translation, attention, layer=layer)
                print(self.render(number, translation), file=out)
                if number % CHUNK == 0:
                    out.flush()  # a program that has sent as many lines may wait for them


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


@contextmanager
def _progress(out: TextIO, n_lines: int | None) -> Iterator[tuple[int, Callable[[int], object]]]:
    """How many lines are translated together, and who is told of them: a bar, unless somebody sees the lines appear."""
    if out.isatty():
        terminal.note("translating")
        yield CHUNK_TO_WATCH, lambda n_lines: None
        return
    with progress.bar("translate", n_lines, " sentences") as bar:
        yield CHUNK, bar.update


def _n_lines(sentences: Sequence[str] | None, path: Path | None) -> int | None:
    """Returns how many sentences, or lines of the file, there are; None if that is not easily known."""
    from transformer_cli.data.lines import count_lines

    if sentences:
        return len(sentences)
    is_plain = path is not None and path.is_file() and stream_named(path) is None and path.suffix != ".gz"
    return count_lines(path) if path and is_plain else None


def _draw_cross_attention(translation: "Translation", path: Path, *, layer: int) -> None:
    from transformer_cli.inspection.numbers import cross_attention
    from transformer_cli.inspection.plots import draw_attention

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
def _counting_long_lines(name: str, on_error: str) -> Iterator[_LongLines]:
    """However the block ends, say at its end which lines were too long, if there were any."""
    found = _LongLines()
    try:
        yield found
    finally:
        if found.n_lines:
            log.warning("%s: %s", name, long_lines_as_text(found.n_lines, found.first, on_error))
