"""What a training leaves, to compare one that was cut off with one that was not; and what cuts it off."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

from disturb import Disturbance, disturbed, is_of_time
from transformer_cli.runs.folder import POINTERS
from transformer_cli.runs.run import Run


class PowerCut(BaseException):
    """Ends training like a kill: nothing catches it."""


@contextmanager
def power_cut(folder: Path, before: str, time: int = 1) -> Iterator[None]:
    """A block that is cut off just before the `time`th file or folder of a name appears below a folder."""

    def strike(seen: Disturbance) -> None:
        appears = (f"replace {before}", f"rename {before}")
        if seen.operations[-1] in appears and sum(map(seen.operations.count, appears)) == time:
            raise PowerCut

    with pytest.raises(PowerCut), disturbed(Disturbance(folder, strike)):
        yield


def weights(run: Run, pointer: str = "last") -> dict[str, Tensor]:
    """Weights of a checkpoint, by their names."""
    return load_file(run.checkpoint(pointer) / "model.safetensors")


def outcome(run: Run) -> dict[str, Any]:
    """All that a run leaves, but its times, and the sums of files that have them."""
    lines = [entry.items() for entry in run.history()]
    history = [{key: value for key, value in line if value is not None and not is_of_time(key)} for line in lines]
    files = [file for file in sorted(run.folder.glob("checkpoints/*/*")) if file.name != "SHA256SUMS"]
    history_sum = rb'"history_sha256": "\w+"'
    saved = {f"{file.parent.name}/{file.name}": re.sub(history_sum, b"", file.read_bytes()) for file in files}
    pointers = {name: run.checkpoint(name).name for name in POINTERS if run.has_checkpoint(name)}
    return {"history": history, "checkpoints": saved, **pointers}
