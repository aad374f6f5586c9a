"""`tfm import`: a translator that Marian or Hugging Face's transformers wrote → a run."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from transformer_cli.commands.options import option


def import_run(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A folder as Marian wrote it (.npz, with .spm or .yml), or as Hugging Face has it (config.json).",
        ),
    ],
    name: Annotated[str | None, option("What the run is called.", metavar="NAME", show_default="FOLDER's")] = None,
    positions: Annotated[
        Literal["marian", "sinusoidal"] | None,
        option(
            "Which sines and cosines are computed: those of Marian, which trained the model, or those of "
            "transformers, which hardly change translations, but do change scores.",
            show_default="those of the program that wrote the folder",
        ),
    ] = None,
    source: Annotated[
        str | None, option("The language of the source.", metavar="CODE", show_default="as the files say")
    ] = None,
    target: Annotated[
        str | None, option("The language of the target.", metavar="CODE", show_default="as the files say")
    ] = None,
) -> None:
    """Make a run of a translator of Marian's, such as OPUS-MT's.

    Every command takes the run: translate, evaluate, compare, inspect, serve, export; `--like` and `--from` teach it
    your own text.
    """
    from transformer_cli.importing.importing import import_run

    print(import_run(folder, name=name, positions=positions, source=source, target=target).folder)
