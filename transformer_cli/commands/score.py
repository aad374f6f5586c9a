"""`tfm score`: two files, line by line → the log-probability of each translation."""

import json
from dataclasses import asdict
from pathlib import Path

import typer

from transformer_cli.commands import options
from transformer_cli.system.files import STANDARD


def score(
    input_file: Path,
    target_file: Path,
    named: str | None = None,
    run: str | None = None,
    device: str = "auto",
    as_json: bool = False,
) -> None:
    """Print the log-probability and perplexity of given translations.

    One line for each pair of lines: log-probability (natural), target tokens with <eos>, and perplexity, separated by
    tabs.
    """
    if input_file == target_file == STANDARD:
        raise typer.BadParameter("only one of --input and --target can be standard input")
    folders = options.find_runs(named, run)
    options.check_text(input_file, target_file)
    from transformer_cli.evaluation.losses import perplexity_text
    from transformer_cli.evaluation.score import score_files
    from transformer_cli.translator import Translator

    for each in score_files(Translator.load(*folders, device=device), input_file, target_file):
        if as_json:
            print(json.dumps(asdict(each), ensure_ascii=False))
        else:
            print(f"{each.log_prob:.4f}\t{each.tokens}\t{perplexity_text(each.ppl, 4)}")
