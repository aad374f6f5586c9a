"""What a checkpoint's folder says of itself: sums.json, which makes it one checkpoint of one run and no other.

sums.json has the id of the run, the folder's name, the sums of its files, for what training resumes from the sum of the
history so far, and its own sum. Checkpoints of older versions have none. Knows no tensors.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformer_cli.errors import CheckpointError, MissingFile
from transformer_cli.runs.identity import RESTORE, told_as_damage
from transformer_cli.system.reading import look_up, read_text, shown
from transformer_cli.system.sums import check_file, file_sums, read_sealed, text_sum, write_sealed

FILE = "sums.json"
HISTORY = "history.jsonl"


def seal(unfinished: Path, name: str, *, run: Path, run_id: str, validations: int | None = None) -> None:
    """Write sums.json when all other files of a checkpoint are written, in the folder that will get a name.

    run: the run's folder. validations: the first so many lines of its history belong to this checkpoint (None: it has
    no history).
    """
    history = {} if validations is None else {"history": history_sum(run, validations)}
    write_sealed(unfinished / FILE, {"run": run_id, "checkpoint": name, **history, "files": file_sums(unfinished)})


def read_seal(folder: Path, run_id: str) -> Mapping[str, Any] | None:
    """Returns what sums.json of a checkpoint says; None if it has none, in a run of an older version (run_id: "").

    Raises CheckpointError if it is missing or damaged, or belongs to another run or another checkpoint.
    """
    path = folder / FILE
    with told_as_damage(path):
        try:
            value = read_sealed(path)
        except MissingFile:
            if run_id:
                raise
            return None
        for key, kind in (("sum", str), ("run", str), ("checkpoint", str), ("files", dict)):
            look_up(value, key, kind)
        if value["run"] != run_id:
            raise ValueError("it is of another run")
        if value["checkpoint"] != folder.name:
            raise ValueError(f"it is of {shown(value['checkpoint'])}")
    return value


def check_sealed(path: Path, run_id: str, *, up_to: int | None = None) -> None:
    """Raises CheckpointError unless a file of a checkpoint has the sum that sums.json knows."""
    sealed = read_seal(path.parent, run_id)
    if sealed is not None:
        with told_as_damage(path):
            check_file(path, sealed["files"], up_to=up_to)


def check_history(run: Path, checkpoint: Path, run_id: str, validations: int) -> None:
    """Raises CheckpointError unless the first lines of the history are those that a checkpoint was saved with."""
    sealed = read_seal(checkpoint, run_id)
    if sealed is not None and "history" in sealed and sealed["history"] != history_sum(run, validations):
        raise CheckpointError(
            f"{run / HISTORY}: damaged: its first {validations} lines are not those of {checkpoint.name}; {RESTORE}"
        )


def history_sum(run: Path, validations: int) -> str:
    """Returns the sum of the first so many lines of the history. Raises CheckpointError if it cannot be read."""
    return text_sum("".join(f"{line}\n" for line in history_lines(run)[:validations]))


def history_lines(run: Path) -> list[str]:
    """Returns the lines of a run's history. Raises CheckpointError if it cannot be read."""
    with told_as_damage(run / HISTORY):
        *lines, rest = read_text(run / HISTORY).split("\n")
    if rest:
        raise CheckpointError(f"{run / HISTORY}: damaged: line {len(lines) + 1} is cut off; {RESTORE}")
    return lines
