"""Lists the runs in runs/: their settings in short, how far they have come, and how good they are (`tfm runs`).

Imports no torch. Opens every run as the other commands do, and verifies the checksums of checkpoints, except of
runs in training. A run that the other commands would refuse is listed as broken.
"""

import logging
import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from transformer_cli.config.load import settings_by_key
from transformer_cli.config.schema import Affects, keys_affecting
from transformer_cli.config.yaml_text import inline_yaml
from transformer_cli.errors import CheckpointError, FileError, TfmError
from transformer_cli.runs import state as run_state
from transformer_cli.runs.finding import find_run
from transformer_cli.runs.folder import (
    POINTERS,
    as_checkpoint_error,
    is_exported,
    is_new,
    retry_if_moved,
    training_lock,
)
from transformer_cli.runs.provenance import SavedResult, last_result
from transformer_cli.runs.run import Run
from transformer_cli.system.files import folder_bytes, open_regular, verify_files
from transformer_cli.system.locks import is_locked
from transformer_cli.system.terminal import shorten

log = logging.getLogger(__name__)

# settings without influence on how good a run is
HIDDEN_SETTINGS = {"name", "data.fingerprint", *keys_affecting(Affects.LOCATION)} | {
    f"training.{each}" for each in ("num_threads", "save_minutes", "tensorboard")
}
SECTION_ORDER = ("training", "model", "data", "decoding")  # those whose differences matter most come first
MAX_LISTED_SETTINGS, MAX_VALUE_LENGTH = 4, 14


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A folder under runs/. Its fields are the keys of `tfm runs --json`; unknown ones are None."""

    name: str
    state: Literal["new", "training", "unfinished", "finished", "broken"] = "broken"
    """new: it has no checkpoint yet. training: a process is training it now"""
    problem: str | None = None
    """why it is broken, in one line"""
    newest: bool = False
    """whether commands without --run use it"""
    begun: str | None = None
    """when it was created (UTC, ISO 8601)"""
    saved: str | None = None
    """when its last checkpoint was written (likewise)"""
    corpus: str | None = None
    source: str | None = None
    target: str | None = None
    parameters: int | None = None
    """of the model, frozen ones included; shared ones count once"""
    epochs_done: int | None = None
    epochs: int | None = None
    """training.epochs"""
    steps_done: int | None = None
    steps: int | None = None
    """training.max_steps"""
    best_valid_loss: float | None = None
    """that of the best checkpoint, in nats per target token"""
    evaluation: SavedResult | None = None
    """the last evaluation, ensembles excluded"""
    evaluation_is_current: bool | None = None
    """whether it evaluated the checkpoint that is the best now"""
    resume: str | None = None
    """the command that resumes an unfinished run"""
    settings: Mapping[str, Any] | None = None
    """dotted key → value; JSON has those in which the runs of the folder differ"""
    provenance: Mapping[str, Any] | None = None
    """versions and hardware when it was created"""
    bytes: int = 0
    """size of its folder"""


def list_runs(runs_dir: Path = Path("runs")) -> list[ListedRun]:
    """Returns all runs in a folder, the last saved first, also damaged ones, but without exported models.

    Warns if `latest` names none of them. Raises OSError if the folder cannot be read.
    """
    entries = list(runs_dir.iterdir()) if runs_dir.exists() else []
    folders = [path for path in entries if not path.name.startswith(".") and path.is_dir() and not is_exported(path)]
    if not folders:
        log.info("%s/: no run yet; `tfm train` makes one", runs_dir)
    newest = None
    try:
        newest = find_run(None, runs_dir).name
    except CheckpointError as error:
        if folders:
            log.warning("%s", error)
    found = [_list_run(folder, is_newest=folder.name == newest) for folder in sorted(folders)]
    return sorted(found, key=lambda run: run.saved or run.begun or "", reverse=True)


def differing_settings(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the dotted keys of the settings in which runs differ, in SECTION_ORDER.

    runs: the settings of each run; {} if they are unknown, which then does not count as a difference.
    """
    keys = dict.fromkeys(key for settings in runs for key in settings if key not in HIDDEN_SETTINGS)
    differing = [key for key in keys if len({inline_yaml(settings.get(key)) for settings in runs if settings}) > 1]
    return sorted(differing, key=lambda key: SECTION_ORDER.index(key.partition(".")[0]))


def summarize_settings(runs: Sequence[Mapping[str, Any]], *, without: Collection[str] = ()) -> list[dict[str, str]]:
    """Returns for each run the first MAX_LISTED_SETTINGS settings in which they differ, such as {"seed": "1"}.

    Keys are without their section, unless that is ambiguous; long values are shortened. without: keys to leave out.
    """
    keys = [key for key in differing_settings(runs) if key not in without][:MAX_LISTED_SETTINGS]
    ends = [key.rpartition(".")[2] for key in keys]
    names = {key: end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)}
    return [
        {
            name: shorten(inline_yaml(run[key]), MAX_VALUE_LENGTH)
            for key, name in names.items()
            if run.get(key) is not None
        }
        for run in runs
    ]


def _list_run(folder: Path, *, is_newest: bool) -> ListedRun:
    fields: dict[str, Any] = {"bytes": folder_bytes(folder), "begun": _modified_at(folder / "run.json")}
    fields["saved"] = _modified_at(folder / "last")
    try:
        for each in _read_fields(folder):
            fields.update(each)
    except TfmError as error:
        fields.update(state="broken", problem=str(error))
    except OSError as error:
        fields.update(state="broken", problem=f"{error.filename or folder}: cannot be read: {error.strerror or error}")
    return ListedRun(name=folder.name, newest=is_newest, **fields)


def _read_fields(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield fields of a ListedRun. Raises TfmError or OSError at the first one that cannot be read."""
    run = Run.open(folder)
    data, training = run.config.data, run.config.training
    yield {"corpus": data.corpus, "source": data.source, "target": data.target}
    yield {"settings": settings_by_key(run.config), "provenance": run.metadata.provenance}
    yield {"epochs": training.epochs, "steps": training.max_steps}
    is_in_training = is_locked(training_lock(folder))
    if is_new(folder):
        yield {"state": "training" if is_in_training else "new", "epochs_done": 0, "steps_done": 0}
        return
    state = retry_if_moved(folder / "last", lambda: run_state.load_state(run.checkpoint("last")))
    yield {"epochs_done": state.epoch - 1, "steps_done": state.step}
    yield {"parameters": retry_if_moved(folder / "last", lambda: _count_parameters(run.checkpoint("last")))}
    if state.n_validations:
        yield {"best_valid_loss": retry_if_moved(folder / "best", lambda: _best_loss(run, state))}
    if result := last_result(folder):
        is_current = run.has_checkpoint("best") and result.checkpoint == run.best_checkpoint_name
        yield {"evaluation": result, "evaluation_is_current": is_current}
    if is_in_training:
        yield {"state": "training"}
        return
    retry_if_moved(folder / "last", lambda: _check_files(run))
    needs_final_weights = training.average_checkpoints or training.extra_valid
    if state.has_ended(training) and (not needs_final_weights or run_state.has_final_weights(run, state)):
        yield {"state": "finished"}
    else:
        words = ["tfm", "train", "--config", str(folder / "config.yaml")]
        words += [] if run.config.name == folder.name else ["--set", f"name={folder.name}"]
        yield {"state": "unfinished", "resume": shlex.join(words)}


def _count_parameters(checkpoint: Path) -> int | None:
    """Returns the number of parameters in a checkpoint, or None if their file is damaged (`_check_files` says so)."""
    from safetensors import SafetensorError, safe_open  # exported runs are used without it

    path = checkpoint / "model.safetensors"
    with suppress(SafetensorError, FileError), open_regular(path), safe_open(path, "numpy") as weights:
        return sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    return None


def _check_files(run: Run) -> None:
    """Verify the checksums of all checkpoints that pointers name. Raises CheckpointError."""
    checkpoints = dict.fromkeys(run.checkpoint(pointer) for pointer in POINTERS if run.has_checkpoint(pointer))
    with as_checkpoint_error():
        for checkpoint in checkpoints:
            verify_files(checkpoint)


def _best_loss(run: Run, state: run_state.TrainingState) -> float:
    average = run_state.load_average(run, "best")
    return average.valid_loss if average else run_state.best_of(run_state.read_validations(run, state)).valid_loss


def _modified_at(path: Path) -> str | None:
    """Returns when a file was last written (UTC, ISO 8601), or None if it does not exist."""
    with suppress(OSError):
        return datetime.fromtimestamp(path.stat().st_mtime, timezone.utc).isoformat(timespec="seconds")
    return None
