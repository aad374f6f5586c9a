"""What tests do to files that have sums: damage them, or change them and make the sums right again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformer_cli.config.load import load_config
from transformer_cli.config.schema import Config
from transformer_cli.runs.metadata import fixed_settings, write_config
from transformer_cli.system.files import read_checksums, write_checksums


def flip(path: Path) -> None:
    """Damage a file: one of its bits is another."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def edit_sealed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what a JSON file says that has a sum."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
    write_checksums(path.parent, read_checksums(path.parent))


def reseal(folder: Path) -> None:
    """Let the sums of a dataset, a run or a checkpoint be those of its files as they are now."""
    if (folder / "run.json").exists():
        config = load_config(folder / "config.yaml")
        edit_sealed(folder / "run.json", lambda value: value.update(settings=fixed_settings(config)))
    write_checksums(folder, read_checksums(folder))


def set_config(folder: Path, config: Config) -> None:
    """Let a run have other settings, as if it had been begun with them."""
    edit_sealed(folder / "run.json", lambda value: value.update(settings=fixed_settings(config)))
    write_config(folder, config)
