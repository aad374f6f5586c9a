"""`tfm export`: a run → a folder in CTranslate2's format."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from transformer_cli.commands import completion


def export(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="A run's name under runs/, or its folder.",
            show_default="the newest run",
            autocompletion=completion.runs,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The folder to make.",
            show_default="exports/RUN, or exports/RUN-int8 and so on",
        ),
    ] = None,
    quantization: Annotated[
        Literal["float32", "float16", "bfloat16", "int16", "int8"],
        typer.Option(
            "--quantization",
            "-q",
            help="How weights are kept; int8 is the smallest, and on CPUs with VNNI the fastest.",
        ),
    ] = "float32",
) -> None:
    """Write a run's best model in CTranslate2's format.

    It translates faster, with tfm or without it. Needs the extra `ctranslate2`. `--run DIR` opens the folder in
    translate, evaluate, score and serve (compare takes it as an argument), and its README.md shows how to use
    it from Python without tfm.
    """
    from transformer_cli.runs.run import find_run

    folder = find_run(run)
    from transformer_cli.runs.export import export  # imports torch

    print(export(folder, output, quantization=quantization).folder)
