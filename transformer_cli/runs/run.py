"""A run's folder: how it is made, opened and found, its history, and which checkpoints are the best and the last.

runs/multi30k/
    run.json                        what the run is and stays (see identity.py)
    config.yaml                     the whole config, with the precision and the data's fingerprint that were chosen
    source.vocab.txt target.vocab.txt target.joins.json     the codecs: a copy of the dataset's (of subwords:
    source.subwords.model target.subwords.model)
    history.jsonl curves.png        one line per validation; the same as a picture
    tensorboard/                    the same as an event file, if the config says so
    evaluations.jsonl               what `tfm evaluate` found, one line per split and call (evaluation/record.py)
    checkpoints/step-0004540/       what was saved after step 4540 (see checkpoints.py)
    best  last                      text files that name a checkpoint (see pointers.py)
    average                         likewise, if training averages weights (see averages.py)
    unsaved                         exists until `last` is written for the first time: nothing has been saved yet
runs/latest                         a text file that names the newest run

Knows nothing of what a checkpoint holds. Imports torch only where a model is made.
"""

import json
import os
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli.config.data import DataConfig
from transformer_cli.config.schema import Config
from transformer_cli.config.section import MOST_OF_A_NAME
from transformer_cli.config.yamltext import as_line
from transformer_cli.data.codec import Codecs
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.vocabulary import PAD
from transformer_cli.errors import CheckpointError, ConfigError, MissingFile, TfmError
from transformer_cli.model.size import refuse_without_room
from transformer_cli.runs.identity import (
    EXPORTED,
    RESTORE,
    new_identity,
    read_config,
    read_identity,
    write_config,
    write_identity,
)
from transformer_cli.runs.opened import Opened
from transformer_cli.runs.pointers import find_latest, known_runs, read_pointer, write_pointer
from transformer_cli.runs.seals import HISTORY, history_lines
from transformer_cli.system.files import write_text
from transformer_cli.system.reading import parse_json, shown

if TYPE_CHECKING:
    from transformer_cli.model.transformer import Transformer

UNSAVED = "unsaved"


@dataclass(frozen=True)
class Run(Opened):
    """An opened run. Everything that translation needs is in its folder."""

    @staticmethod
    def create(folder: Path, config: Config, dataset: Dataset) -> "Run":
        """Make the folder of a new run, in which nothing has been saved yet (see `is_new`)."""
        assert is_new(folder), folder
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / UNSAVED, "nothing has been saved yet\n")
        (folder / "run.json").unlink(missing_ok=True)  # of a run that was killed before its first save
        dataset.codecs.save(folder)
        write_text(folder / HISTORY, "")
        identity = new_identity(folder, config, dataset)
        write_config(folder, config, identity)
        write_identity(folder, identity)
        return Run.open(folder)

    @staticmethod
    def open(folder: Path) -> "Run":
        """Open a run's folder. Raises CheckpointError if it is missing, damaged, or of another format version."""
        identity = read_identity(folder)
        try:
            config = read_config(folder, identity)
            identity.check_files(folder)
            return Run(folder, config, Codecs.load(folder, config.data), identity)
        except TfmError as error:
            raise CheckpointError(f"{folder}: damaged run: {error}; {RESTORE}") from None

    def with_config(self, config: Config) -> "Run":
        """Returns the run with other settings, which are written to its folder."""
        write_config(self.folder, config, self.identity)
        return replace(self, config=config)

    @property
    def best_name(self) -> str:
        """See `Opened`."""
        return self.checkpoint("best").name

    def new_model(self) -> "Transformer":
        """Returns the untrained model, on the CPU; every call draws the same weights from the run's seed.

        Pretrained vectors are not in it yet. Torch's random state is left as it was; other devices' is not touched.
        Raises MemoryShortage, before anything is built, if the model is larger than the memory that is free.
        """
        import torch

        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(self.config.training.seed)
            return self._make_model()

    def empty_model(self) -> "Transformer":
        """Returns a model, on the CPU, whose weights are arbitrary until they are loaded. Draws no random numbers.

        Raises MemoryShortage as `new_model` does.
        """
        from transformer_cli.model.initialization import UninitializedWeights

        with UninitializedWeights():
            return self._make_model()

    def _make_model(self) -> "Transformer":
        sizes = (len(self.codecs.source), len(self.codecs.target))
        refuse_without_room(self.config.model, sizes, whose=f"{self.folder}: ")
        from torch import nn

        from transformer_cli.model.fast.dropout import FastDropout
        from transformer_cli.model.transformer import Transformer

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
        """Returns the folder that `best` or `last` names. Raises CheckpointError if that is no checkpoint."""
        try:
            return read_pointer(self.folder, pointer, self.identity.id)
        except MissingFile:
            if pointer == "best" and self.history():
                raise lost(self.folder, pointer) from None
            raise CheckpointError(f"{self.folder}: no {pointer} checkpoint yet; let `tfm train` reach one") from None

    def point(self, pointer: str, name: str) -> None:
        """Let `best`, `last` or `average` name a checkpoint that is there."""
        write_pointer(self.folder, pointer, name, self.identity.id)

    def has_checkpoint(self, pointer: str) -> bool:
        """Whether the file `best` or `last`, which names a checkpoint, exists."""
        return (self.folder / pointer).is_file()

    def history(self) -> list[dict[str, Any]]:
        """Returns the validations so far, oldest first. Raises CheckpointError if the file is missing or damaged."""
        found = []
        for number, line in enumerate(history_lines(self.folder), start=1):
            try:
                found.append(parse_json(line))
                if not isinstance(found[-1], dict):
                    raise ValueError(f"{shown(found[-1])} should be an object with keys")
            except ValueError as error:
                path = self.folder / HISTORY
                raise CheckpointError(f"{path}: damaged: line {number}: {error}; {RESTORE}") from None
        return found

    def write_history(self, entries: list[dict[str, Any]]) -> None:
        """Replace the whole history."""
        write_text(self.folder / HISTORY, "".join(f"{json.dumps(entry)}\n" for entry in entries))


def find_run(name: str | Path | None = None, runs_dir: Path = Path("runs")) -> Path:
    """Find a run by its name under runs_dir or by its path, or (None) the newest. Raises CheckpointError."""
    if name is None:
        folder = find_latest(runs_dir)
    else:
        folder = next((path for path in (runs_dir / name, Path(name)) if path.is_dir()), runs_dir / name)
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such run; {runs_dir}/ has {', '.join(known_runs(runs_dir)) or 'none'}")
    return folder


def free_name(folder: Path) -> str:
    """Returns a name that no run beside `folder` has: multi30k-2 for multi30k, or multi30k-3 if that is taken."""
    names = (f"{folder.name[: MOST_OF_A_NAME - len(str(number)) - 1]}-{number}" for number in count(2))
    return next(name for name in names if not folder.with_name(name).exists())


def find_codec(data: DataConfig, runs_dir: Path = Path("runs")) -> Path | None:
    """Returns the folder of the run whose codecs `data.codec` wants, or None if it wants none.

    Raises CheckpointError if there is no such run, ConfigError if its codecs are not what `data` describes.
    """
    if data.codec is None:
        return None
    folder = find_run(data.codec, runs_dir)
    run = Run.open(folder)
    theirs, ours = run.config.data.of_codecs, data.of_codecs
    differing = [key for key in theirs if key in ours and theirs[key] != ours[key]]  # each kind of tokens has own keys
    wrong = [f"{key} is {as_line(theirs[key])} there, not {as_line(ours[key])}" for key in differing]
    if wrong:
        raise ConfigError(
            f"data.codec: {data.codec}: its codecs are not what the config describes: {'; '.join(wrong)}; set the same"
        )
    run.say_other_tokenizer()
    return folder


def training_lock(folder: Path) -> Path:
    """Returns the file that is locked as long as a process trains the run in a folder, which may not be there yet.

    Of a link, it is that of the real folder: whoever trains it by another name trains the same run.
    """
    real = folder.resolve() if folder.is_symlink() else folder
    return real.with_name(f".{real.name}.lock")


def is_new(folder: Path) -> bool:
    """Whether training may begin in a run's folder, because the folder is absent or nothing has been saved in it.

    Raises CheckpointError if something was saved but run.json or `last` is gone: then the run is damaged, not new; and
    if the folder is an exported run's.
    """
    if (folder / EXPORTED).is_file():
        read_identity(folder)  # which says what the folder is
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
    found = [name for name in ("last", "best", "average") if os.path.lexists(folder / name)]
    found += sorted(f"checkpoints/{path.name}" for path in (folder / "checkpoints").glob("[!.]*"))
    history = folder / HISTORY
    return found + [HISTORY] * (history.exists() and history.stat().st_size > 0)
