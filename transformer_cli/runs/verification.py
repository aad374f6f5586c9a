"""Compares all files of a dataset or a run with the sums that were kept when they were written (`tfm verify`).

Other commands check what they open, and of files over 1 GiB only the size; this reads everything.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from transformer_cli.data.dataset import Dataset
from transformer_cli.errors import TfmError
from transformer_cli.runs.exported import Exported
from transformer_cli.runs.run import EXPORTED, POINTERS, Run, find_run, steadily
from transformer_cli.runs.state import Validation, validations_so_far
from transformer_cli.system.sums import SUMS, check_sum, read_sums


@dataclass
class Verified:
    """What was found in a folder."""

    folder: Path
    n_files: int = 0
    n_bytes: int = 0
    damaged: list[str] = field(default_factory=list)
    """one line for each thing that is not as it was written"""

    @contextmanager
    def noting(self) -> Iterator[None]:
        """An error in the block is damage."""
        try:
            yield
        except TfmError as error:
            self.damaged.append(str(error))

    def check_sums(self, folder: Path) -> None:
        """Read all files of a folder that have sums to their ends, and compare them."""
        sums = read_sums(folder)
        for name, each in sums.items():
            with self.noting():
                check_sum(folder / name, each, up_to=None)
        files = [path for path in (folder / SUMS, *(folder / name for name in sums)) if path.is_file()]
        self.n_files += len(files)
        self.n_bytes += sum(path.stat().st_size for path in files)


def verify(name: str | Path | None = None) -> Verified:
    """Verify the dataset in a folder, or a run, also an exported one, by its name or folder (None: the newest run).

    Raises CheckpointError if there is no such folder, or if nothing in it can be told.
    """
    if name is not None and _has_had(Path(name), "manifest.json"):
        return _verify_whole(Path(name), Dataset.open)
    folder = find_run(name)
    return _verify_whole(folder, Exported.open) if _has_had(folder, EXPORTED) else _verify_run(Run.open(folder))


def _has_had(folder: Path, name: str) -> bool:
    """Whether a file is in a folder, or was there when its sums were written."""
    return (folder / name).is_file() or ((folder / SUMS).is_file() and name in read_sums(folder))


def _verify_whole(folder: Path, open_it: Callable[[Path], object]) -> Verified:
    found = Verified(folder)
    with found.noting():
        found.check_sums(folder)
        if not found.damaged:
            open_it(folder)
    return found


def _verify_run(run: Run) -> Verified:
    """Verify a run, and the checkpoints that it needs: those that are named, and the weights whose mean will be taken.

    What nothing names is what a kill has left, perhaps in the middle of deleting it.
    """
    found = Verified(run.folder)
    with found.noting():
        found.check_sums(run.folder)
    validations: Sequence[Validation] = ()
    with found.noting():
        validations = validations_so_far(run)
    checkpoints = set((run.folder / "checkpoints").glob("validation-*"))
    for pointer in POINTERS:
        path = run.folder / pointer
        if path.exists() or (pointer == "best" and validations):
            with found.noting():
                checkpoints.add(steadily(path, partial(run.checkpoint, pointer)))
    for folder in sorted(checkpoints):
        n_damaged = len(found.damaged)
        with found.noting():
            found.check_sums(folder)
        if not folder.exists():  # training goes on, and has deleted it meanwhile
            del found.damaged[n_damaged:]
    return found
