"""A run's folder: how it is made, opened and found, its history, and which checkpoints are the best and the last.

runs/multi30k/
    run.json                        the format's version
    config.yaml                     the whole config, with the precision and the data's fingerprint that were chosen
    source.vocab.txt target.vocab.txt target.joins.json     the codecs: a copy of the dataset's (of subwords:
    source.subwords.model target.subwords.model)
    history.jsonl curves.png        one line per validation; the same as a picture
    tensorboard/                    the same as an event file, if the config says so
    evaluations.jsonl               what `tfm evaluate` found, one line per split and call (evaluation/record.py)
    checkpoints/step-0004540/       what was saved after step 4540 (see checkpoints.py)
    best  last                      text files that name a checkpoint
    average                         likewise, if training averages weights (see averages.py)
    unsaved                         exists until `last` is written for the first time: nothing has been saved yet
runs/latest                         a text file that names the newest run

Knows nothing of what a checkpoint holds.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformer_cli.config.data import DataConfig
from transformer_cli.config.load import dump_config, load_config
from transformer_cli.config.schema import Config
from transformer_cli.data.codec import Codecs
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.specials import PAD
from transformer_cli.errors import CheckpointError, ConfigError, TfmError
from transformer_cli.files import write_json, write_text
from transformer_cli.model.fast.dropout import FastDropout
from transformer_cli.model.initialization import UninitializedWeights
from transformer_cli.model.size import refuse_without_room
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
        """Make the folder of a new run, in which nothing has been saved yet (see `is_new`)."""
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
        """Open a run's folder. Raises CheckpointError if it is missing, damaged, or of another format version."""
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
        """Returns the untrained model, on the CPU; every call draws the same weights from the run's seed.

        Pretrained vectors are not in it yet. Torch's random state is left as it was; other devices' is not touched.
        Raises MemoryShortage, before anything is built, if the model is larger than the memory that is free.
        """
        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(self.config.training.seed)
            return self._make_model()

    def empty_model(self) -> Transformer:
        """Returns a model, on the CPU, whose weights are arbitrary until they are loaded. Draws no random numbers.

        Raises MemoryShortage as `new_model` does.
        """
        with UninitializedWeights():
            return self._make_model()

    def _make_model(self) -> Transformer:
        sizes = (len(self.codecs.source), len(self.codecs.target))
        refuse_without_room(self.config.model, sizes, whose=f"{self.folder}: ")
        model = Transformer(
            self.config.model,
            source_vocabulary=len(self.codecs.source),
            target_vocabulary=len(self.codecs.target),
            pad_id=PAD,
            dropout_class=FastDropout if self.config.training.fast else nn.Dropout,
        )
        for part in self.config.training.freeze:
            model.get_submodule(part).requires_grad_(False)
        return model

    def checkpoint(self, pointer: str) -> Path:
        """Returns the folder that `best` or `last` names. Raises CheckpointError if there is no such folder."""
        try:
            name = (self.folder / pointer).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            if pointer == "best" and self.history():
                raise lost(self.folder, pointer) from None
            raise CheckpointError(f"{self.folder}: no {pointer} checkpoint yet; let `tfm train` reach one") from None
        folder = self.folder / "checkpoints" / name
        if not name or not folder.is_dir():
            raise CheckpointError(f"{self.folder / pointer} names {name}, which is not in checkpoints/; {RESTORE}")
        return folder

    def has_checkpoint(self, pointer: str) -> bool:
        """Whether the file `best` or `last`, which names a checkpoint, exists."""
        return (self.folder / pointer).is_file()

    def history(self) -> list[dict[str, Any]]:
        """Returns the validations so far, oldest first. Raises CheckpointError if the file is missing or damaged."""
        path = self.folder / "history.jsonl"
        try:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: damaged: {error}; {RESTORE}") from None

    def write_history(self, entries: list[dict[str, Any]]) -> None:
        """Replace the whole history."""
        write_text(self.folder / "history.jsonl", "".join(f"{json.dumps(entry)}\n" for entry in entries))


def find_run(name: str | Path | None = None, runs_dir: Path = Path("runs")) -> Path:
    """Find a run by its name under runs_dir or by its path, or (None) the newest. Raises CheckpointError."""
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


def find_codec(data: DataConfig, runs_dir: Path = Path("runs")) -> Path | None:
    """Returns the folder of the run whose codecs `data.codec` wants, or None if it wants none.

    Raises CheckpointError if there is no such run, ConfigError if its codecs are not what `data` describes.
    """
    if data.codec is None:
        return None
    folder = find_run(data.codec, runs_dir)
    theirs, ours = (_about_codecs(each) for each in (Run.open(folder).config.data, data))
    both = [key for key in theirs if key in ours]  # words and subwords have keys of their own
    wrong = [f"{key} is {theirs[key]} there, not {ours[key]}" for key in both if theirs[key] != ours[key]]
    if wrong:
        raise ConfigError(
            f"data.codec: {data.codec}: its codecs are not what the config describes: {'; '.join(wrong)}; set the same"
        )
    return folder


def _about_codecs(data: DataConfig) -> dict[str, str]:
    """Returns the settings that shape codecs, as a user reads them."""
    common = {
        "data.source": data.source,
        "data.target": data.target,
        "data.tokens": data.tokens,
        "data.lowercase": str(data.lowercased).lower(),
        "data.joint_vocabulary": str(data.joint_vocabulary).lower(),
    }
    if data.tokens == "words":
        return {**common, "data.min_freq": str(data.min_freq)}
    return {
        **common,
        "data.subwords.size": str(data.subwords.size),
        "data.subwords.algorithm": data.subwords.algorithm,
    }


def is_new(folder: Path) -> bool:
    """Whether training may begin in a run's folder, because the folder is absent or nothing has been saved in it.

    Raises CheckpointError if something was saved but run.json or `last` is gone: then the run is damaged, not new.
    """
    saved = _saved(folder)
    if not saved or ((folder / UNSAVED).is_file() and not {"best", "last"} & set(saved)):
        return True  # never begun, or killed before the first save was complete
    for name in ("run.json", "last"):
        if not (folder / name).is_file():
            raise lost(folder, name)
    return False


def lost(folder: Path, name: str) -> CheckpointError:
    """Returns the error for a missing file of a trained run; it lists what is still there."""
    there = ", ".join(_saved(folder))
    return CheckpointError(f"{folder / name} is missing, but the run has been trained (it has {there}); {RESTORE}")


def _saved(folder: Path) -> list[str]:
    """Returns the names of what training has saved in a run's folder; [] if the run was never trained."""
    found = [name for name in ("last", "best", "average") if (folder / name).exists()]
    found += sorted(f"checkpoints/{path.name}" for path in (folder / "checkpoints").glob("[!.]*"))
    history = folder / "history.jsonl"
    return found + ["history.jsonl"] * (history.exists() and history.stat().st_size > 0)
