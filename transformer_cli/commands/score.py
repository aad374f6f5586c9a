"""`tfm score`: two files, line by line → how likely a run finds each translation."""

from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.commands.options import DeviceOption, RunOption, dash_as_input
from transformer_cli.output.results import line_score_as_json


def score(
    input_file: Annotated[
        Path, typer.Option("--input", "-i", metavar="FILE", help="The sentences.", callback=dash_as_input)
    ],
    target: Annotated[
        Path, typer.Option(metavar="FILE", help="Their translations, line by line.", callback=dash_as_input)
    ],
    run: RunOption = None,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Print how likely a run finds given translations.

    One line for each pair of lines: log-probability (natural), target tokens with <eos>, and perplexity, separated by
    tabs.
    """
    from transformer_cli.evaluation.score import score_files
    from transformer_cli.translator import Translator

    for each in score_files(Translator.load(run, device=device), input_file, target):
        print(line_score_as_json(each) if as_json else f"{each.log_prob:.4f}\t{each.tokens}\t{each.ppl:.4f}")
