"""Compares all files of a dataset or a run with the sums that were kept when they were written (`tfm verify`).

Other commands check what they open, and of files over 1 GiB only the size; this reads everything.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from transformer_cli.data.codec import SIDES
from transformer_cli.data.dataset import Dataset, read_manifest
from transformer_cli.errors import TfmError
from transformer_cli.runs.exported import Exported, is_exported, read_export
from transformer_cli.runs.run import EXPORTED, POINTERS, Run, find_run, is_new, steadily
from transformer_cli.runs.state import load_average, read_seal, validations_so_far
from transformer_cli.system.sums import check_file


@dataclass
class Verified:
    """What was found in a folder."""

    folder: Path
    n_files: int = 0
    n_bytes: int = 0
    damaged: list[str] = field(default_factory=list)
    """one line for each thing that is not as it was written"""

    def check(self, claim: Callable[[], object]) -> None:
        """Call a function; an error that it raises is damage."""
        try:
            claim()
        except TfmError as error:
            if str(error) not in self.damaged:
                self.damaged.append(str(error))

    def check_sums(self, folder: Path, sums: dict[str, dict[str, int]]) -> None:
        """Read files of a folder to their ends, and compare their sums."""
        for name in sums:
            self.n_files += 1
            self.n_bytes += sums[name]["bytes"]
            self.check(lambda name=name: check_file(folder / name, sums, up_to=None))  # type: ignore[misc]


def verify(name: str | Path | None = None, *, runs_dir: Path = Path("runs")) -> Verified:
    """Verify the dataset in a folder, or a run, also an exported one, by its name or folder (None: the newest run).

    Raises DataError or CheckpointError if there is no such folder, or if nothing in it can be told.
    """
    if name is not None and (Path(name) / "manifest.json").is_file():
        return verify_dataset(Path(name))
    folder = find_run(name, runs_dir)
    return verify_export(folder) if is_exported(folder) else verify_run(folder)


def verify_dataset(folder: Path) -> Verified:
    """Verify a dataset; see `verify`."""
    manifest = read_manifest(folder)
    found = Verified(folder, n_files=1, n_bytes=(folder / "manifest.json").stat().st_size)
    found.check_sums(folder, manifest["files"])
    if not found.damaged:
        found.check(lambda: _open_all(folder))
    return found


def verify_run(folder: Path) -> Verified:
    """Verify a run; see `verify`."""
    run = Run.open(folder)
    found = Verified(folder, n_files=1, n_bytes=(folder / "run.json").stat().st_size)
    found.check_sums(folder, dict(run.identity.files))
    found.check(lambda: is_new(folder))
    for pointer in POINTERS:
        if run.has_checkpoint(pointer):
            found.n_files += 1
            found.check(lambda name=pointer: steadily(folder / name, lambda: run.checkpoint(name)))  # type: ignore[misc]
    for path in sorted((folder / "checkpoints").glob("[!.]*-*")):
        n_damaged = len(found.damaged)
        found.check(lambda path=path: _verify_checkpoint(path, run, found))  # type: ignore[misc]
        if not path.exists():  # training goes on, and has deleted it meanwhile
            del found.damaged[n_damaged:]
    found.check(lambda: validations_so_far(run))
    found.check(lambda: load_average(run))
    return found


def verify_export(folder: Path) -> Verified:
    """Verify an exported run; see `verify`."""
    identity, _ = read_export(folder)
    found = Verified(folder, n_files=1, n_bytes=(folder / EXPORTED).stat().st_size)
    found.check_sums(folder, dict(identity.files))
    if not found.damaged:
        found.check(lambda: Exported.open(folder))
    return found


def _verify_checkpoint(path: Path, run: Run, found: Verified) -> None:
    sums = read_seal(path, run)["files"]
    found.n_files += 1
    found.check_sums(path, sums)


def _open_all(folder: Path) -> None:
    dataset = Dataset.open(folder)
    for split in dataset.manifest["splits"]:
        dataset.split(split)
        for side in SIDES:
            dataset.text(split, side)
