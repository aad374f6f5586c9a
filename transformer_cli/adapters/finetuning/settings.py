"""Default settings of finetuning: those of the initial run that must stay the same, and a low learning rate."""

from pathlib import Path
from typing import Any

from transformer_cli.config.schema import Affects, DataConfig, fields_affecting
from transformer_cli.runs.run import Run

DEFAULT_MAX_CHARS = 1_000  # of a side, about 250 subwords; for models without model.max_length
FINETUNING_PACE = {"learning_rate": 1e-4, "epochs": 3, "patience": 2}  # a higher rate, or more epochs, forgets more


def finetuning_settings(run: str, runs_dir: Path = Path("runs")) -> dict[str, Any]:
    """Returns default settings for a run that is initialised with the weights of `run`, as a tree.

    run: a name under runs_dir, or a folder. Raises CheckpointError if there is none.
    """
    config = Run.load(run, runs_dir).config
    fields = {**fields_affecting(DataConfig, Affects.CODEC), "to": True, "both_directions": True}
    data = config.data.model_dump(mode="json", include=fields)
    max_chars = {} if config.model.max_length else {"max_chars": DEFAULT_MAX_CHARS}
    return {
        "data": {**data, "tokenizer_from": run, "lowercase": config.data.lowercased, **max_chars},
        "model": config.model.model_dump(mode="json", exclude={"vectors"}),
        "decoding": config.decoding.model_dump(mode="json"),
        "training": {"initialize_from": run, **FINETUNING_PACE},
    }
