"""What a run saves in order to resume: weights, Adam's moments, the state of training; and which checkpoint is best.

checkpoints/step-0004540/
    model.safetensors               the weights
    state.safetensors               Adam's moments, under the names of the weights
    state.json                      the TrainingState (see state.py)
    sums.json                       the sums of these files, and of the history so far (see seals.py)

`best` names the checkpoint with the lowest validation loss: an epoch's, or that of averaged weights (averages.py).
Knows nothing of how a step or a validation is computed.
"""

import logging
import math
from collections.abc import Callable, Mapping, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from transformer_cli.compute.memory import room_for
from transformer_cli.errors import CheckpointError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.averages import save_average
from transformer_cli.runs.identity import RESTORE
from transformer_cli.runs.pointers import POINTERS, steadily, write_latest
from transformer_cli.runs.run import UNSAVED, Run
from transformer_cli.runs.seals import check_sealed, seal
from transformer_cli.runs.state import Average, TrainingState, load_average, load_state
from transformer_cli.runs.weights import load_tensors, load_weights, one_line, save_tensors, save_weights
from transformer_cli.system.files import new_folder, write_json
from transformer_cli.system.unfinished import delete

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """Everything that training starts from, on the CPU: the last save, or a model that has learned nothing yet."""

    model: Transformer
    moments: dict[str, Tensor] = field(default_factory=dict)
    """what the optimiser keeps for each weight, named as in state.safetensors; empty before the first step"""
    state: TrainingState = field(default_factory=TrainingState)


def load_best(run: Run, device: torch.device) -> Transformer:
    """Load the model with the best validation loss, in evaluation mode. Raises CheckpointError, MemoryShortage."""
    model = steadily(run.folder / "best", lambda: load_weights(run, run.checkpoint("best")))
    with room_for(lambda: f"{run.folder}: its model does not fit in the memory of {device}; choose another --device"):
        return model.to(device).eval()


def load_last(run: Run, *, state_names: Callable[[Transformer], Set[str]] = lambda model: frozenset()) -> Checkpoint:
    """Load the last save. Raises CheckpointError if a part of it is missing or damaged. Writes nothing.

    state_names: the names of what the optimiser keeps for a model's weights; a save that has some of it must have all.
    """
    path = run.checkpoint("last") / "state.safetensors"
    model = load_weights(run, path.parent)
    check_sealed(path, run.identity.id)
    try:
        moments = load_tensors(path)
        _check_moments(moments, model, state_names(model))
    except (ValueError, OSError, KeyError) as error:
        raise CheckpointError(f"{path}: the training state cannot be read: {one_line(error)}; {RESTORE}") from None
    return Checkpoint(model, moments, load_state(run))


def _check_moments(moments: Mapping[str, Tensor], model: Transformer, wanted: Set[str]) -> None:
    """Raises ValueError unless a save has no moments, or all that are wanted, in the shapes of their weights."""
    if not moments:
        return
    if missing := min(wanted - moments.keys(), default=None):
        raise ValueError(f"it lacks {missing}")
    weights = dict(model.named_parameters())
    for name, value in moments.items():
        weight = weights.get(name.partition(".")[2])
        if weight is None or value.shape not in ((), weight.shape) or (wanted and name not in wanted):
            raise ValueError(f"{name} does not fit the model")


def set_moments(optimizer: torch.optim.Optimizer, model: Transformer, moments: Mapping[str, Tensor]) -> None:
    """Give a model's optimiser the moments of a checkpoint, on the device of the model."""
    parameters = dict(model.named_parameters())
    for full_name, moment in moments.items():
        key, _, name = full_name.partition(".")  # exp_avg.encoder.layers.0… → exp_avg, encoder.layers.0…
        optimizer.state[parameters[name]][key] = moment.to(parameters[name].device)


def save(
    run: Run,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    state: TrainingState,
    *,
    awaits_validation: bool = False,
) -> None:
    """Write a checkpoint, point `last` (and `best`, if it is) at it, and delete checkpoints that nothing points to.

    awaits_validation: the epoch's steps are done, but it is not validated yet. The validation will save the same step
    under the usual name, so this one has another zero: step-00004540 before, step-0004540 after.
    """
    name = f"step-{'0' * awaits_validation}{state.step:07d}"
    place = run.folder / "checkpoints" / name
    left = _clean_up(run)  # a kill may have left a folder of this name
    if place in left:
        raise CheckpointError(f"{place} is in the way and could not be deleted ({left[place]}); delete it, and go on")
    with new_folder(place) as folder:
        save_weights(model, folder)
        save_tensors(_moments(model, optimizer), folder / "state.safetensors")
        write_json(folder / "state.json", asdict(state))
        seal(folder, name, run=run.folder, run_id=run.identity.id, validations=state.epoch - 1)
    run.point("last", name)
    (run.folder / UNSAVED).unlink(missing_ok=True)
    _settle_best(run, state)
    for path, reason in _clean_up(run).items():
        log.warning("%s could not be deleted (%s); the next save tries again", path, reason)


def finish_save(run: Run, state: TrainingState) -> None:
    """Set `best` and `latest` if a kill came between the pointers of the last save. state: what that save left."""
    _settle_best(run, state)
    if run.has_checkpoint("best"):
        write_latest(run.folder, run.identity.id)
    _clean_up(run)


def keep_average(run: Run, model: Transformer, average: Average, state: TrainingState) -> bool:
    """Save averaged weights after the last save, whose state this is. Returns whether they are the best now."""
    save_average(run, model, average)
    _settle_best(run, state)
    _clean_up(run)
    return run.checkpoint("best") == run.checkpoint("average")


def _settle_best(run: Run, state: TrainingState) -> None:
    """Point `best` at the last save or at the averaged weights, if either is better than what it names.

    With its first one `latest` names the run, which others can use now.
    """
    had_best = run.has_checkpoint("best")
    loss = math.inf if state.best_valid_loss is None else state.best_valid_loss
    averaged = load_average(run, "best")
    if averaged and averaged.valid_loss <= loss:
        loss = averaged.valid_loss
    elif state.is_best:
        run.point("best", run.checkpoint("last").name)
    average = load_average(run)
    if average and average.valid_loss < loss:
        run.point("best", run.checkpoint("average").name)
    if run.has_checkpoint("best") and not had_best:  # not at each save: runs that are trained side by side take turns
        write_latest(run.folder, run.identity.id)


def _clean_up(run: Run) -> dict[Path, str]:
    """Delete the checkpoints that nothing points to. Returns the ones that could not be deleted → the reason."""
    kept = {run.checkpoint(pointer) for pointer in POINTERS if run.has_checkpoint(pointer)}
    failed = {}
    for folder in (run.folder / "checkpoints").glob("*-*"):
        if folder not in kept and folder.name.startswith(("step-", "average-")):
            try:
                delete(folder)
            except OSError as error:  # on NFS: another process has a file open
                failed[folder] = error.strerror or str(error)
    return failed


def _moments(model: Transformer, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
