"""`tfm inspect`: a sentence → its attention weights, of a model or of word vectors, as a picture, text or JSON."""

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from transformer_cli.adapters.study.picture_files import picture_format
from transformer_cli.commands import options

if TYPE_CHECKING:
    from transformer_cli.adapters.study.inspection import WordAttention

MEANING = "rows attend to columns; weights from  ░░ 0.05  ▒▒ 0.25  ▓▓ 0.50  ██ 0.75"


# the values that `--kind` accepts: typer knows no lists of literals
KindChoice = Enum("KindChoice", {"encoder": "encoder", "decoder": "decoder", "cross": "cross"})


def inspect(
    sentence: str,
    run: str | None = None,
    search: list[str] | None = None,
    device: str = "auto",
    output: Path | None = None,
    kind: list[KindChoice] | None = None,
    layer: int | None = None,
    head: list[int] | None = None,
    on_error: Literal["stop", "truncate"] = "stop",
    vectors: str | None = None,
    query: str | None = None,
    scale: Literal["sqrt", "none"] | None = None,
    as_blocks: bool = False,
    as_json: bool = False,
) -> None:
    """Draw a sentence's attention weights and token vectors. These are drawn before and after the encoder."""
    forms = {"--output": output, "--text": as_blocks, "--json": as_json}
    if len(chosen := [option for option, value in forms.items() if value]) > 1:
        raise typer.BadParameter(f"{' and '.join(chosen)} cannot be used together")
    picture = None if as_blocks or as_json else output or Path("inspect.png")
    if picture:
        picture_format(picture)
        options.refuse_unwritable(picture)
    sentence = options.as_text(sentence, "the sentence")
    if vectors is not None:
        of_a_model: dict[str, object] = {
            "--run": run,
            "--set": search,
            "--device": device != "auto",
            "--kind": kind,
            "--layer": layer is not None,
            "--head": head,
            "--on-error": on_error != "stop",
        }
        if given := [option for option, value in of_a_model.items() if value]:
            raise typer.BadParameter(f"--vectors uses no model, so it cannot be used together with {', '.join(given)}")
        from transformer_cli.adapters.study.inspection import attend_over_words, shaded

        words = attend_over_words(sentence, vectors, is_scaled=scale != "none", query=query)
        if as_json:
            print(words_as_json(words))
        elif picture is None:
            print(f"{MEANING}\n\n{shaded('', words.queries, words.words, words.weights)}")
        else:
            from transformer_cli.adapters.study import plots

            with options.writing(picture):
                plots.save(plots.draw_words(words), picture)
            print(f"{words!r}\n{picture}")
        return
    if query is not None or scale:
        raise typer.BadParameter("--query and --scale need --vectors")
    folders = options.find_runs(run)
    from transformer_cli.adapters.study.inspection import KINDS, inspect_sentence
    from transformer_cli.translate import Translator

    translator = Translator.load(*folders, device=device)
    translator = translator.with_options(*(search or ()), on_error=on_error)
    inspection = inspect_sentence(translator, sentence)
    maps = inspection.maps(
        [each for each in KINDS if not kind or KindChoice(each) in kind], layer=layer, heads=head or ()
    )
    if as_json:
        print(json.dumps(inspection.as_record(maps), ensure_ascii=False, allow_nan=False))
    elif picture is None:
        print("\n\n".join([inspection.translation, MEANING, *map(repr, maps)]))
    else:
        from transformer_cli.adapters.study import plots

        with options.writing(picture):
            plots.save(plots.draw_inspection(inspection, maps), picture)
        print(f"{inspection.translation}\n{picture}")


def words_as_json(found: "WordAttention") -> str:
    """Returns the attention of word vectors, tensors as nested lists."""
    fields = {
        "words": found.words,
        "without_vector": found.without_vector,
        "queries": found.queries,
        "scores": found.scores.tolist(),
        "weights": found.weights.tolist(),
        "vectors": found.vectors.tolist(),
        "context_vectors": found.context.tolist(),
    }
    return json.dumps(fields, ensure_ascii=False, allow_nan=False)
