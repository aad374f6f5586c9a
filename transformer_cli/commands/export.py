"""`tfm export`: a run → a folder in CTranslate2's format."""

from pathlib import Path
from typing import Literal

from transformer_cli.commands.options import find_runs, refuse_without_folder


def export(
    named: str | None = None,
    run: str | None = None,
    output: Path | None = None,
    quantization: Literal["float32", "float16", "bfloat16", "int16", "int8"] = "float32",
) -> None:
    """Write a run's best model in CTranslate2's format.

    It translates faster, with tfm or without it. Needs the extra `ctranslate2`. `--run DIR` opens the folder in
    translate, evaluate, score and serve (compare takes it as an argument), and its README.md shows how to use
    it from Python without tfm.
    """
    (folder,) = find_runs(named, run)
    if output and output.parent != Path("exports"):
        refuse_without_folder(output)
    from transformer_cli.runs.export import export  # imports torch

    print(export(folder, output, quantization=quantization).folder)
