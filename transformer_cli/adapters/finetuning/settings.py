"""Settings of a run that begins with the weights of another one: what both must share, and a slow pace."""

from pathlib import Path
from typing import Any

from transformer_cli.config.schema import Affects, DataConfig, fields_affecting
from transformer_cli.runs.run import Run

DEFAULT_MAX_CHARS = 1_000  # characters of a side that a model without a last position is taught: some 250 pieces
FINETUNING_PACE = {"learning_rate": 1e-4, "epochs": 3, "patience": 2}  # faster forgets more


def finetuning_settings(run: str, runs_dir: Path = Path("runs")) -> dict[str, Any]:
    """Returns the settings that a run which begins with the weights of `run` must share with it, and its pace: a tree.

    run: a name under runs_dir, or a folder. Raises CheckpointError if there is none.
    """
    config = Run.load(run, runs_dir).config
    data = config.data.model_dump(mode="json", include=fields_affecting(DataConfig, Affects.CODEC))
    max_chars = {} if config.model.max_length else {"max_chars": DEFAULT_MAX_CHARS}
    return {
        "data": {**data, "tokenizer_from": run, "lowercase": config.data.lowercased, "to": config.data.to, **max_chars},
        "model": config.model.model_dump(mode="json", exclude={"vectors"}),
        "decoding": config.decoding.model_dump(mode="json"),
        "training": {"initialize_from": run, **FINETUNING_PACE},
    }
