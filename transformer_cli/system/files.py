"""Files that appear whole or not at all. Knows bytes, names and sums, nothing of what they mean."""

import errno
import gzip
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli.system import streams
from transformer_cli.system.unfinished import begin_file, begin_folder, delete, sweep

UNSYNCED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EBADF}  # it cannot be synced at all
IN_THE_WAY = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}


def write_text(path: Path, text: str) -> None:
    """Replace `path` by UTF-8 text, whole or not at all; it is compressed if it is called .gz, as it is read."""
    content = text.encode()
    write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` whole or not at all. A pipe or a device is not replaced but written to, and so is a stream."""
    if (descriptor := streams.stream_named(path)) is not None:
        streams.write_to(descriptor, content)
        return
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    # of a link, the file that it points to is replaced, and the link stays
    with new_file(path.resolve() if path.is_symlink() else path) as file:
        file.write(content)


def append_line(path: Path, line: str) -> None:
    """Append one line of text in a single write: processes that append at the same time do not mix their lines.

    If a full disk cuts the line, or it cannot be synced, what was written of it is taken back. Raises OSError.
    """
    content = f"{line}\n".encode()
    with _named(path, None), path.open("ab", buffering=0) as file:
        written = file.write(content)
        end = file.tell()
        try:
            if written < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            _sync(file.fileno())
        except OSError:
            if os.fstat(file.fileno()).st_size == end:  # else somebody has appended another line
                file.truncate(end - written)
            raise


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears at `path`, or replaces it, only if the block ends without an error.

    The file is written beside `path`, synced and renamed; it has the mode of the file that it replaces. After an error
    nothing of it is left. An OSError of the system names `path`.
    """
    with _named(path, None):
        _make_folder(path.parent)
        sweep(path.parent)
        temporary, file = begin_file(path)
    with _named(path, temporary), file:
        with suppress(OSError):  # there is none, or the file system has no modes
            os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
        try:
            yield file
            file.flush()
            _sync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # the error above is the one to tell
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by readable JSON. Floats are read back bit for bit (Python writes their shortest exact form)."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Fill a folder that appears at `path` only if the block ends without an error; otherwise nothing is left.

    Yields a folder to write into, on the same file system. An OSError of the system names the place below `path`.
    Raises FileExistsError if something is at `path` already, even if it has just appeared: a folder cannot replace
    another one in one step, so each needs a new name.
    """
    with _named(path, None):
        _make_folder(path.parent)
        sweep(path.parent)
        temporary, lock = begin_folder(path)
    with _named(path, temporary):
        try:
            yield temporary
            _sync_all(temporary)
            _rename(temporary, path)
        except BaseException:
            with suppress(OSError):  # the next `sweep` tries again
                delete(temporary)
            raise
        finally:
            os.close(lock)
        _sync_folder(path.parent)


def kind_of(path: Path) -> str:
    """Returns what a path names: "a file", "a folder", "a pipe", "a device", "a socket" or "no such file"."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # a NUL in the name
        return "no such file"
    kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


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
def _named(path: Path, temporary: Path | None) -> Iterator[None]:
    """Let errors of the system name what the user knows: `path`, or a file below it, instead of the temporary place.

    temporary: None if any error is about `path` itself.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # else it is somebody's own error, of requests for example
            if temporary is None or error.filename in (None, -1):
                raise OSError(error.errno, error.strerror, str(path)) from error
            name = Path(os.fsdecode(error.filename))
            if name.is_relative_to(temporary):
                raise OSError(error.errno, error.strerror, str(path / name.relative_to(temporary))) from error
        raise


def _make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless they are there. Raises OSError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # a file, or a link to nothing, is in its place
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None


def _rename(folder: Path, path: Path) -> None:
    """Give a folder its place. Raises FileExistsError if that is taken."""
    if os.path.lexists(path):  # an empty folder would be replaced
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    try:
        os.rename(folder, path)
    except OSError as error:
        if error.errno in IN_THE_WAY:  # it has just appeared
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        raise


def _sync_all(folder: Path) -> None:
    """Sync all files below a folder, then the folders, innermost first, and the folder itself: their lists of names."""
    for name, _, files in os.walk(folder, topdown=False):
        for file in files:
            with open(os.path.join(name, file), "rb") as opened:
                _sync(opened.fileno())
        _sync_folder(Path(name))


def _sync_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # one may write there, but not list it
        return
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    """Wait until a file or folder is on the disk, as far as its file system can do that: some cannot for folders."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in UNSYNCED:
            raise
