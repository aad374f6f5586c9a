"""tfm: train, evaluate and run the Transformer of "Attention Is All You Need" for translation.

The functions are those of the command line. A name is imported, and torch with it, when it is first used.
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

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    from typing import Any

    from transformer_cli.adapters.interop.to_ctranslate2 import export
    from transformer_cli.adapters.interop.to_hugging_face import export_to_hugging_face
    from transformer_cli.adapters.study.compare import CompareOptions
    from transformer_cli.adapters.study.inspection import Inspection
    from transformer_cli.api import (
        Translator,
        compare,
        compare_groups,
        evaluate,
        inspect_sentence,
        prepare,
        score_pairs,
        train,
    )
    from transformer_cli.config.load import load_config
    from transformer_cli.config.schema import Config
    from transformer_cli.model.transformer import Transformer
    from transformer_cli.pipeline import Translation
    from transformer_cli.runs.run import Run
    from transformer_cli.training.callbacks import Callback

__all__ = [
    "ArgumentError", "Callback", "CheckpointError", "CompareOptions", "Config", "ConfigError", "DataError",
    "DeviceError", "DistributedError", "DownloadError", "Inspection", "Interrupted", "MemoryShortage", "Run",
    "TfmError", "Transformer", "Translation", "Translator", "compare", "compare_groups", "evaluate", "export",
    "export_to_hugging_face", "inspect_sentence", "load_config", "prepare", "score_pairs", "train",
]  # fmt: skip
_HOME = {
    "Callback": "training.callbacks",
    "Config": "config.schema",
    "CompareOptions": "adapters.study.compare",
    "Inspection": "adapters.study.inspection",
    "Run": "runs.run",
    "Transformer": "model.transformer",
    "Translation": "pipeline",
    "Translator": "api",
    "compare": "api",
    "compare_groups": "api",
    "evaluate": "api",
    "export": "adapters.interop.to_ctranslate2",
    "export_to_hugging_face": "adapters.interop.to_hugging_face",
    "inspect_sentence": "api",
    "load_config": "config.load",
    "prepare": "api",
    "score_pairs": "api",
    "train": "api",
}


def __getattr__(name: str) -> "Any":
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
