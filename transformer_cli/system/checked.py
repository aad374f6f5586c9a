"""Small files, and folders with sums: what is in them is checked before it is used. Knows no meaning, and no remedy.

A small file is a pointer, a vocabulary, JSON or YAML: anything but text, ids and weights. What is wrong with it is a
FileError, which begins with the file's path. Who knows what the user can do about it adds that.

SHA256SUMS says what the files of a folder were when they were written:

    5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9  manifest.json

`sha256sum -c SHA256SUMS` reads it too. Files are compared with it where they are opened; those of more than SUMMED
bytes only by `sha256sum`. Sums find accidents; they do not stop somebody who changes a file and its sum on purpose.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli.errors import FileError, MissingFile
from transformer_cli.system.files import sha256, write_text

LARGEST = 1 << 28  # bytes: a vocabulary of ten million words is smaller
SUMS = "SHA256SUMS"
SUMMED = 1 << 30


def read_bytes(path: Path, *, most: int = LARGEST) -> bytes:
    """Returns what is in a file. Raises FileError if it cannot be read, is no file, or has more than `most` bytes."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size  # read(n) takes n bytes of memory, however small the file is
        content = file.read(min(size, most) + 1)
    if len(content) > most:
        raise FileError(f"{path}: more than {most:,} bytes, so it is not what it should be")
    return content


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file of bytes during the block. Raises FileError if it is no file, or cannot be read in the block."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for somebody who writes into it
            raise FileError(f"{path}: not a file, but {'a folder' if path.is_dir() else 'a pipe or a device'}")
        with path.open("rb") as file:
            yield file
    except (FileNotFoundError, NotADirectoryError):  # below a file nothing is
        raise MissingFile(f"{path}: missing") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_text(path: Path, *, most: int = LARGEST) -> str:
    """Returns the UTF-8 text in a file, with its line ends as they are. Raises FileError, also for other bytes."""
    return decoded(read_bytes(path, most=most), path)


def decoded(content: bytes, path: Path) -> str:
    """Returns the UTF-8 text that was read from a file. Raises FileError for other bytes, which says where they are."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileError(f"{path}: line {line}: byte 0x{content[error.start]:02x} is not UTF-8") from None


def read_json(path: Path) -> Any:
    """Returns the value in a JSON file. Raises FileError."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: {f'not JSON: {error}' if text else 'empty, but should be JSON'}") from None


def shown(value: Any) -> str:
    """Returns a value from a file on one line, cut off where it is long."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


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
