"""Files that appear whole or not at all. Knows bytes, names and sums, nothing of what they mean."""

import errno
import hashlib
import json
import logging
import os
import platform
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli import streams

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)


def write_text(path: Path, text: str) -> None:
    """Replace `path` by UTF-8 text, whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` whole or not at all. A pipe or a device is not replaced but written to, and so is a stream."""
    if (descriptor := streams.stream_named(path)) is not None:
        streams.write_to(descriptor, content)
        return
    path = path.resolve()  # replaces the file that a link points to, not the link
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    with new_file(path) as file:
        file.write(content)


def append_line(path: Path, line: str) -> None:
    """Append one line of text in a single write: processes that append at the same time do not mix their lines.

    If a full disk cuts the line, what was written of it is taken back. Raises OSError.
    """
    content = f"{line}\n".encode()
    with path.open("ab", buffering=0) as file:
        written = file.write(content)
        if written < len(content):
            file.truncate(file.tell() - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(file.fileno())


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears at `path`, or replaces it, only if the block ends without an error.

    The file is written beside `path`, synced and renamed. After an error nothing of it is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by readable JSON. Floats are read back bit for bit (Python writes their shortest exact form)."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Fill a folder that appears at `path` only if the block ends without an error; otherwise nothing is left.

    Yields a hidden folder beside `path` to write into. Raises FileExistsError if `path` exists already: a folder
    cannot replace another one in one step, so each needs a new name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent)
    temporary = _beside(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _sync(file)
        if path.exists():
            raise FileExistsError(path)
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(path.parent)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock on the file `path` during the block; the system releases it when the process ends, however it ends.

    Raises BlockingIOError at once if the lock is held already, by this process or another one. If the file system has
    no locks (some NFS and FUSE systems), a warning says so and no lock is held; on Windows no lock is held.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError as error:
                log.warning(
                    "%s cannot be locked (%s); make sure that nobody else does this meanwhile", path, error.strerror
                )
        yield


def sweep(folder: Path) -> None:
    """Delete half-written files and folders that killed processes of this machine left in `folder`."""
    written_here = re.compile(rf"\..+\.{_machine()}-(\d+)\.[0-9a-f]{{8}}")  # the names that `_beside` gives
    for left in folder.glob(".*"):
        owner = written_here.fullmatch(left.name)
        if owner and not _is_running(int(owner[1])):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def kind_of(path: Path) -> str:
    """Returns what a path names: "a file", "a folder", "a pipe", "a device", "a socket" or "no such file"."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # a NUL in the name
        return "no such file"
    kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def _beside(path: Path) -> Path:
    """Returns a unique name in the same folder, which says which process of which machine writes there."""
    return path.with_name(f".{path.name}.{_machine()}-{os.getpid()}.{secrets.token_hex(4)}")


def _machine() -> str:
    """A hash of this machine's name. Machines that share a folder cannot see each other's processes, only this name."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # another user's process; not a process id
        return True
    return True


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
