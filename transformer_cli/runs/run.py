"""A run on disk: config, vocabularies, weights, training state, history. The one owner of safetensors; no pickle.

runs/multi30k/
    run.json                        the format's version
    config.yaml                     the whole config; precision and the data's fingerprint resolved
    source.vocab.txt target.vocab.txt target.joins.json     the codecs: a copy of the dataset's
    history.jsonl curves.png        a line a validation; the same as a picture
    tensorboard/                    the same as an event file, where the config asks for it
    checkpoints/step-0004540/       model.safetensors, state.safetensors (Adam's moments), state.json
    best  last                      text files that name a checkpoint
    unsaved                         until `last` is written for the first time: a kill before that loses nothing saved
runs/latest                         a text file that names the newest run
"""

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import Tensor, nn

from transformer_cli.config.load import dump_config, load_config
from transformer_cli.config.schema import Config
from transformer_cli.data.codec import Codecs
from transformer_cli.data.dataset import Dataset
from transformer_cli.data.vocabulary import PAD
from transformer_cli.errors import CheckpointError, TfmError
from transformer_cli.files import new_folder, sweep, write_json, write_text
from transformer_cli.model.fast.dropout import FastDropout
from transformer_cli.model.initialization import UninitializedWeights
from transformer_cli.model.transformer import Transformer

log = logging.getLogger(__name__)

FORMAT_VERSION = 1
UNSAVED = "unsaved"
RESTORE = "restore it, or give `tfm train` --fresh to move this run aside and begin anew"


@dataclass
class RunningLoss:
    """Sums over the steps since the last validation; those skipped for a gradient that is not finite are left out.

    The batches of a step (`training.accumulate`) and the parts of several processes count as one batch.
    """

    nll: float = 0.0
    target_tokens: int = 0
    batch_means: float = 0.0
    batches: int = 0
    skipped_steps: int = 0
    seconds: float = 0.0

    def add(self, nll: float, target_tokens: int) -> None:
        """One step: the sum of its losses, and of how many tokens it is."""
        self.nll += nll
        self.target_tokens += target_tokens
        self.batch_means += nll / target_tokens
        self.batches += 1


@dataclass
class TrainingState:
    """Where training stands; with the weights and Adam's moments all that is needed to go on exactly.

    Order of batches and dropout are functions of (seed, epoch) and (seed, step, rank): no random state is kept.
    """

    step: int = 0
    """optimiser steps so far"""
    epoch: int = 1
    """the epoch in progress, from 1"""
    batch: int = 0
    """batches of its plan that are done (a step may take several)"""
    best_valid_loss: float | None = None
    validations_since_best: int = 0
    running: RunningLoss = field(default_factory=RunningLoss)

    @property
    def is_best(self) -> bool:
        """Whether the last validation stands right before this state, and was the best so far."""
        return self.best_valid_loss is not None and self.batch == self.validations_since_best == 0

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "TrainingState":
        """The inverse of dataclasses.asdict."""
        return TrainingState(**{**value, "running": RunningLoss(**value["running"])})


@dataclass(frozen=True)
class Run:
    """An opened run. Everything that translation needs is in its folder."""

    folder: Path
    config: Config
    codecs: Codecs

    @staticmethod
    def create(folder: Path, config: Config, dataset: Dataset) -> "Run":
        """Make the folder of a run, or make it anew where `is_new`: nothing that was saved is in it."""
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

    def load_best(self, device: torch.device) -> Transformer:
        """The model of the best validation loss, in evaluation mode."""
        model = self.empty_model()
        _load_weights(model, self.checkpoint("best"))
        return model.to(device).eval()

    def load_last(self, model: Transformer, optimizer: torch.optim.Optimizer) -> TrainingState:
        """Put the last checkpoint's weights and moments in place; returns where training stood. Writes nothing."""
        folder = self.checkpoint("last")
        _load_weights(model, folder)
        state = self.read_state()
        try:
            moments = load_file(folder / "state.safetensors")
            for name, parameter in model.named_parameters() if moments else ():  # none before the first step
                optimizer.state[parameter] = {
                    key: moments[f"{key}.{name}"].to(parameter.device, copy=True)  # else it would stay mapped
                    for key in ("step", "exp_avg", "exp_avg_sq")
                }
        except (SafetensorError, OSError, KeyError) as error:
            raise _unreadable_state(folder, error) from None
        return state

    def read_state(self) -> TrainingState:
        """Where training stood at the last checkpoint. Raises CheckpointError."""
        folder = self.checkpoint("last")
        try:
            return TrainingState.from_json(json.loads((folder / "state.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _unreadable_state(folder, error) from None

    def check_saved(self) -> None:
        """Raises CheckpointError if what was saved has lost a part that training needs, or would delete, to go on."""
        state = self.read_state()
        found = sum(entry["step"] <= state.step for entry in self.history())
        if found < state.epoch - 1:  # an epoch ends with its validation
            path = self.folder / "history.jsonl"
            raise CheckpointError(f"{path}: damaged: {found} of {state.epoch - 1} validations; {RESTORE}")
        if state.epoch > 1 and not state.is_best:
            if not self.has_checkpoint("best"):
                raise _missing(self.folder, "best")
            self.checkpoint("best")

    def mend(self, state: TrainingState) -> None:
        """Finish a save that a kill cut off between its two pointers; state: of the last checkpoint."""
        if state.is_best:
            write_text(self.folder / "best", f"{self.checkpoint('last').name}\n")
            self._clean_up()

    def save(
        self, model: Transformer, optimizer: torch.optim.Optimizer, state: TrainingState, *, is_best: bool = False
    ) -> None:
        """Write a checkpoint, point `last` (and `best`) at it, delete those that nothing points to."""
        name = f"step-{state.step:07d}"
        checkpoints = self.folder / "checkpoints"
        self._clean_up()  # a kill may have left one of this name
        sweep(self.folder)
        with new_folder(checkpoints / name) as folder:
            save_model(model, str(folder / "model.safetensors"))
            save_file(_moments(model, optimizer), folder / "state.safetensors")
            write_json(folder / "state.json", asdict(state))
        write_text(self.folder / "last", f"{name}\n")
        (self.folder / UNSAVED).unlink(missing_ok=True)
        if is_best:
            write_text(self.folder / "best", f"{name}\n")
        for folder, reason in self._clean_up().items():
            log.warning("%s could not be deleted (%s); the next save tries again", folder, reason)

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

    def _clean_up(self) -> dict[Path, str]:
        """Delete the checkpoints that nothing points to. Returns those that could not be deleted, and why."""
        kept = {self.checkpoint(pointer) for pointer in ("best", "last") if self.has_checkpoint(pointer)}
        failed = {}
        for folder in (self.folder / "checkpoints").glob("step-*"):
            if folder not in kept:
                try:
                    shutil.rmtree(folder)
                except OSError as error:  # on NFS: a file that somebody has open
                    failed[folder] = error.strerror or str(error)
        return failed


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
    """Whether nothing has been saved in a run's folder, so that training may begin in it; the folder may be absent.

    Raises CheckpointError if something has, but `run.json` or `last` is gone: then the run is damaged, not new.
    """
    saved = _saved(folder)
    if not saved or ((folder / UNSAVED).is_file() and not {"best", "last"} & set(saved)):
        return True  # begun by nobody, or by somebody who was killed before the first save was complete
    for name in ("run.json", "last"):
        if not (folder / name).is_file():
            raise _missing(folder, name)
    return False


def _saved(folder: Path) -> list[str]:
    """What training has left in a run's folder: [] in one that it never came to."""
    found = [name for name in ("last", "best") if (folder / name).exists()]
    found += sorted(f"checkpoints/{path.name}" for path in (folder / "checkpoints").glob("step-*"))
    history = folder / "history.jsonl"
    return found + ["history.jsonl"] * (history.exists() and history.stat().st_size > 0)


def _missing(folder: Path, name: str) -> CheckpointError:
    there = ", ".join(_saved(folder))
    return CheckpointError(f"{folder / name} is missing, but the run has been trained (it has {there}); {RESTORE}")


def _unreadable_state(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{folder}: the training state cannot be read: {_one_line(error)}; {RESTORE}")


def _load_weights(model: Transformer, folder: Path) -> None:
    path = folder / "model.safetensors"
    try:
        load_model(model, path)
    except (SafetensorError, OSError, RuntimeError) as error:
        raise CheckpointError(f"{path}: weights that cannot be read: {_one_line(error)}; {RESTORE}") from None


def _moments(model: Transformer, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def _one_line(error: Exception) -> str:
    """torch says on further lines which weights do not fit; three will do."""
    return " ".join(" ".join(str(error).strip().split("\n")[:4]).split())
