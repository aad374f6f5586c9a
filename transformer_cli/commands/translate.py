"""`tfm translate`: sentences from arguments, a file, a pipe or a terminal → one line of output for each."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.commands.options import (
    BeamSizeOption,
    DecodingSetOption,
    DeviceOption,
    RunsOption,
    TruncateOption,
    search_settings,
    writing,
)
from transformer_cli.decoding.limits import DEFAULT_LIMIT
from transformer_cli.errors import DataError
from transformer_cli.output import translation_as_json

if TYPE_CHECKING:
    from transformer_cli.decoding.settings import SearchSettings
    from transformer_cli.translator import Options, Translation, Translator

CHUNK = 1000  # lines that are read before they are translated together

Render = Callable[[int, "Translation"], str]
"""The number of a line and its translation → what is printed"""

log = logging.getLogger(__name__)


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
    truncate: TruncateOption = False,
    keep_unk: Annotated[
        bool,
        typer.Option(
            "--keep-unk", help="Keep <unk>, instead of replacing it by the source word that is attended to most."
        ),
    ] = False,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print the decoder's tokens instead of text.")] = False,
    attention: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw what the translation of one sentence attends to, as a PNG."),
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
    from transformer_cli.translator import Options, Translator

    translator = Translator.load(*(run or ()), device=device)
    settings = search_settings(
        translator.run.config.decoding, overrides, beam_size=beam_size, n_best=n_best, max_tokens=max_tokens
    )
    options = Options(keep_unk=keep_unk, truncate=truncate, prefix=prefix, keep_attention=attention is not None)
    render = _renderer(tokens=tokens, as_json=as_json, n_best=n_best)
    if not sentences and not input_file and sys.stdin.isatty():
        _answer_a_terminal(translator, options, settings, render)
        return
    lines = _lines(sentences, input_file)
    for number, translation in enumerate(translator.stream(lines, options, settings, chunk=CHUNK), start=1):
        if attention:  # there is only one sentence: several were refused above
            _draw_cross_attention(translation, attention, layer=translator.run.config.model.num_decoder_layers)
        print(render(number, translation))
        if number % CHUNK == 0:
            sys.stdout.flush()  # a program that has sent as many lines may wait for them


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
    print("Type one sentence per line; Ctrl-D ends.", file=sys.stderr)
    for number, line in enumerate(_lines(None, None), start=1):
        try:
            (translation,) = translator.translations([line], options, settings, first_line=number)
        except DataError as error:  # one sentence too long is no reason to leave
            print(f"tfm: error: {error}", file=sys.stderr)
        else:
            print(render(number, translation), flush=True)


def _draw_cross_attention(translation: "Translation", path: Path, *, layer: int) -> None:
    from transformer_cli.inspection import cross_attention
    from transformer_cli.plots import draw_attention

    maps = cross_attention(translation, layer=layer)
    with writing(path):
        draw_attention(maps, path)
    log.info("%s: what each position of the translation attends to", path)


def _lines(sentences: Sequence[str] | None, path: Path | None) -> Iterable[str]:
    """The sentences given as arguments, else the lines of the file, else those of standard input."""
    from transformer_cli.data.lines import decode_line, read_lines

    def standard_input() -> Iterator[str]:
        try:
            for number, line in enumerate(sys.stdin.buffer, start=1):
                yield decode_line(line, "standard input", number)
        except OSError as error:  # closed by `<&-`, or a folder
            raise DataError(
                f"standard input: cannot be read: {error.strerror}; give sentences, --input, or a pipe"
            ) from None

    if sentences:
        return [decode_line(os.fsencode(text), "argument", number) for number, text in enumerate(sentences, start=1)]
    return read_lines(path) if path else standard_input()
