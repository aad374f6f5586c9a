"""`tfm inspect`: a sentence → its attention weights, of a model or of word vectors, as a picture, text or JSON."""

import shutil
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.commands.options import (
    DecodingSetOption,
    DeviceOption,
    RunOption,
    as_text,
    search_settings,
    writing,
)
from transformer_cli.inspection.picture_files import picture_format
from transformer_cli.output.inspections import inspection_as_json, words_as_json, words_as_table
from transformer_cli.output.maps import maps_as_blocks, words_as_blocks


class KindChoice(str, Enum):
    """The values that `tfm inspect --kind` accepts."""

    encoder = "encoder"
    decoder = "decoder"
    cross = "cross"


class OnErrorChoice(str, Enum):
    """The values that `tfm inspect --on-error` accepts: some of `tfm translate --on-error`."""

    stop = "stop"
    truncate = "truncate"


class ScaleChoice(str, Enum):
    """The values that `tfm inspect --scale` accepts."""

    sqrt = "sqrt"
    none = "none"


def inspect(
    sentence: Annotated[str, typer.Argument(help="The sentence to translate and look into.")],
    run: RunOption = None,
    overrides: DecodingSetOption = None,
    device: DeviceOption = "auto",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The .svg, .pdf or .png to write.", show_default="inspect.png"
        ),
    ] = None,
    kind: Annotated[
        list[KindChoice] | None,
        typer.Option(help="Self-attention of one stack, or attention between the two. Repeatable.", show_default="all"),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(metavar="N", help="Which layer, counted from 1.", show_default="the last")
    ] = None,
    head: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Which head, counted from 1. Repeatable.", show_default="every head"),
    ] = None,
    on_error: Annotated[
        OnErrorChoice,
        typer.Option(help="What becomes of a sentence that is too long: an error, or it is cut."),
    ] = OnErrorChoice.stop,
    vectors: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Use no model: show the attention of these word vectors over themselves. Give a file, or a name that "
            "gensim knows. Words are split at white space; each word gets the vector of its own spelling, or else the "
            "vector of its lower-case form.",
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="WORD", help="With --vectors: show only this word's rows.")
    ] = None,
    scale: Annotated[
        ScaleChoice | None,
        typer.Option(help="With --vectors: divide the scores by √dimension, or not.", show_default="sqrt"),
    ] = None,
    as_blocks: Annotated[
        bool, typer.Option("--text", help="Print the attention weights as blocks of text; no picture.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as JSON, with scores before softmax; no picture.")
    ] = False,
) -> None:
    """Draw a sentence's attention weights and token vectors. These are drawn before and after the encoder."""
    picture = _picture(output, as_blocks=as_blocks, as_json=as_json)
    sentence = as_text(sentence, "the sentence")
    if vectors is not None:
        of_a_model: dict[str, object] = {
            "--run": run,
            "--set": overrides,
            "--device": device != "auto",
            "--kind": kind,
            "--layer": layer is not None,
            "--head": head,
            "--on-error": on_error is not OnErrorChoice.stop,
        }
        if given := [option for option, value in of_a_model.items() if value]:
            raise typer.BadParameter(f"--vectors uses no model, so it cannot be used together with {', '.join(given)}")
        _inspect_words(sentence, vectors, query, scale is not ScaleChoice.none, picture, as_json)
        return
    if query is not None or scale:
        raise typer.BadParameter("--query and --scale need --vectors")
    from transformer_cli.inspection.numbers import KINDS, inspect_sentence
    from transformer_cli.translator import Options, Translator

    translator = Translator.load(run, device=device)
    settings = search_settings(translator.run.config.decoding, overrides)
    inspection = inspect_sentence(translator, sentence, Options(on_error=on_error.value), settings)
    kinds = [each for each in KINDS if not kind or KindChoice(each) in kind]
    maps = inspection.maps(kinds, layer=layer, heads=head or ())
    if as_json:
        print(inspection_as_json(inspection, maps))
        return
    if picture is None:
        print(f"{inspection.translation}\n\n{maps_as_blocks(maps, width=shutil.get_terminal_size().columns)}")
        return
    from transformer_cli.inspection.plots import draw_inspection

    with writing(picture):
        draw_inspection(inspection, maps, picture)
    print(f"{inspection.translation}\n{picture}")


def _picture(output: Path | None, *, as_blocks: bool, as_json: bool) -> Path | None:
    """Returns the picture to write, or None to print text or JSON instead.

    Raises BadParameter if that is not clear, and DataError if the file's name is not a picture's.
    """
    forms = {"--output": output, "--text": as_blocks, "--json": as_json}
    if len(chosen := [option for option, value in forms.items() if value]) > 1:
        raise typer.BadParameter(f"{' and '.join(chosen)} cannot be used together")
    if as_blocks or as_json:
        return None
    picture = output or Path("inspect.png")
    picture_format(picture)
    return picture


def _inspect_words(
    sentence: str, vectors: str, query: str | None, is_scaled: bool, picture: Path | None, as_json: bool
) -> None:
    """picture: the file to write, or None to print text or JSON instead."""
    from transformer_cli.inspection.numbers import attend_over_words

    found = attend_over_words(sentence, vectors, is_scaled=is_scaled, query=query)
    if as_json:
        print(words_as_json(found))
        return
    if picture is None:
        print(words_as_blocks(found, width=shutil.get_terminal_size().columns))
        return
    from transformer_cli.inspection.plots import draw_words

    with writing(picture):
        draw_words(found, picture)
    print(f"{words_as_table(found)}\n{picture}")
