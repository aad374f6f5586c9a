"""`tfm export`: a run → a folder in CTranslate2's format, or in that of Hugging Face's transformers."""

from pathlib import Path
from typing import Literal

import typer

from transformer_cli.commands.options import find_runs, refuse_without_folder


def export(
    named: str | None = None,
    run: str | None = None,
    output: Path | None = None,
    quantization: Literal["float32", "float16", "bfloat16", "int16", "int8"] = "float32",
    to: Literal["ctranslate2", "huggingface"] = "ctranslate2",
) -> None:
    """Write a run's best model for CTranslate2 or Hugging Face.

    In CTranslate2's it translates faster, with tfm or without it. Needs the extra `ctranslate2`. `--run DIR` opens the
    folder in translate, evaluate, score and serve (compare takes it as an argument), and its README.md shows how to use
    it from Python without tfm. With `--to huggingface`, transformers' MarianMTModel opens the folder.
    """
    (folder,) = find_runs(named, run)
    if output and output.parent != Path("exports"):
        refuse_without_folder(output)
    if to == "huggingface":
        if quantization != "float32":
            raise typer.BadParameter("--quantization is about CTranslate2's format; leave it out with --to huggingface")
        from transformer_cli.importing.exporting import export_to_hugging_face

        print(export_to_hugging_face(folder, output))
        return
    from transformer_cli.runs.export import export  # imports torch

    print(export(folder, output, quantization=quantization).folder)
