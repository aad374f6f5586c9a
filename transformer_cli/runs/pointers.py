"""The small files that name something: best, last and average a checkpoint of their run, latest a run.

A pointer names a checkpoint of its own run and nothing else. Behind the name stands a sum of the pointer's name, the
checkpoint's and its weights': step-0004540 1a2b3c4d. So a flipped digit, or the pointer of another run or another
purpose, is not followed. Runs of format version 1 have bare names.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from transformer_cli.config.section import NAME
from transformer_cli.errors import CheckpointError, FileError, MissingFile
from transformer_cli.runs.identity import RESTORE, read_identity
from transformer_cli.runs.seals import read_seal
from transformer_cli.system.files import write_text
from transformer_cli.system.reading import read_text, shown
from transformer_cli.system.sums import text_sum

Result = TypeVar("Result")

MAY_NAME = {"best": r"(step|average)-\d{7,}", "last": r"step-\d{7,}", "average": r"average-\d{7,}"}
POINTERS = tuple(MAY_NAME)
MOST = 4096  # bytes
WEIGHTS = "model.safetensors"


def write_pointer(run: Path, pointer: str, name: str, run_id: str) -> None:
    """Let a pointer name a checkpoint that is there."""
    write_text(run / pointer, f"{_pointing(run, pointer, name, run_id)}\n")


def read_pointer(run: Path, pointer: str, run_id: str) -> Path:
    """Returns the folder that a pointer names. Raises MissingFile if there is no pointer, CheckpointError otherwise."""
    path = run / pointer
    try:
        text = read_text(path, most=MOST).removesuffix("\n")
    except MissingFile:
        raise
    except FileError as error:
        raise CheckpointError(f"{error}; {RESTORE}") from None
    name = text.split(" ")[0]
    if not re.fullmatch(MAY_NAME[pointer], name):
        raise CheckpointError(f"{path} names {shown(name)}, which is not a checkpoint; {RESTORE}")
    folder = run / "checkpoints" / name
    if not folder.is_dir():
        raise CheckpointError(f"{path} names {name}, which is not in checkpoints/; {RESTORE}")
    if text != _pointing(run, pointer, name, run_id):
        raise CheckpointError(f"{path}: damaged: {shown(text)} is not what was written for {name}; {RESTORE}")
    return folder


def steadily(path: Path, read: Callable[[], Result]) -> Result:
    """Call a function that follows the pointer `path`; if it fails, and the pointer has moved meanwhile, call it again.

    Training deletes a checkpoint as soon as no pointer names it, while somebody else may be reading it.
    """
    while True:
        before = _content(path)
        try:
            return read()
        except CheckpointError:
            if _content(path) == before:
                raise


def write_latest(run: Path, run_id: str) -> None:
    """Let `latest`, beside the folder of a run, name this run."""
    path, text = run.with_name("latest"), f"{_latest(run.name, run_id)}\n"
    if _content(path) != text.encode():
        write_text(path, text)


def follow_latest(old: Path, new: Path) -> None:
    """Let `latest` name a run that was moved to another name, if it named this run before."""
    try:
        run_id = read_identity(new).id
    except CheckpointError:
        return  # the run is damaged, which is why it was moved
    if _content(old.with_name("latest")) == f"{_latest(old.name, run_id)}\n".encode():
        write_latest(new, run_id)


def find_latest(runs_dir: Path) -> Path:
    """Returns the folder of the run that `latest` names. Raises CheckpointError if it names none."""
    path = runs_dir / "latest"
    other = "name a run with --run"
    try:
        text = read_text(path, most=MOST).removesuffix("\n")
    except MissingFile:
        if known := known_runs(runs_dir):
            raise CheckpointError(f"{path}: missing, so none is the newest; {other}: {', '.join(known)}") from None
        raise CheckpointError(f"{runs_dir}/: no run yet; `tfm train` makes one (or name one with --run)") from None
    except FileError as error:
        raise CheckpointError(f"{error}; {other}") from None
    name = text.split(" ")[0]
    if not NAME.fullmatch(name):
        raise CheckpointError(f"{path} names {shown(name)}, which is not a run; {other}")
    folder = runs_dir / name
    if (folder / "run.json").is_file() and text != _latest(name, read_identity(folder).id):
        raise CheckpointError(f"{path}: {shown(text)} is not the run that {folder} has now; {other}")
    return folder


def known_runs(runs_dir: Path) -> list[str]:
    """Returns the names of the runs in a folder."""
    return sorted(path.parent.name for path in runs_dir.glob("*/run.json"))


def _pointing(run: Path, pointer: str, name: str, run_id: str) -> str:
    """Returns what a pointer to a checkpoint says."""
    if not run_id:
        return name
    sealed = read_seal(run / "checkpoints" / name, run_id)
    weights = sealed["files"].get(WEIGHTS, {}) if sealed else {}
    return f"{name} {text_sum(f'{pointer} {name} {weights}')}"


def _latest(name: str, run_id: str) -> str:
    return f"{name} {text_sum(f'latest {name} {run_id}')}" if run_id else name


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
