"""Checkpoints: the weights, the optimiser's moments and the state of training, to resume from; and averaged weights.

checkpoints/step-0004540/           with "-unvalidated" if steps have been taken since the last validation
    model.safetensors               the weights
    state.safetensors               the optimiser's moments, under the names of the weights, and frozen rows
    state.json                      the TrainingState
    loss-check.json                 the ids and losses of a few validation pairs; other losses reveal changed code
    SHA256SUMS                      the checksums of these files
with `training.average_checkpoints: 5` (section 6.1) also
checkpoints/validation-0010/        the weights of each of the last 5 validations, and SHA256SUMS
checkpoints/average-0004540/        their mean, made at the end of training, after step 4540
    model.safetensors average.json loss-check.json SHA256SUMS
with `training.extra_valid` also
checkpoints/validation-0001/        the initial weights
checkpoints/validation-0003/        the weights of the best validation since then
checkpoints/average-0004540/        an interpolation of both

`best` points to the checkpoint with the best validation; with `training.extra_valid`, to the interpolation. Weights are
in safetensors, not pickle, so loading them runs no foreign code. Does not know how steps or validations are computed.
"""

import json
import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file
from torch import Tensor

from transformer_cli.compute.devices import catch_oom
from transformer_cli.errors import CheckpointError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.finding import write_latest
from transformer_cli.runs.folder import (
    CHECKPOINT,
    IF_MISSING,
    POINTERS,
    RESTORE_HINT,
    as_checkpoint_error,
    retry_if_moved,
)
from transformer_cli.runs.provenance import PER_CALL_KEYS
from transformer_cli.runs.run import Run
from transformer_cli.runs.state import (
    LOSS_CHECK,
    Average,
    TrainingState,
    best_pointer,
    first_history_lines,
    load_average,
    load_state,
)
from transformer_cli.system import files

WEIGHTS = "model.safetensors"
VALIDATION_NAME = re.compile(r"validation-(\d{4}|[1-9]\d{4,})")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """Everything that training starts from, on the CPU: loaded from disk, or a new model."""

    model: Transformer
    moments: dict[str, Tensor] = field(default_factory=dict)
    """state of the optimiser, as in state.safetensors: {"exp_avg.encoder.layers.0…": …}; {} before the first step"""
    state: TrainingState = field(default_factory=TrainingState)


def load_best(run: Run, device: torch.device) -> tuple[str, Transformer]:
    """Load the checkpoint that translates, as a rule the best: returns its name, and the model in evaluation mode.

    Raises CheckpointError, MemoryShortage.
    """

    def load() -> tuple[str, Transformer]:
        checkpoint = run.checkpoint(run.pointer)
        return checkpoint.name, load_weights(run, checkpoint)

    name, model = retry_if_moved(run.folder / run.pointer, load)
    with catch_oom(lambda: f"{run.folder}: its model does not fit in the memory of {device}; choose another device"):
        return name, model.to(device).eval()


def load_weights(run: Run, folder: Path) -> Transformer:
    """Returns the run's model with the weights in a checkpoint's folder, on the CPU. Raises CheckpointError."""
    path = folder / WEIGHTS
    with as_checkpoint_error():
        files.verify_file(path)
    model = run.uninitialized_model()
    try:
        load_model(model, path)
    except RuntimeError as error:  # of load_state_dict: the file itself was verified
        what = f"the weights do not fit the model's code: {_first_lines(error)}"
        raise CheckpointError(f"{path}: {what}; use the code that it was trained with") from None
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise _unreadable(path, "the weights", error) from None
    if wrong := next((name for name, each in model.named_parameters() if not _is_finite(each)), None):
        raise CheckpointError(f"{path}: {wrong} has a number that is not finite; {RESTORE_HINT}")
    return model


def _unreadable(path: Path, what: str, error: Exception) -> CheckpointError:
    if system_error := error if isinstance(error, OSError) else _system_error(error, path):
        return CheckpointError(files.as_file_error(system_error, path).with_remedy(RESTORE_HINT, IF_MISSING))
    return CheckpointError(f"{path}: {what} cannot be read: {_first_lines(error)}; {RESTORE_HINT}")


def _is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite. Reads the tensor once: twelve times as fast as `isfinite` on all of it."""
    return all(each.isfinite() for each in tensor.aminmax())  # both are NaN if there is one


def load_last(run: Run) -> Checkpoint:
    """Load the last checkpoint. Raises CheckpointError if a part of it is missing or damaged."""
    checkpoint = run.checkpoint("last")
    model, path = load_weights(run, checkpoint), checkpoint / "state.safetensors"
    with as_checkpoint_error():
        files.verify_file(path)
    try:
        # load_file maps the file, and without a copy it would stay open: NFS cannot delete the folder of an open file.
        tensors = {name: value.clone() for name, value in load_file(path).items()}
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, "the training state", error) from None
    return Checkpoint(model, tensors, load_state(checkpoint))


def set_moments(optimizer: torch.optim.Optimizer, model: Transformer, moments: Mapping[str, Tensor]) -> None:
    """Load a checkpoint's moments into the optimiser of a model, on its device."""
    parameters = dict(model.named_parameters())
    for full_name, moment in moments.items():
        key, _, name = full_name.partition(".")  # exp_avg.encoder.layers.0… → exp_avg, encoder.layers.0…
        optimizer.state[parameters[name]][key] = moment.to(parameters[name].device)


def save_checkpoint(
    run: Run,
    model: Transformer,
    optimizer: torch.optim.Optimizer | None,
    state: TrainingState,
    loss_check: Mapping[str, Any] | None = None,
) -> None:
    """Write a checkpoint, update the pointers, and delete checkpoints to which none points.

    loss_check: made by `scoring.losses.make_loss_check`. Checkpoints before and after a step's validation have
    different names, so none is overwritten while `last` points to it.
    """
    name = f"step-{state.step:07d}{'' if state.is_validated else '-unvalidated'}"
    with _new_checkpoint(run, name) as folder:
        _save_weights(run, model, folder)
        moments = {
            f"{key}.{name}": value
            for name, parameter in model.named_parameters()
            for key, value in (optimizer.state.get(parameter, {}) if optimizer else {}).items()
        }
        _save_tensors(moments, folder / "state.safetensors")
        history = files.sha256_of_bytes(first_history_lines(run, state.n_validations))
        files.write_json(folder / "state.json", asdict(replace(state, history_sha256=history)))
        if loss_check:
            files.write_json(folder / LOSS_CHECK, loss_check)
    run.set_pointer("last", name)
    _update_pointers(run, state)


def save_imported(run: Run, model: Transformer) -> None:
    """Save another program's model as the best and last checkpoint of a new run, whose training has ended."""
    save_checkpoint(run, model, None, TrainingState(epoch=run.config.training.epochs + 1))
    run.set_pointer("best", run.checkpoint("last").name)
    write_latest(run.folder)


def finish_save(run: Run, state: TrainingState) -> None:
    """Set `best` and `latest`, in case the process was killed after it set `last`. state: that of `last`."""
    _update_pointers(run, state)
    if run.has_checkpoint("best"):
        write_latest(run.folder)


def save_average(
    run: Run, model: Transformer, average: Average, state: TrainingState, loss_check: Mapping[str, Any]
) -> bool:
    """Save averaged weights at the end of training. Returns whether they are the best. state: that of `last`."""
    name = f"average-{average.step:07d}"
    with _new_checkpoint(run, name) as folder:
        _save_weights(run, model, folder)
        files.write_json(folder / "average.json", asdict(average))
        files.write_json(folder / LOSS_CHECK, loss_check)
    run.set_pointer("average", name)
    _update_pointers(run, state)
    return run.checkpoint("best") == run.checkpoint("average")


def save_validation_weights(run: Run, model: Transformer, number: int) -> None:
    """Save the weights of validation 1, 2, …, for averaging at the end of training."""
    with _new_checkpoint(run, f"validation-{number:04d}") as folder:
        _save_weights(run, model, folder)


def load_validation_weights(run: Run, number: int) -> Transformer:
    """Returns the model with the weights of validation 1, 2, …, on the CPU. Raises CheckpointError."""
    return load_weights(run, run.folder / "checkpoints" / f"validation-{number:04d}")


def prune_validations(run: Run, *, keep: Collection[int]) -> None:
    """Delete the weights of all validations but these."""
    for folder in (run.folder / "checkpoints").glob("validation-*"):
        if (match := VALIDATION_NAME.fullmatch(folder.name)) and int(match[1]) not in keep:
            with suppress(OSError):  # on NFS another process may read it; the next validation tries again
                files.delete(folder)


def load_mean(run: Run, numbers: range) -> Transformer:
    """Returns the mean of these validations' weights, on the CPU, computed in float64. Raises CheckpointError."""
    models = (load_validation_weights(run, number) for number in numbers)
    mean = next(models)
    total = {name: parameter.detach().double() for name, parameter in mean.named_parameters()}
    for model in models:
        for name, parameter in model.named_parameters():
            total[name] += parameter.detach()
    with torch.no_grad():
        for name, parameter in mean.named_parameters():
            parameter.copy_(total[name] / len(numbers))
    return mean


@contextmanager
def _new_checkpoint(run: Run, name: str) -> Iterator[Path]:
    """Yields a folder to write a checkpoint into; it gets its name and its SHA256SUMS at the end of the block.

    Raises CheckpointError if the run's folder is gone.
    """
    run.refuse_if_gone()
    path = run.folder / "checkpoints" / name
    try:
        files.delete(path)  # no pointer names it: the process that wrote it was killed
    except OSError as error:
        why = error.strerror or error
        raise CheckpointError(f"{path} could not be deleted to be written anew ({why}); delete it") from None
    with files.atomic_folder(path) as folder:
        yield folder
        files.write_checksums(folder)


def _update_pointers(run: Run, state: TrainingState) -> None:
    """Point `best` to the best checkpoint, and delete checkpoints to which nothing points. state: that of `last`.

    When `best` is set for the first time, other commands can use the run, so `latest` is set to it.
    """
    pointer = best_pointer(state, load_average(run, "best"), load_average(run))
    if pointer != "best":
        is_first = not run.has_checkpoint("best")
        run.set_pointer("best", run.checkpoint(pointer).name)
        if is_first:
            write_latest(run.folder)
    in_use = {run.checkpoint(pointer) for pointer in POINTERS if run.has_checkpoint(pointer)}
    for folder in (run.folder / "checkpoints").glob("*-*"):
        if folder not in in_use and CHECKPOINT.fullmatch(folder.name):  # not a copy that a user has made
            try:
                files.delete(folder)
            except OSError as error:  # on NFS: another process has a file open
                log.warning("%s could not be deleted (%s); the next save tries again", folder, error.strerror or error)


def _save_weights(run: Run, model: Transformer, folder: Path) -> None:
    """Write a model's weights. Shared ones are written once, under the alphabetically first of their names.

    The header has the run's provenance without date and threads, so the same training by the same versions gives the
    same bytes. It is one entry: safetensors writes several in random order, as save_model does shared names.
    """
    first: dict[int, str] = {}
    weights = model.state_dict(keep_vars=True)
    for name in sorted(weights):
        first.setdefault(id(weights[name]), name)
    provenance = {key: value for key, value in run.metadata.provenance.items() if key not in PER_CALL_KEYS}
    header = {"provenance": json.dumps(provenance, sort_keys=True)}
    tensors = {name: weights[name].detach().contiguous() for name in sorted(first.values())}
    _save_tensors(tensors, folder / WEIGHTS, header)


def _save_tensors(tensors: Mapping[str, Tensor], path: Path, header: dict[str, str] | None = None) -> None:
    """Write named tensors. Raises OSError, for example on a full disk."""
    try:
        save_file(dict(tensors), path, header)
    except SafetensorError as error:
        if system_error := _system_error(error, path):
            raise system_error from None
        raise


def _system_error(error: Exception, path: Path) -> OSError | None:
    """Returns the error of the system that safetensors has wrapped: "… (os error 28)…"; None if there is none."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1])), str(path)) if number else None


def _first_lines(error: Exception) -> str:
    """Returns the first four lines of an error as one. torch lists each weight that does not fit on its own line."""
    return " ".join(" ".join(str(error).strip().split("\n")[:4]).split())
