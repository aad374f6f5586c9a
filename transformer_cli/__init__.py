"""tfm: the Transformer of "Attention Is All You Need", trained, judged and run for translation.

Python offers the same functions as the command line. A name is imported when it is first used, and torch with it.
"""

from importlib import import_module

from transformer_cli.errors import ArgumentError as ArgumentError
from transformer_cli.errors import CheckpointError as CheckpointError
from transformer_cli.errors import ConfigError as ConfigError
from transformer_cli.errors import DataError as DataError
from transformer_cli.errors import DeviceError as DeviceError
from transformer_cli.errors import DistributedError as DistributedError
from transformer_cli.errors import DownloadError as DownloadError
from transformer_cli.errors import Interrupted as Interrupted
from transformer_cli.errors import MemoryShortage as MemoryShortage
from transformer_cli.errors import TfmError as TfmError

TYPE_CHECKING = False  # as type checkers know it from typing, whose import is half of a command's first moment
if TYPE_CHECKING:
    from typing import Any

    from transformer_cli.config.load import load_config as load_config
    from transformer_cli.config.schema import Config as Config
    from transformer_cli.evaluation.compare import Conditions as Conditions
    from transformer_cli.evaluation.compare import compare as compare
    from transformer_cli.evaluation.compare import compare_recipes as compare_recipes
    from transformer_cli.evaluation.evaluate import evaluate as evaluate
    from transformer_cli.evaluation.score import score_pairs as score_pairs
    from transformer_cli.inspection.numbers import Inspection as Inspection
    from transformer_cli.inspection.numbers import inspect_sentence as inspect_sentence
    from transformer_cli.runs.export import export as export
    from transformer_cli.runs.prepare import prepare as prepare
    from transformer_cli.runs.run import Run as Run
    from transformer_cli.training.trainer import train as train
    from transformer_cli.translation import Translation as Translation
    from transformer_cli.translator import Translator as Translator

_HOME = {
    "Config": "config.schema",
    "Conditions": "evaluation.compare",
    "Inspection": "inspection.numbers",
    "Run": "runs.run",
    "Translation": "translation",
    "Translator": "translator",
    "compare": "evaluation.compare",
    "compare_recipes": "evaluation.compare",
    "evaluate": "evaluation.evaluate",
    "export": "runs.export",
    "inspect_sentence": "inspection.numbers",
    "load_config": "config.load",
    "prepare": "runs.prepare",
    "score_pairs": "evaluation.score",
    "train": "training.trainer",
}


def __getattr__(name: str) -> "Any":
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
