"""Files that appear whole or not at all, and what killed processes left of them. Knows nothing of what they mean.

What is not whole yet stands beside its place:

.train.txt.unfinished-1a2b3c4d         is to become train.txt
.step-0000052.unfinished-90a1b2c3/     is to become the folder step-0000052
"""

import errno
import gzip
import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

STANDARD = Path("-")
"""standard input or output, where a command takes it for a file of lines"""
STREAMS = ("/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")
"""how the names of the streams of a process begin"""
DAY_S = 24 * 3600.0


def write_text(path: Path, text: str) -> None:
    """Replace `path` by UTF-8 text, whole or not at all; it is compressed if it is called .gz, as it is read."""
    content = text.encode()
    write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` whole or not at all, or write to a stream."""
    with written(path) as file:
        file.write(content)


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Write a file that replaces `path` if the block ends without an error. What `is_stream` is appended to instead."""
    if is_stream(path):
        sys.stdout.flush()  # which may be the same stream
        with path.open("ab") as file:
            yield file
    else:
        with new_file(path) as file:
            yield file


def open_to_read(path: Path) -> BufferedReader:
    """Open a file, or standard input for STANDARD."""
    return open(0, "rb", closefd=False) if path == STANDARD else path.open("rb")


def is_stream(path: Path) -> bool:
    """Whether a path names a stream, a pipe or a device: what cannot be read twice, and is not replaced as a whole.

    /dev/stdout is one even in `tfm … > file`: to replace the file would lose what else is written to it.
    """
    return os.fspath(path).startswith(STREAMS) or (path.exists() and not path.is_file())


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by readable JSON. Floats are read back bit for bit (Python writes their shortest exact form)."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def append_line(path: Path, line: str) -> None:
    """Append one line of text in a single write: processes that append at the same time do not mix their lines.

    A full disk may leave a part of it. Raises OSError.
    """
    with _named(path, path), path.open("ab") as file:
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears at `path`, or replaces it, only if the block ends without an error.

    It has the mode of the file that it replaces; of a link, the file that it points to is replaced. After an error
    nothing is left. An OSError of the system names `path`.
    """
    place = path.resolve() if path.is_symlink() else path
    with _appearing(place) as temporary, temporary.open("xb") as file:
        with suppress(OSError):  # there is none, or the file system has no modes
            os.fchmod(file.fileno(), stat.S_IMODE(place.stat().st_mode))
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Fill a folder that appears at `path` only if the block ends without an error; otherwise nothing is left.

    Yields a folder to write into, on the same file system. An OSError of the system names the place below `path`.
    Raises FileExistsError if something is at `path` already, or another OSError if a folder has just appeared there: a
    folder cannot replace another one in one step, so each needs a new name.
    """
    with _appearing(path) as temporary:
        temporary.mkdir()
        yield temporary
        _sync_all(temporary)
        if os.path.lexists(path):  # an empty folder would be replaced
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def sweep(folder: Path, *, of: str = "*", idle_s: float = DAY_S) -> None:
    """Delete what killed processes left unfinished in `folder`: what has not been written to for so long.

    of: only what is to become a file or folder of this name. idle_s: 0 for whoever holds the lock that all who write
    there hold. Raises no error: what cannot be deleted is somebody else's.
    """
    with suppress(OSError):
        for left in list(folder.glob(f".{of}.unfinished-{'[0-9a-f]' * 8}")):
            with suppress(OSError):
                written = max(path.lstat().st_mtime for path in (left, *left.rglob("*")))
                if not idle_s or time.time() - written > idle_s:
                    delete(left)


def delete(path: Path) -> None:
    """Delete a file or a whole folder, if there is one; of a link, the link and not what it points to. Raises OSError.

    Of a folder that cannot be deleted some files may be gone afterwards.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def bytes_in(folder: Path) -> int:
    """Returns how large all files below a folder are together. Links are not followed; what vanishes is left out."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """Yield a place beside `path` for what the block writes and syncs; at the end it is renamed to `path`."""
    temporary = path.with_name(f".{path.name}.unfinished-{secrets.token_hex(4)}")
    with _named(path, temporary):
        if not path.parent.exists():  # else a file in its place would be "File exists", and not "Not a directory"
            path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent)
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # the error above is the one to tell
                delete(temporary)
            raise
        _sync_folder(path.parent)


@contextmanager
def _named(path: Path, temporary: Path) -> Iterator[None]:
    """Let errors of the system name what the user knows: `path`, or a file below it, instead of the temporary place."""
    try:
        yield
    except OSError as error:
        name = temporary if error.filename in (None, -1) else Path(os.fsdecode(error.filename))
        if error.errno is None or not name.is_relative_to(temporary):  # somebody's own error, of requests for example
            raise
        raise OSError(error.errno, error.strerror, str(path / name.relative_to(temporary))) from error


def _sync_all(folder: Path) -> None:
    """Sync all files below a folder, then the folders, innermost first, and the folder itself: their lists of names."""
    for name, _, files in os.walk(folder, topdown=False):
        for file in files:
            with open(os.path.join(name, file), "rb") as opened:
                os.fsync(opened.fileno())
        _sync_folder(Path(name))


def _sync_folder(folder: Path) -> None:
    """Wait until a folder's list of names is on the disk, as far as its file system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
