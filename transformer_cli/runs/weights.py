"""Weights and other tensors in files. The one owner of safetensors: no pickle, so reading runs no foreign code."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import Tensor

from transformer_cli.errors import CheckpointError
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.identity import RESTORE
from transformer_cli.runs.pointers import WEIGHTS as FILE
from transformer_cli.runs.run import Run
from transformer_cli.runs.seals import check_sealed


def save_weights(model: Transformer, folder: Path) -> None:
    """Write a model's weights into a folder; a tied matrix is written once. Raises OSError."""
    with _writing(folder / FILE) as path:
        save_model(model, path)


def load_weights(run: Run, folder: Path) -> Transformer:
    """Returns the run's model with the weights in a folder, on the CPU. Raises CheckpointError."""
    path = folder / FILE
    check_sealed(path, run.identity.id)
    model = run.empty_model()
    try:
        load_model(model, path)
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path}: the weights cannot be read: {one_line(error)}; {RESTORE}") from None
    return model


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write named tensors. Raises OSError, say on a full disk."""
    with _writing(path) as name:
        save_file(dict(tensors), name)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read what `save_tensors` wrote. Raises OSError, KeyError or ValueError."""
    try:
        # load_file maps the file. Without a copy the file would stay open as long as training runs, and NFS cannot
        # delete a folder in which a file is open.
        return {name: value.clone() for name, value in load_file(path).items()}
    except SafetensorError as error:
        raise ValueError(str(error)) from None


@contextmanager
def _writing(path: Path) -> Iterator[str]:
    try:
        yield str(path)
    except SafetensorError as error:  # safetensors turns the system's errors into its own, which end "(os error 28)…"
        if not (number := re.search(r"\(os error (\d+)\)", str(error))):
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None


def one_line(error: Exception) -> str:
    """Returns an error on one line. torch lists weights that do not fit on further lines: three of them are enough."""
    return " ".join(" ".join(str(error).strip().split("\n")[:4]).split())
