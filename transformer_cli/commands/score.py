"""`tfm score`: two files, line by line → the log-probability of each translation."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from transformer_cli.commands.options import (
    DeviceOption,
    JsonLinesOption,
    RunOption,
    file_of_lines,
    load_translator,
)


def score(
    input_file: Annotated[Path, file_of_lines("The sentences.", "--input", "-i")],
    target: Annotated[Path, file_of_lines("Their translations, line by line.")],
    run: RunOption = None,
    device: DeviceOption = "auto",
    as_json: JsonLinesOption = False,
) -> None:
    """Print the log-probability and perplexity of given translations.

    One line for each pair of lines: log-probability (natural), target tokens with <eos>, and perplexity, separated by
    tabs.
    """
    translator = load_translator([run], device)
    from transformer_cli.evaluation.losses import perplexity_text
    from transformer_cli.evaluation.score import score_files

    for each in score_files(translator, input_file, target):
        if as_json:
            print(json.dumps(asdict(each), ensure_ascii=False))
        else:
            print(f"{each.log_prob:.4f}\t{each.tokens}\t{perplexity_text(each.ppl, 4)}")
