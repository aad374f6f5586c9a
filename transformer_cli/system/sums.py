"""sums.json: what the files of a folder were when they were written. Knows no remedy.

    {"manifest.json": "2190 1a2b3c4d", "source.vocab.txt": "80112 90ab12cd"}

A sum is a file's size in bytes and its CRC-32. It is there for accidents: a CRC-32 finds every flipped bit and every
burst of up to 32 of them, and misses other damage once in four billion times. zlib computes it several times as fast as
hashlib any of its hashes (docs/decisions/files.md has the figures), and every start of `tfm translate` waits for it.
It does not stop somebody who changes a file on purpose.
"""

import stat
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformer_cli.errors import FileError, MissingFile
from transformer_cli.system.files import write_json
from transformer_cli.system.reading import read_json

SUMS = "sums.json"
SUMMED = 1 << 30  # bytes: a larger file is summed by `tfm verify` alone; elsewhere its size is compared
BLOCK = 1 << 20


def sum_of(content: bytes) -> str:
    """Returns the sum of some bytes."""
    return f"{len(content)} {zlib.crc32(content):08x}"


def file_sum(path: Path) -> str:
    """Returns the sum of a file. Raises OSError."""
    total = size = 0
    block = bytearray(BLOCK)
    with path.open("rb", buffering=0) as file:
        while n_read := file.readinto(block):
            total = zlib.crc32(memoryview(block)[:n_read], total)
            size += n_read
    return f"{size} {total:08x}"


def write_sums(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write sums.json for these files of a folder (None: for all its files), which are written."""
    if names is None:
        names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    write_json(folder / SUMS, {name: file_sum(folder / name) for name in names})


def read_sums(folder: Path) -> dict[str, str]:
    """Returns the sums of a folder's files, by their names. Raises FileError."""
    path = folder / SUMS
    sums = read_json(path)
    if not isinstance(sums, dict) or any("/" in name for name in sums):
        raise FileError(f"{path}: damaged: it should name files of this folder")
    return {name: str(each) for name, each in sums.items()}


def check_file(path: Path) -> None:
    """Compare a file with its sum in sums.json beside it. Raises FileError; see `check_sum`."""
    sums = read_sums(path.parent) if path.exists() else {}  # what is not there is told first
    check_sum(path, sums.get(path.name))


def check_files(folder: Path, *, up_to: int | None = SUMMED) -> None:
    """Compare all files of a folder that have sums. Raises FileError; see `check_sum`."""
    for name, wanted in read_sums(folder).items():
        check_sum(folder / name, wanted, up_to=up_to)


def check_sum(path: Path, wanted: str | None, *, up_to: int | None = SUMMED) -> None:
    """Compare a file with a sum; one of more than `up_to` bytes by its size alone. Raises FileError."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # a device might be read for ever
            raise FileError(f"{path}: damaged: it is not a file")
        if wanted is None:
            raise FileError(f"{path}: damaged: {SUMS} has no sum of it")
        if str(about.st_size) != (size := wanted.split(" ")[0]):
            raise FileError(f"{path}: damaged: it has {about.st_size} bytes, and was written with {size}")
        if (up_to is None or about.st_size <= up_to) and file_sum(path) != wanted:
            raise FileError(f"{path}: damaged: its content is not what was written (another CRC-32)")
    except FileNotFoundError:
        raise MissingFile(f"{path}: missing") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_checked_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file that is as it was written. Raises FileError."""
    check_file(path)
    value: dict[str, Any] = read_json(path)
    return value
