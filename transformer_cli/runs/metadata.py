"""A run's metadata (run.json) and its config.yaml, whose fixed settings the metadata repeats."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from transformer_cli.config.load import MAX_CONFIG_BYTES, dump_config, from_json, parse_config, settings_by_key
from transformer_cli.config.schema import Affects, Config, keys_affecting
from transformer_cli.config.yaml_text import inline_yaml
from transformer_cli.errors import CheckpointError, FileError, MissingFile
from transformer_cli.runs.folder import EXPORTED_FILES, HISTORY, as_checkpoint_error, is_exported
from transformer_cli.system.files import read_text, read_verified_json, write_json, write_text
from transformer_cli.text.lengths import LengthBounds

FORMAT_VERSION = 7
FIXED_KEYS = keys_affecting(Affects.DATASET, Affects.CODEC, Affects.MODEL, Affects.TRAINING)


@dataclass(frozen=True)
class ExportInfo:
    """What an exported model was made from, and how."""

    run: str
    """the name of the run"""
    checkpoint: str
    """the name of the checkpoint"""
    quantization: str
    """the type of the weights: float32, float16, bfloat16, int16 or int8"""
    positions: int
    """the length limit of a sentence, <sos> and <eos> included"""
    written_by: str
    """the version of CTranslate2"""


@dataclass(frozen=True, kw_only=True)
class RunMetadata:
    """The content of run.json. It does not change once the run is created."""

    id: str
    """16 random hexadecimal digits; shared by the run and its exports"""
    settings: Mapping[str, Any]
    """dotted key → value, for the settings that must not change (`fixed_settings`)"""
    tokenizer: Mapping[str, Any]
    """library and version that tokenised the training text"""
    provenance: Mapping[str, Any]
    """versions and hardware when the run was created (provenance.py), and `sources`: SHA-256 of the original text"""
    lengths: Mapping[str, LengthBounds] = field(default_factory=dict)
    """target token, or "" for none → bounds of the lengths of its translations, by the training text"""
    exported: ExportInfo | None = None
    """only of an exported model"""


def write_metadata(folder: Path, metadata: RunMetadata) -> None:
    """Write run.json."""
    entries = {key: value for key, value in asdict(metadata).items() if value is not None}
    write_json(folder / "run.json", {"format_version": FORMAT_VERSION, **entries})


def read_metadata(folder: Path) -> RunMetadata:
    """Read run.json. Raises CheckpointError if it is missing, damaged or of another format version."""
    path = folder / "run.json"
    with as_checkpoint_error(folder if is_exported(folder) else None):
        try:
            value = read_verified_json(path)
        except MissingFile:
            if any(os.path.lexists(folder / name) for name in ("run.json", HISTORY, *EXPORTED_FILES)):
                raise
            raise CheckpointError(f"{folder}: no run here (run.json is missing); `tfm train` makes one") from None
        if (version := value.pop("format_version", None)) != FORMAT_VERSION:
            remedy = "export it again" if value.get("exported") else "use the tfm that trained it, or train it again"
            raise CheckpointError(f"{folder}: format version {version}, this tfm reads {FORMAT_VERSION}; {remedy}")
        return from_json(RunMetadata, value, path)


def write_config(folder: Path, config: Config) -> None:
    """Replace config.yaml."""
    write_text(folder / "config.yaml", dump_config(config))


def read_config(folder: Path, metadata: RunMetadata) -> Config:
    """Read config.yaml.

    Raises ConfigError if it is not a valid config, FileError if it is missing or fixed settings have been changed.
    """
    path = folder / "config.yaml"
    config = parse_config(read_text(path, max_bytes=MAX_CONFIG_BYTES), path)
    before, now = metadata.settings, fixed_settings(config)
    if changed := [key for key in now if key in before and before[key] != now[key]]:  # an older run lacks some
        lines = "; ".join(f"{key}: {inline_yaml(before.get(key))} → {inline_yaml(now[key])}" for key in changed)
        raise FileError(f"{path}: settings of the run have been changed ({lines}); put the old ones back")
    return config


def fixed_settings(config: Config) -> dict[str, Any]:
    """Returns the settings that must not change once a run is created, by their dotted keys.

    The end of training is among them if the learning rates depend on it.
    """
    settings, training = settings_by_key(config), config.training
    end = {"training.epochs": None, "training.max_steps": None, f"training.{training.end_key}": training.end[1]}
    fixed = {key: value for key, value in settings.items() if key in FIXED_KEYS}
    return fixed | end if training.needs_horizon else fixed
