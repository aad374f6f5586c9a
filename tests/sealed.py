"""What tests do to sums: make them right again after a change."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.runs.run import lasting, write_config
from transformer_cli.system.sums import file_sums, write_sealed

SEALS = ("manifest.json", "run.json", "sums.json")


def edit_sealed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what a file says that carries its own sum."""
    value = json.loads(path.read_text(encoding="utf-8"))
    value.pop("sum", None)
    change(value)
    write_sealed(path, value)


def reseal(folder: Path) -> None:
    """Let the sums of a dataset, a run or a checkpoint be those of its files as they are now."""
    (path,) = (folder / name for name in SEALS if (folder / name).exists())

    def sum_again(value: dict[str, Any]) -> None:
        value["files"] = file_sums(folder, [name for name in value["files"] if (folder / name).exists()])
        if path.name == "run.json":
            value["settings"] = lasting(load_config(folder / "config.yaml"))

    edit_sealed(path, sum_again)


def set_config(folder: Path, config: Config) -> None:
    """Let a run have other settings, as if it had been begun with them."""
    edit_sealed(folder / "run.json", lambda value: value.update(settings=lasting(config)))
    write_config(folder, config)
