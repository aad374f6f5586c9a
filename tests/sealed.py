"""What tests do to sums: make them right again after a change, or take them away, as older versions had none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.runs.identity import lasting, read_identity, write_config
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


def make_older(folder: Path) -> None:
    """Make a dataset or a run as an older version wrote it.

    That is without sums, with bare names in pointers, and without the steps that were skipped in a row.
    """
    if (folder / "manifest.json").exists():
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        rest = {key: value for key, value in manifest.items() if key not in ("sum", "files")}
        (folder / "manifest.json").write_text(json.dumps(rest), encoding="utf-8")
        return
    (folder / "run.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    for sums in folder.glob("checkpoints/*/sums.json"):
        sums.unlink()
    for path in folder.glob("checkpoints/*/state.json"):
        state = json.loads(path.read_text(encoding="utf-8"))
        del state["skipped_in_a_row"]
        path.write_text(json.dumps(state), encoding="utf-8")
    for pointer in ("best", "last", "average"):
        if (folder / pointer).exists():
            name = (folder / pointer).read_text(encoding="utf-8").split()[0]
            (folder / pointer).write_text(f"{name}\n", encoding="utf-8")


def set_config(folder: Path, config: Config) -> None:
    """Let a run have other settings, as if it had been begun with them."""
    edit_sealed(folder / "run.json", lambda value: value.update(settings=lasting(config)))
    write_config(folder, config, read_identity(folder))
