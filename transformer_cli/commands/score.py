"""`tfm score`: two files, line by line → the log-probability of each translation."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from transformer_cli.commands import options
from transformer_cli.commands.options import a_file


def score(
    sentences: Annotated[Path, a_file("The sentences.", "--input", "-i")],
    target: Annotated[Path, a_file("Their translations, line by line.")],
    named: options.RunArgument = None,
    run: options.RunOption = None,
    device: options.DeviceOption = "auto",
    as_json: options.JsonLinesOption = False,
) -> None:
    """Print the log-probability and perplexity of given translations.

    One line for each pair of lines: log-probability (natural), target tokens with <eos>, and perplexity, separated by
    tabs.
    """
    folders = options.find_runs(named, run)
    options.check_text(sentences, target)
    from transformer_cli.evaluation.losses import perplexity_text
    from transformer_cli.evaluation.score import score_files
    from transformer_cli.translator import Translator

    for each in score_files(Translator.load(*folders, device=device), sentences, target):
        if as_json:
            print(json.dumps(asdict(each), ensure_ascii=False))
        else:
            print(f"{each.log_prob:.4f}\t{each.tokens}\t{perplexity_text(each.ppl, 4)}")
