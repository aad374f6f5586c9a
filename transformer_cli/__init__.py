"""tfm: the Transformer of "Attention Is All You Need", trained, judged and run for translation.

Python offers the same functions as the command line. A name is imported when it is first used, and torch with it.
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it from typing, whose import is half of a command's first moment
if TYPE_CHECKING:
    from typing import Any

    from transformer_cli.config.load import load_config
    from transformer_cli.config.schema import Config, DecodingConfig
    from transformer_cli.data.prepare import prepare
    from transformer_cli.decoding.settings import SearchSettings
    from transformer_cli.errors import TfmError
    from transformer_cli.evaluation.compare import Terms, compare, compare_recipes
    from transformer_cli.evaluation.evaluate import evaluate
    from transformer_cli.evaluation.score import score_pairs
    from transformer_cli.inspection.numbers import Inspection, inspect_sentence
    from transformer_cli.runs.export import export
    from transformer_cli.training.trainer import train
    from transformer_cli.translator import Options, Translation, Translator

_HOME = {
    "Config": "config.schema",
    "DecodingConfig": "config.schema",
    "Inspection": "inspection.numbers",
    "Options": "translator",
    "SearchSettings": "decoding.settings",
    "Terms": "evaluation.compare",
    "TfmError": "errors",
    "Translation": "translator",
    "Translator": "translator",
    "compare": "evaluation.compare",
    "compare_recipes": "evaluation.compare",
    "evaluate": "evaluation.evaluate",
    "export": "runs.export",
    "inspect_sentence": "inspection.numbers",
    "load_config": "config.load",
    "prepare": "data.prepare",
    "score_pairs": "evaluation.score",
    "train": "training.trainer",
}

__all__ = [
    "Config",
    "DecodingConfig",
    "Inspection",
    "Options",
    "SearchSettings",
    "Terms",
    "TfmError",
    "Translation",
    "Translator",
    "compare",
    "compare_recipes",
    "evaluate",
    "export",
    "inspect_sentence",
    "load_config",
    "prepare",
    "score_pairs",
    "train",
]


def __getattr__(name: str) -> "Any":
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
