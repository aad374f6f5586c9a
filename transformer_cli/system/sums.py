"""Sums of what never changes once it is written: of files, and of JSON that carries its own sum. Knows no remedy.

A sum is a file's size and its CRC-32. It is there for accidents: a CRC-32 finds every flipped bit and every burst of up
to 32 of them, and misses other damage once in four billion times. zlib computes it several times as fast as hashlib any
of its hashes (docs/design.md has the figures), and every start of `tfm translate` waits for it. It does not stop
somebody who changes a file on purpose.
"""

import json
import stat
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transformer_cli.errors import FileError, MissingFile
from transformer_cli.system.files import write_json
from transformer_cli.system.reading import look_up, read_json, shown

SUMMED = 1 << 30  # bytes: a larger file is summed by `tfm verify` alone; elsewhere its size is compared
BLOCK = 1 << 20


def text_sum(text: str) -> str:
    """Returns the CRC-32 of a text in UTF-8, as eight hexadecimal digits."""
    return f"{zlib.crc32(text.encode()):08x}"


def file_sum(path: Path) -> dict[str, Any]:
    """Returns a file's sum, as JSON keeps it: {"bytes": 120, "crc32": "1a2b3c4d"}. Raises OSError."""
    total = size = 0
    block = bytearray(BLOCK)
    with path.open("rb", buffering=0) as file:
        while n_read := file.readinto(block):
            total = zlib.crc32(memoryview(block)[:n_read], total)
            size += n_read
    return {"bytes": size, "crc32": f"{total:08x}"}


def file_sums(folder: Path, names: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
    """Returns the sums of these files of a folder (None: of all its files), by name."""
    if names is None:
        names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return {name: file_sum(folder / name) for name in names}


def check_file(path: Path, sums: Mapping[str, Mapping[str, Any]], *, up_to: int | None = SUMMED) -> None:
    """Compare a file with its sum among those of its folder; one of more than `up_to` bytes by its size alone.

    Raises FileError.
    """
    if path.name not in sums:
        raise FileError(f"{path}: there is no sum of it")
    wanted = sums[path.name]
    try:
        about = path.stat()
        size = about.st_size
        if not stat.S_ISREG(about.st_mode):  # a device might be read for ever
            raise FileError(f"{path}: damaged: it is not a file")
        if size != wanted["bytes"]:
            raise FileError(f"{path}: damaged: it has {size:,} bytes, and was written with {wanted['bytes']:,}")
        if (up_to is None or size <= up_to) and file_sum(path)["crc32"] != wanted["crc32"]:
            raise FileError(f"{path}: damaged: its content is not what was written (another CRC-32)")
    except FileNotFoundError:
        raise MissingFile(f"{path}: missing") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None


def write_sealed(path: Path, value: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `path` by a JSON object whose key `sum` is the sum of all its other keys. Returns that object."""
    sealed = {**value, "sum": _sum(value)}
    write_json(path, sealed)
    return sealed


def read_sealed(path: Path) -> dict[str, Any]:
    """Returns the JSON object that `write_sealed` wrote, `sum` included. Raises FileError if it has another sum.

    What is under its key `files`, if it has one, are sums of files of its own folder, by their names.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise FileError(f"{path}: damaged: {shown(value)} should be an object with keys")
    if "sum" not in value:
        raise FileError(f"{path}: damaged, or written by an older tfm: it has no sum")
    if value["sum"] != _sum(value):
        raise FileError(f"{path}: damaged: its content is not what was written (another CRC-32)")
    try:
        for name, each in (look_up(value, "files", dict) if "files" in value else {}).items():
            if name in ("", "..") or "/" in name:
                raise ValueError(f"files: {shown(name)} is not the name of a file in this folder")
            if not isinstance(each, dict) or type(each.get("bytes")) is not int or type(each.get("crc32")) is not str:
                raise ValueError(f"files: {name}: {shown(each)} should be its bytes and its crc32")
    except ValueError as error:
        raise FileError(f"{path}: damaged: {error}") from None
    return value


def _sum(value: Mapping[str, Any]) -> str:
    rest = {key: each for key, each in value.items() if key != "sum"}
    return text_sum(json.dumps(rest, sort_keys=True))
