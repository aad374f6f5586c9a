"""What a run is and stays: run.json, which is written once, and the settings in config.yaml that must agree with it.

run.json has the format's version, an id by which the run's checkpoints and pointers know it, the settings that training
began with, what cut the training text, the sums of the codecs' files, and its own sum. Runs of format version 1 have
nothing but the version: what is theirs cannot be checked, and they are read with a note.

config.yaml may change: training rewrites it, and so may a user. Its last line is a comment with a sum, so that an
edited one is not damaged, but said to be edited.
"""

import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from transformer_cli.config.configfile import MOST_BYTES
from transformer_cli.config.load import dump_config, parse_config, settings_by_key
from transformer_cli.config.schema import Config
from transformer_cli.config.section import Shapes, keys_that_shape
from transformer_cli.config.yamltext import as_line
from transformer_cli.data.codec import codec_files
from transformer_cli.data.dataset import Dataset
from transformer_cli.errors import CheckpointError, FileError, MissingFile
from transformer_cli.system.files import write_text
from transformer_cli.system.reading import look_up, read_text, say_once
from transformer_cli.system.sums import check_file, file_sums, read_sealed, text_sum, write_sealed

EXPORTED = "export.json"  # what an exported run has in place of run.json (exported.py)
FORMAT_VERSION = 2
UNSUMMED = 1  # the version before: without an id and without sums
RESTORE = "restore it, or give `tfm train` --fresh to move this run aside and begin anew"
LASTING = keys_that_shape(Config, Shapes.DATASET, Shapes.CODEC, Shapes.MODEL, Shapes.TRAINING)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Identity:
    """What run.json says."""

    id: str = ""
    """16 hexadecimal digits; empty if the run is of format version 1, which has no id and no sums"""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """the settings that stay as they are, by their dotted keys"""
    tokenizer: Mapping[str, Any] = field(default_factory=dict)
    """what cut the training text, as the dataset's manifest says it: library, version"""
    files: Mapping[str, Any] = field(default_factory=dict)
    """the sums of the codecs' files"""

    def check_files(self, folder: Path) -> None:
        """Raises FileError unless the codecs' files in a folder are those of the run."""
        for name in self.files:
            check_file(folder / name, self.files)


def new_identity(folder: Path, config: Config, dataset: Dataset) -> Identity:
    """Returns the identity of a new run, whose codecs' files are in the folder."""
    made_by = dataset.manifest.get("tokenizer", {})
    tokenizer = {key: made_by[key] for key in ("library", "version") if key in made_by}
    return Identity(secrets.token_hex(8), lasting(config), tokenizer, file_sums(folder, codec_files(config.data)))


def write_identity(folder: Path, identity: Identity) -> None:
    """Write run.json, the last file of a new run."""
    write_sealed(folder / "run.json", {"format_version": FORMAT_VERSION, **asdict(identity)})


@contextmanager
def told_as_damage(path: Path) -> Iterator[None]:
    """What is wrong with what a run's file says, a FileError or a ValueError, becomes a CheckpointError with a remedy.

    path: what a ValueError is about; a FileError names its file.
    """
    try:
        yield
    except FileError as error:
        raise CheckpointError(f"{error}; {RESTORE}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged: {error}; {RESTORE}") from None


def read_identity(folder: Path) -> Identity:
    """Read run.json. Raises CheckpointError if it is missing, damaged, or of another format version."""
    path = folder / "run.json"
    with told_as_damage(path):
        try:
            value = read_sealed(path)
        except MissingFile:
            if (folder / EXPORTED).is_file():
                raise CheckpointError(
                    f"{folder}: an exported model, which translates and is judged, but cannot be trained or looked "
                    "into; name the run that it was made from"
                ) from None
            raise CheckpointError(f"{folder}: no run here (run.json is missing); `tfm train` makes one") from None
        version = look_up(value, "format_version", int)
        if version == UNSUMMED:
            say_once(log, f"{folder}: an older tfm began it, without sums of its files: damage may go unnoticed")
            return Identity()
        if version != FORMAT_VERSION:
            raise CheckpointError(
                f"{folder}: format version {version}, this tfm reads {UNSUMMED} and {FORMAT_VERSION}; train it again"
            )
        look_up(value, "sum", str)
        mappings = (look_up(value, key, dict) for key in ("settings", "tokenizer", "files"))
        return Identity(look_up(value, "id", str), *mappings)


def write_config(folder: Path, config: Config, identity: Identity) -> None:
    """Replace config.yaml."""
    text = dump_config(config)
    write_text(folder / "config.yaml", f"{text}{_signature(text, identity)}" if identity.id else text)


def read_config(folder: Path, identity: Identity) -> Config:
    """Read config.yaml. Says so if somebody has edited it.

    Raises ConfigError if it is no config, FileError if it is missing, empty, or has other lasting settings than the
    run.
    """
    path = folder / "config.yaml"
    text = read_text(path, most=MOST_BYTES)
    if not text.strip():
        raise FileError(f"{path}: empty")
    config = parse_config(text, path)
    if identity.id:
        now = lasting(config)
        if changed := [key for key in now if key in identity.settings and identity.settings[key] != now[key]]:
            shown = "; ".join(f"{key}: {as_line(identity.settings[key])} → {as_line(now[key])}" for key in changed)
            raise FileError(f"{path}: not the settings that the run was begun with ({shown}); put the old ones back")
        body, newline, last = text.rstrip("\n").rpartition("\n")
        if f"{last}\n" != _signature(f"{body}{newline}", identity):
            say_once(log, f"{path}: edited since tfm wrote it; its settings count as they are now")
    return config


def lasting(config: Config) -> dict[str, Any]:
    """Returns the settings that stay as they were when the run was begun: all but those that name places."""
    return {key: value for key, value in settings_by_key(config).items() if key in LASTING}


def _signature(text: str, identity: Identity) -> str:
    return f"# the sum of the lines above, as tfm wrote them: {text_sum(f'{identity.id} {text}')}\n"
