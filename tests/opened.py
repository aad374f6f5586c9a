"""Runs opened to translate by the core alone."""

from transformer_cli.runs.run import Run
from transformer_cli.translate import Translator, open_models


def translator_of(*runs: Run) -> Translator:
    """What translates with the best weights of some runs together, on the CPU."""
    return Translator(runs, *open_models(runs, "cpu"))
