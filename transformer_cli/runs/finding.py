"""Finds a run by its name, its folder or a pointer; keeps `latest`, the name of the newest run."""

import logging
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from transformer_cli.config.schema import NAME
from transformer_cli.errors import CheckpointError, FileError, UnreadableFile
from transformer_cli.runs.folder import bytes_or_none, is_pointer
from transformer_cli.system.files import preview, read_text, write_text

log = logging.getLogger(__name__)


def find_run(name: str | Path | None = None, runs_dir: Path = Path("runs")) -> Path:
    """Returns the folder of a run, given its name under runs_dir or its path; or a pointer in it, such as demo/last.

    Raises CheckpointError. None: the newest run, which `latest` names, or if it names none, the only run.
    """
    runs_dir = Path(runs_dir)
    known = run_names(runs_dir)
    if name is None:
        return _newest(runs_dir, known)
    places = [runs_dir / name, Path(name)]
    try:
        folder = next((path for path in places if path.is_dir() or is_pointer(path)), None)
    except OSError as error:  # the name is too long for a file, or a folder above it may not be read
        raise CheckpointError(f"{places[0]}: {error.strerror}; {runs_dir}/ has {', '.join(known) or 'none'}") from None
    if folder is None:
        place = places["/" in str(name) or places[1].is_file()]
        what = "a file, not the folder of a run" if place.is_file() else "no such run"
        raise CheckpointError(f"{place}: {what}; {runs_dir}/ has {', '.join(known) or 'none'}")
    return folder


def run_names(runs_dir: Path) -> list[str]:
    """Returns the names of the runs in a folder."""
    return sorted(path.parent.name for path in runs_dir.glob("*/run.json"))


def _newest(runs_dir: Path, known: Sequence[str]) -> Path:
    latest = runs_dir / "latest"
    try:
        name = read_text(latest).removesuffix("\n")
        if NAME.fullmatch(name) and (runs_dir / name).is_dir():
            return runs_dir / name
        problem = f"{latest} names {preview(name)}, but there is no such run"
    except FileError as error:
        problem = str(error)
        if isinstance(error, UnreadableFile) and not known:
            raise CheckpointError(problem) from None
    if not known:
        raise CheckpointError(f"{runs_dir}/: no run yet; `tfm train` makes one (or name one)")
    if len(known) > 1:
        raise CheckpointError(f"{problem}; name a run: {', '.join(known)}")
    return runs_dir / known[0]


def write_latest(run: Path) -> None:
    """Let `latest`, in the folder above the run's, name this run."""
    path = run.with_name("latest")
    if bytes_or_none(path) != f"{run.name}\n".encode():
        write_text(path, f"{run.name}\n")


def move_aside(folder: Path) -> None:
    """Rename a run's folder, for example to multi30k.old-1. If `latest` names the run, updates `latest`."""
    names = (folder.with_name(f"{folder.name}.old-{number}") for number in count(1))
    aside = folder.rename(next(path for path in names if not path.exists()))
    if bytes_or_none(folder.with_name("latest")) == f"{folder.name}\n".encode():
        write_latest(aside)
    log.info("moved the old run to %s", aside)
