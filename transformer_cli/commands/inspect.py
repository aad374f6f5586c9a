"""`tfm inspect`: the attention weights of a sentence, by a model or by word vectors, as a picture, text or JSON."""

import json
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import typer

from transformer_cli.adapters.study.picture_files import picture_format
from transformer_cli.commands import options

LEGEND = "rows attend to columns; weights from  ░░ 0.05  ▒▒ 0.25  ▓▓ 0.50  ██ 0.75"
# the values of `--attention`, since typer does not support a list of literals
AttentionChoice = Enum("AttentionChoice", {"encoder": "encoder", "decoder": "decoder", "cross": "cross"})


def inspect(
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="The sentence to translate and inspect.")],
    run: options.OneRun = None,
    search: options.SearchOverrides = None,
    device: options.Device = "auto",
    output: Annotated[Path | None, options.Output(
        "--output", "-o", metavar="FILE", help="The picture to write: .svg, .pdf or .png.  [default: "
        "inspect.png]")] = None,
    kind: Annotated[list[AttentionChoice] | None, options.Output(
        "--attention", show_default="all", help="The attention to show: self-attention in the encoder or in the "
        "decoder, or cross-attention. Repeatable.")] = None,
    layer: Annotated[int | None, options.Output(
        "--layer", metavar="N", show_default="the last", help="The layer to show, counted from 1.")] = None,
    head: Annotated[list[int] | None, options.Output(
        "--head", metavar="N", show_default="every head", help="A head to show, counted from 1. Repeatable.")] = None,
    on_too_long: Annotated[Literal["stop", "truncate"], options.Input(
        "--on-too-long", help="What to do with a sentence that is too long: stop with an error, or truncate "
        "it.")] = "stop",
    vectors: Annotated[str | None, options.Vectors(
        "--vectors", metavar="FILE", help="A text file of word vectors, whose self-attention is shown; no model is "
        "used. The sentence is split at white space. A word without a vector gets that of its lower-case "
        "form.")] = None,
    query: Annotated[str | None, options.Vectors("--query", metavar="WORD", help="Show only this word's rows.")] = None,
    scale: Annotated[Literal["sqrt", "none"] | None, options.Vectors(
        "--scale", show_default="sqrt", help="Divide the scores by √dimension (sqrt), or not (none).")] = None,
    as_blocks: Annotated[bool, options.Output(
        "--text", help="Print the attention weights as text instead of drawing a picture.")] = False,
    as_json: Annotated[bool, options.Output(
        "--json", help="Print the attention weights, and the scores before softmax, as JSON instead of drawing a "
        "picture.")] = False,
) -> None:  # fmt: skip
    """Draw a sentence's attention weights and token vectors.

    The vectors are drawn before and after the encoder.
    """
    forms = {"--output": output, "--text": as_blocks, "--json": as_json}
    if len(chosen := [option for option, value in forms.items() if value]) > 1:
        raise typer.BadParameter(f"{' and '.join(chosen)} cannot be used together")
    picture = None if as_blocks or as_json else output or Path("inspect.png")
    if picture:
        picture_format(picture)
        options.check_writable(picture)
    sentence = options.require_utf8(sentence, "the sentence")
    if vectors is not None:
        model_options: dict[str, object] = {
            "--run": run,
            "--set": search,
            "--device": device != "auto",
            "--attention": kind,
            "--layer": layer is not None,
            "--head": head,
            "--on-too-long": on_too_long != "stop",
        }
        if given := [option for option, value in model_options.items() if value]:
            raise typer.BadParameter(f"--vectors uses no model, so it cannot be used with {', '.join(given)}")
        from transformer_cli.adapters.study.inspection import attend_over_words, shaded_table

        words = attend_over_words(sentence, vectors, is_scaled=scale != "none", query=query)
        if as_json:
            record = {name: getattr(words, name) for name in ("words", "without_vector", "queries")}
            record |= {name: getattr(words, name).tolist() for name in ("scores", "weights", "vectors")}
            record["context_vectors"] = words.context.tolist()
            print(json.dumps(record, ensure_ascii=False, allow_nan=False))
        elif picture is None:
            print(f"{LEGEND}\n\n{shaded_table('', words.queries, words.words, words.weights)}")
        else:
            from transformer_cli.adapters.study import plots

            with options.name_in_errors(picture):
                plots.save(plots.draw_words(words), picture)
            print(f"{words!r}\n{picture}")
        return
    if query is not None or scale:
        raise typer.BadParameter("--query and --scale need --vectors")
    (folder,) = options.find_runs(run)
    from transformer_cli.adapters.study.inspection import KINDS
    from transformer_cli.api import Translator, inspect_sentence

    translator = Translator(folder, device).with_options(*(search or ()), on_too_long=on_too_long)
    inspection = inspect_sentence(translator, sentence)
    kinds = [each for each in KINDS if not kind or AttentionChoice(each) in kind]
    maps = inspection.maps(kinds, layer=layer, heads=head or ())
    if as_json:
        print(json.dumps(inspection.as_record(maps), ensure_ascii=False, allow_nan=False))
    elif picture is None:
        print("\n\n".join([inspection.translation, LEGEND, *map(repr, maps)]))
    else:
        from transformer_cli.adapters.study import plots

        with options.name_in_errors(picture):
            plots.save(plots.draw_inspection(inspection, maps), picture)
        print(f"{inspection.translation}\n{picture}")
