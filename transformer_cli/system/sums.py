"""SHA256SUMS: what the files of a folder were when they were written. Knows no remedy.

    5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9  manifest.json

`sha256sum -c SHA256SUMS` reads it too. Files are compared with it where they are opened; those of more than SUMMED
bytes only by `sha256sum`. Sums find accidents; they do not stop somebody who changes a file and its sum on purpose.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformer_cli.errors import FileError
from transformer_cli.system.files import sha256, write_text
from transformer_cli.system.reading import opened, read_json, read_text

SUMS = "SHA256SUMS"
SUMMED = 1 << 30


def sum_of(content: bytes) -> str:
    """Returns the sum of some bytes."""
    return hashlib.sha256(content).hexdigest()


def write_sums(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write the sums of these files of a folder (None: of all its files), which are written."""
    if names is None:
        names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    write_text(folder / SUMS, "".join(f"{sha256(folder / name)}  {name}\n" for name in names))


def read_sums(folder: Path) -> dict[str, str]:
    """Returns the sums of a folder's files, by their names. Raises FileError."""
    path = folder / SUMS
    sums = {}
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), start=1):
        if not (found := re.fullmatch(r"([0-9a-f]{64})  ([^/]+)", line)):
            raise FileError(f"{path}: line {number}: damaged: it should be a SHA-256 and the name of a file beside it")
        sums[found[2]] = found[1]
    return sums


def check_file(path: Path) -> None:
    """Compare a file with its sum in SHA256SUMS beside it. Raises FileError; see `check_files`."""
    sums = read_sums(path.parent) if path.exists() else {}  # what is not there is told first
    _check_sum(path, sums.get(path.name))


def check_files(folder: Path) -> None:
    """Compare all files of a folder that have sums. Raises FileError, MissingFile for a file that is gone."""
    for name, wanted in read_sums(folder).items():
        _check_sum(folder / name, wanted)


def _check_sum(path: Path, wanted: str | None) -> None:
    with opened(path) as file:
        if wanted is None:
            raise FileError(f"{path}: damaged: {SUMS} has no sum of it")
        if os.fstat(file.fileno()).st_size <= SUMMED and sha256(path) != wanted:
            raise FileError(f"{path}: damaged: its content is not what was written (another SHA-256)")


def read_checked_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file that is as it was written. Raises FileError."""
    check_file(path)
    return read_json(path)
