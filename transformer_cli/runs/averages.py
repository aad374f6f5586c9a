"""The mean of the last epochs' weights (section 6.1): what is kept for it, and the checkpoint that it becomes.

With `training.average: 5` the folder of a run also has

checkpoints/epoch-0010/model.safetensors    the weights at the end of each of the last 5 epochs
checkpoints/average-0004540/                the mean, made when training has ended after step 4540
    model.safetensors
    average.json                            the Average: which epochs, and what their mean's validation found
    sums.json                               the sums of these files (see seals.py)
average                                     a text file that names this checkpoint

Knows nothing of how a validation is computed.
"""

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import torch

from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.run import Run
from transformer_cli.runs.seals import seal
from transformer_cli.runs.state import Average
from transformer_cli.runs.weights import load_weights, save_weights
from transformer_cli.system.files import new_folder, write_json
from transformer_cli.system.unfinished import delete


def save_epoch(run: Run, model: Transformer, epoch: int) -> None:
    """Keep the weights at the end of an epoch."""
    folder = _epoch_folder(run, epoch)
    delete(folder)  # it may be there from before a kill, which came before the save of this epoch
    with new_folder(folder) as unfinished:
        save_weights(model, unfinished)
        seal(unfinished, folder.name, run=run.folder, run_id=run.identity.id)


def forget_epochs(run: Run, *, before: int) -> None:
    """Delete the weights of earlier epochs."""
    for folder in (run.folder / "checkpoints").glob("epoch-*"):
        epoch = folder.name.removeprefix("epoch-")  # or somebody's copy, such as epoch-0003 (copy)
        if epoch.isdecimal() and int(epoch) < before:
            with suppress(OSError):  # on NFS another process may read it; the next epoch tries again
                delete(folder)


def load_mean(run: Run, epochs: range) -> Transformer:
    """Returns the mean of these epochs' weights, on the CPU. It is computed in float64, in the order of the epochs.

    Raises CheckpointError if the weights of an epoch are gone.
    """
    models = (load_weights(run, _epoch_folder(run, epoch)) for epoch in epochs)
    mean = next(models)
    total = {name: parameter.detach().double() for name, parameter in mean.named_parameters()}
    for model in models:
        for name, parameter in model.named_parameters():
            total[name] += parameter.detach()
    with torch.no_grad():
        for name, parameter in mean.named_parameters():
            parameter.copy_(total[name] / len(epochs))
    return mean


def save_average(run: Run, model: Transformer, average: Average) -> None:
    """Write the checkpoint, and point `average` at it. Training goes on from `last`, never from here."""
    place = run.folder / "checkpoints" / f"average-{average.step:07d}"
    delete(place)  # it may be there from before a kill, which came before the pointer
    with new_folder(place) as folder:
        save_weights(model, folder)
        write_json(folder / "average.json", asdict(average))
        seal(folder, place.name, run=run.folder, run_id=run.identity.id)
    run.point("average", place.name)


def _epoch_folder(run: Run, epoch: int) -> Path:
    return run.folder / "checkpoints" / f"epoch-{epoch:04d}"
