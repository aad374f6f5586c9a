"""Fault injection: counts a process's changes to the disk, and at one of them fails it or stops the process.

An operation is any change below a given folder: opening a file for writing, a write, a sync, a rename, creating or
deleting a file or folder. A disturbed write is half done. Knows of tfm only that safetensors writes files itself, and
which keys of history.jsonl are times.
"""

import builtins
import errno
import io
import os
import pathlib
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

FUNCTIONS = ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "utime", "truncate", "symlink", "link", "fsync")
NEED_SPACE = ("open", "write", "mkdir", "rename", "replace")  # operations that fail on a full disk; deleting works


@dataclass
class Disturbance:
    """The operation to disturb, and how; afterwards a record of all operations."""

    folder: Path
    """operations elsewhere do not count"""
    strike: Callable[["Disturbance"], None] = lambda _: None
    """called at each operation, before it happens or (a write) in the middle of it; it may raise OSError"""
    operations: list[str] = field(default_factory=list)
    """so far: "replace last", "write target.detokenizer.json"; of an unfinished file, the name that it will have"""
    hits: int = 0
    """how many of them failed"""

    def note(self, what: str, path: Any) -> None:
        """Counts an operation on a path or an open file."""
        if name := self.name(path):
            self.operations.append(f"{what} {name}")
            try:
                self.strike(self)
            except OSError as error:
                self.hits += 1
                error.filename = None if what in ("write", "fsync") else os.fspath(path)  # as the system does it
                raise

    def name(self, path: Any) -> str:
        """Returns the name of a path relative to the folder; "" if it is elsewhere."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        full = os.path.abspath(os.fsdecode(path))
        if not full.startswith(f"{self.folder}{os.sep}"):
            return ""
        name = os.path.basename(full)
        return name[1:].partition(".unfinished-")[0] if name.startswith(".") else name


def fail_at(number: int, reason: int) -> Callable[[Disturbance], None]:
    """Fails the n-th operation, counted from 1. A full or read-only disk stays so afterwards."""

    def strike(seen: Disturbance) -> None:
        now, what = len(seen.operations), seen.operations[-1].partition(" ")[0]
        stays = (reason == errno.EROFS) or (reason == errno.ENOSPC and what in NEED_SPACE)
        if now == number or (now > number and stays):
            raise OSError(reason, os.strerror(reason))

    return strike


def stop_at(number: int) -> Callable[[Disturbance], None]:
    """Stops this process, to be killed by another one, at the n-th operation, counted from 1."""

    def strike(seen: Disturbance) -> None:
        if len(seen.operations) == number:
            os.write(2, f"stopped at operation {number}: {seen.operations[-1]}\n".encode())
            os.kill(os.getpid(), signal.SIGSTOP)

    return strike


@contextmanager
def disturbed(disturbance: Disturbance) -> Iterator[Disturbance]:
    """A block in which all changes of this process below a folder are operations. Not for several threads."""
    accessors = [each for each in [getattr(pathlib, "_NormalAccessor", None)] if each]  # Python 3.10 has its own copies
    with ExitStack() as patches:
        for owner, name in product((os, *accessors), FUNCTIONS):
            if hasattr(owner, name):
                patches.enter_context(mock.patch.object(owner, name, _noted(name, disturbance)))
        for owner in (builtins, io, *accessors):
            patches.enter_context(mock.patch.object(owner, "open", _open(disturbance)))
        patches.enter_context(mock.patch.object(os, "open", _system_open(disturbance)))
        patches.enter_context(mock.patch("safetensors.torch.serialize_file", _serialize_file(disturbance)))
        yield disturbance


def _noted(name: str, disturbance: Disturbance) -> Callable[..., Any]:
    function = getattr(os, name)

    def noted(path: Any, *others: Any, **options: Any) -> Any:
        folder = options.get("dir_fd")  # of shutil.rmtree
        place = path if folder is None else os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        # a rename is about the name that appears
        disturbance.note(name, others[0] if name in ("rename", "replace") else place)
        return function(path, *others, **options)

    return noted


def _system_open(disturbance: Disturbance) -> Callable[..., int]:
    system_open = os.open

    def opened(path: Any, flags: int, *others: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and "dir_fd" not in options:
            disturbance.note("open", path)
        return system_open(path, flags, *others, **options)

    return opened


class _Raw(io.FileIO):
    """A file whose writes are noted: before they happen, or with a buffer, whose errors come late, halfway."""

    def __init__(self, path: Any, mode: str, disturbance: Disturbance, *, in_halves: bool) -> None:
        super().__init__(path, mode)
        self._disturbance, self._in_halves = disturbance, in_halves

    def write(self, content: Any) -> int:
        content = bytes(content)
        first = super().write(content[: len(content) // 2]) if self._in_halves else 0
        self._disturbance.note("write", self.fileno())
        return first + super().write(content[first:])


def _open(disturbance: Disturbance) -> Callable[..., Any]:
    plain_open = io.open

    def opened(file: Any, mode: str = "r", buffering: int = -1, *others: Any, **options: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wxa+") or not disturbance.name(file):
            return plain_open(file, mode, buffering, *others, **options)
        if mode != "r+b":  # else it exists
            disturbance.note("open", file)
        raw = _Raw(file, mode.replace("b", "").replace("t", ""), disturbance, in_halves=buffering != 0)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *others, **options)

    return opened


def _serialize_file(disturbance: Disturbance) -> Callable[..., Any]:
    import safetensors.torch
    from safetensors import SafetensorError

    serialize_file = safetensors.torch.serialize_file  # type: ignore[attr-defined]

    def serialized(tensors: Any, path: Any, *others: Any, **options: Any) -> Any:
        try:
            disturbance.note("write", path)
        except OSError as error:  # as safetensors words it
            said = f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
            raise SafetensorError(said) from None
        return serialize_file(tensors, path, *others, **options)

    return serialized


def is_of_time(key: str) -> bool:
    """Whether a key of history.jsonl is a time, and so differs between equal trainings."""
    return key == "date" or key.endswith(("_seconds", "_per_second"))
