"""The one reader of small files: what is in them is checked before it is used. Knows no file's meaning, and no remedy.

A small file is a pointer, a vocabulary, JSON or YAML: anything but text, ids and weights. What is wrong with it is a
FileError, which begins with the file's path. Who knows what the user can do about it adds that.
"""

import json
import logging
import math
import os
import stat
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from transformer_cli.errors import FileError, MissingFile

Record = TypeVar("Record")

LARGEST = 1 << 28  # bytes: a vocabulary of ten million words is smaller
NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "null"}


def read_bytes(path: Path, *, most: int = LARGEST) -> bytes:
    """Returns what is in a file. Raises FileError if it cannot be read, is no file, or has more than `most` bytes."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for somebody who writes into it
            raise FileError(f"{path}: not a file, but {'a folder' if path.is_dir() else 'a pipe or a device'}")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size  # read(n) takes n bytes of memory, however small the file is
            content = file.read(min(size, most) + 1)
    except FileNotFoundError:
        raise MissingFile(f"{path}: missing") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(content) > most:
        raise FileError(f"{path}: more than {most:,} bytes, so it is not what it should be")
    return content


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
        return parse_json(text)
    except ValueError as error:
        raise FileError(f"{path}: {error}") from None


def parse_json(text: str) -> Any:
    """Returns the value in a JSON text. NaN and infinity, which JSON does not have, are refused. Raises ValueError."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError("empty, but should be JSON" if not text.strip() else f"not JSON at {where}") from None
    except RecursionError:
        raise ValueError("not JSON that tfm has written: its brackets are nested too deeply") from None


def as_record(kind: type[Record], value: Any, where: str = "") -> Record:
    """Returns the dataclass `kind` made of a JSON object that has exactly its fields, of their types.

    Numbers are finite, and not below 0: all that tfm keeps are counts, losses, rates and seconds. where: what an error
    begins with, for a record inside of another. Raises ValueError, which names the field and its value.
    """
    assert is_dataclass(kind)
    if not isinstance(value, dict):
        field_name = f"{where.removesuffix('.')}: " if where else ""
        raise ValueError(f"{field_name}{shown(value)} should be an object with keys")
    types = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    if missing := next((name for name in names if name not in value), None):
        raise ValueError(f"{where}{missing} is missing")
    if unknown := next((key for key in value if key not in names), None):
        raise ValueError(f"{where}{shown(unknown)} is not a key that belongs here")
    return kind(**{name: _fitted(types[name], value[name], f"{where}{name}") for name in names})


def look_up(value: Any, key: str, kind: type[Record]) -> Record:
    """Returns what an object has under a dotted key, such as vocabulary.source. Raises ValueError as `as_record`."""
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise ValueError(f"{key} is missing")
        value = value[part]
    if kind in (dict, list) and not isinstance(value, kind):
        raise ValueError(f"{key}: {shown(value)} should be {'an object with keys' if kind is dict else 'a list'}")
    if kind in (dict, list):
        return value
    return _fitted(kind, value, key)


@cache
def say_once(log: logging.Logger, message: str) -> None:
    """Log a line, once in a process: a command may open the same folder several times."""
    log.info(message)


def shown(value: Any) -> str:
    """Returns a value from a file on one line, cut off where it is long."""
    try:
        text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        text = "what is nested so deeply"
    return text if len(text) <= 60 else f"{text[:60]}…"


def _fitted(kind: Any, value: Any, where: str) -> Any:
    """Returns a value that is of a type; an int becomes a float where that is wanted."""
    if is_dataclass(kind):
        return as_record(kind, value, f"{where}.")  # type: ignore[arg-type]
    if get_origin(kind) is list:
        if not isinstance(value, list):
            raise ValueError(f"{where}: {shown(value)} should be a list")
        return [_fitted(get_args(kind)[0], each, where) for each in value]
    allowed = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if type(value) is int and int not in allowed and float in allowed and value < 1 << 53:
        value = float(value)
    if type(value) not in allowed:
        raise ValueError(f"{where}: {shown(value)} should be {' or '.join(NAMES[each] for each in allowed)}")
    if type(value) in (int, float) and not 0 <= value < math.inf:
        raise ValueError(f"{where}: {shown(value)} should be at least 0")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON has")
