"""A run's folder: how it is made, opened and found, its history, and which of its checkpoints is which.

runs/multi30k/
    run.json                        the format's version
    config.yaml                     the whole config; precision and the data's fingerprint resolved
    source.vocab.txt target.vocab.txt target.joins.json     the codecs: a copy of the dataset's
    history.jsonl curves.png        one line per validation; the same as a picture
    tensorboard/                    the same as an event file, where the config asks for it
    checkpoints/step-0004540/       what was saved after step 4540 (see checkpoints.py)
    best  last                      text files that name a checkpoint
    unsaved                         is there until `last` has been written once: nothing has been saved so far
runs/latest                         a text file that names the newest run

Knows nothing of what a checkpoint holds.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformer_cli.config.load import dump_config, load_config
from transformer_cli.config.schema import Config
from transformer_cli.data.codec import Codecs
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.vocabulary import PAD
from transformer_cli.errors import CheckpointError, TfmError
from transformer_cli.files import write_json, write_text
from transformer_cli.model.fast.dropout import FastDropout
from transformer_cli.model.initialization import UninitializedWeights
from transformer_cli.model.transformer import Transformer

FORMAT_VERSION = 1
UNSAVED = "unsaved"
RESTORE = "restore it, or give `tfm train` --fresh to move this run aside and begin anew"


@dataclass(frozen=True)
class Run:
    """An opened run. Everything that translation needs is in its folder."""

    folder: Path
    config: Config
    codecs: Codecs

    @staticmethod
    def create(folder: Path, config: Config, dataset: Dataset) -> "Run":
        """Make the folder of a run in which nothing has been saved yet (see `is_new`)."""
        assert is_new(folder), folder
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / UNSAVED, "nothing has been saved yet\n")
        dataset.codecs.save(folder)
        write_text(folder / "config.yaml", dump_config(config))
        write_text(folder / "history.jsonl", "")
        write_json(folder / "run.json", {"format_version": FORMAT_VERSION})
        return Run.open(folder)

    @staticmethod
    def open(folder: Path) -> "Run":
        """Raises CheckpointError if it is missing, damaged, or of another format version."""
        try:
            found = json.loads((folder / "run.json").read_text(encoding="utf-8"))["format_version"]
        except FileNotFoundError:
            raise CheckpointError(f"{folder}: no run here (run.json is missing); `tfm train` makes one") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{folder / 'run.json'}: damaged: {error}; {RESTORE}") from None
        if found != FORMAT_VERSION:
            raise CheckpointError(f"{folder}: format version {found}, this tfm reads {FORMAT_VERSION}; train it again")
        try:
            config = load_config(folder / "config.yaml")
            return Run(folder, config, Codecs.load(folder, config.data))
        except TfmError as error:
            raise CheckpointError(f"{folder}: damaged run: {error}; {RESTORE}") from None

    def new_model(self) -> Transformer:
        """The untrained model, on the CPU: every call draws the same weights from the run's seed.

        Pretrained vectors are not in it yet. Torch's random state is left as it was, that of other devices untouched.
        """
        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(self.config.training.seed)
            return self._make_model()

    def empty_model(self) -> Transformer:
        """The model before its weights are loaded, on the CPU; they hold anything. Draws nothing."""
        with UninitializedWeights():
            return self._make_model()

    def _make_model(self) -> Transformer:
        return Transformer(
            self.config.model,
            source_vocabulary=len(self.codecs.source),
            target_vocabulary=len(self.codecs.target),
            pad_id=PAD,
            dropout_class=FastDropout if self.config.training.fast else nn.Dropout,
        )

    def checkpoint(self, pointer: str) -> Path:
        """The folder that `best` or `last` names. Raises CheckpointError if there is none."""
        try:
            name = (self.folder / pointer).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            raise CheckpointError(f"{self.folder}: no {pointer} checkpoint yet; let `tfm train` reach one") from None
        folder = self.folder / "checkpoints" / name
        if not name or not folder.is_dir():
            raise CheckpointError(f"{self.folder / pointer} names {name}, which is not in checkpoints/; {RESTORE}")
        return folder

    def has_checkpoint(self, pointer: str) -> bool:
        """Whether `best` or `last` names one."""
        return (self.folder / pointer).is_file()

    def history(self) -> list[dict[str, Any]]:
        """The validations so far, oldest first. Raises CheckpointError if they are missing or damaged."""
        path = self.folder / "history.jsonl"
        try:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: damaged: {error}; {RESTORE}") from None

    def write_history(self, entries: list[dict[str, Any]]) -> None:
        """Replace the history, whole."""
        write_text(self.folder / "history.jsonl", "".join(f"{json.dumps(entry)}\n" for entry in entries))


def find_run(name: str | Path | None = None, runs_dir: Path = Path("runs")) -> Path:
    """The folder of a run: by its name under runs_dir, by its path, or (None) the newest. Raises CheckpointError."""
    if name is None:
        try:
            name = (runs_dir / "latest").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            raise CheckpointError(f"{runs_dir}/: no run yet; `tfm train` makes one (or name one with --run)") from None
        folder = runs_dir / name
    else:
        folder = next((path for path in (runs_dir / name, Path(name)) if path.is_dir()), runs_dir / name)
    if not folder.is_dir():
        known = sorted(path.parent.name for path in runs_dir.glob("*/run.json"))
        raise CheckpointError(f"{folder}: no such run; {runs_dir}/ has {', '.join(known) or 'none'}")
    return folder


def is_new(folder: Path) -> bool:
    """Whether training may begin in a run's folder, because it is absent or nothing has been saved in it.

    Raises CheckpointError if something was saved but run.json or `last` is gone: the run is damaged then, not new.
    """
    saved = _saved(folder)
    if not saved or ((folder / UNSAVED).is_file() and not {"best", "last"} & set(saved)):
        return True  # never begun, or killed before the first save was complete
    for name in ("run.json", "last"):
        if not (folder / name).is_file():
            raise lost(folder, name)
    return False


def lost(folder: Path, name: str) -> CheckpointError:
    """The error that a file of a trained run is gone; it lists what is still there."""
    there = ", ".join(_saved(folder))
    return CheckpointError(f"{folder / name} is missing, but the run has been trained (it has {there}); {RESTORE}")


def _saved(folder: Path) -> list[str]:
    """What training has saved in a run's folder: [] if it was never trained."""
    found = [name for name in ("last", "best") if (folder / name).exists()]
    found += sorted(f"checkpoints/{path.name}" for path in (folder / "checkpoints").glob("step-*"))
    history = folder / "history.jsonl"
    return found + ["history.jsonl"] * (history.exists() and history.stat().st_size > 0)
