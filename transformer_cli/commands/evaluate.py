"""`tfm evaluate`: a run → its losses and scores on a split, or on two files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.commands import completion
from transformer_cli.commands.options import (
    BeamSizeOption,
    DecodingSetOption,
    DeviceOption,
    JsonOption,
    LowercaseOption,
    RunsOption,
    dash_as_input,
    dash_as_output,
    search_settings,
    unwritable,
    writing,
)
from transformer_cli.output.results import results_as_json, results_as_table

if TYPE_CHECKING:
    from transformer_cli.evaluation.evaluate import Judged


def evaluate(
    run: RunsOption = None,
    overrides: DecodingSetOption = None,
    beam_size: BeamSizeOption = None,
    split: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPLIT",
            help="valid, train or a test set. Repeatable.",
            show_default="every test set",
            autocompletion=completion.splits,
        ),
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Evaluate on your own sentences, with --reference.",
            callback=dash_as_input,
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The reference translations of the --input file.", callback=dash_as_input),
    ] = None,
    lowercase: LowercaseOption = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the translations, one per line.", callback=dash_as_output),
    ] = None,
    output_tokens: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the decoder's tokens, one sentence per line.", callback=dash_as_output),
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Print loss, perplexity, BLEU and chrF of a run. Several runs are judged together, as an ensemble."""
    if (input_file is None) != (reference is None):
        raise typer.BadParameter("--input and --reference need each other")
    if input_file and split:
        raise typer.BadParameter("--split and --input cannot be used together")
    for path in (output, output_tokens):
        if path and path.is_dir():
            raise unwritable(path, "it is a folder")
    from transformer_cli.evaluation.evaluate import evaluate
    from transformer_cli.runs.exported import open_any
    from transformer_cli.runs.run import find_run

    files = (input_file, reference) if input_file and reference else None
    folder, *others = map(find_run, run) if run else [find_run()]
    settings = search_settings(open_any(folder).config.decoding, overrides, beam_size=beam_size)
    found = evaluate(
        folder,
        others=others,
        splits=split or (),
        files=files,
        device=device,
        settings=settings,
        lowercase=lowercase,
    )
    judged = list(found)
    results = [each.result for each in judged]
    print(results_as_json(folder, results, others) if as_json else results_as_table(results))
    _keep(judged, output, output_tokens)


def _keep(judged: Sequence["Judged"], output: Path | None, output_tokens: Path | None) -> None:
    """Write translations and tokens, one line per sentence, one split after the other."""
    from transformer_cli.system.files import write_text

    translations = [translation for each in judged for translation in each.translations]
    texts = "".join(f"{translation.text}\n" for translation in translations)
    tokens = "".join(f"{' '.join(translation.tokens)}\n" for translation in translations)
    for path, content in ((output, texts), (output_tokens, tokens)):
        if path:
            with writing(path):
                write_text(path, content)
