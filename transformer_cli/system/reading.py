"""The one reader of small files: what is in them is checked before it is used. Knows no file's meaning, and no remedy.

A small file is a pointer, a vocabulary, JSON or YAML: anything but text, ids and weights. What is wrong with it is a
FileError, which begins with the file's path. Who knows what the user can do about it adds that.
"""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli.errors import FileError, MissingFile

LARGEST = 1 << 28  # bytes: a vocabulary of ten million words is smaller


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
