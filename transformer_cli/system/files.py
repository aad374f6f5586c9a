"""Atomic writes, checked reads of small files, and checksums. Knows nothing of what files mean.

Unfinished files are written next to their destination:

    .train.txt.unfinished-1a2b3c4d         becomes train.txt
    .step-0000052.unfinished-90a1b2c3/     becomes the folder step-0000052

A small file is a pointer, a vocabulary, JSON or YAML, but not text, ids or weights. A FileError begins with the file's
path; the caller adds a remedy.

SHA256SUMS has the checksums of the files beside it, as `sha256sum -c SHA256SUMS` reads them:

    5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9  manifest.json

Files of up to MAX_CHECKED_BYTES are verified when they are opened. Checksums detect accidents, not a person who changes
a file and its checksum on purpose.
"""

import bz2
import errno
import gzip
import hashlib
import json
import lzma
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli.errors import FileError, MissingFile, UnreadableFile
from transformer_cli.system.terminal import shorten

STDIO = Path("-")
"""standard input or standard output, in an option that takes a file of lines"""
STREAM_PREFIXES = ("/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")
"""paths that begin so are streams of the process"""
COMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {  # by the suffix of the file's name
    ".gz": lambda file: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
    ".bz2": lambda file: bz2.BZ2File(file, "wb"),
    ".xz": lambda file: lzma.LZMAFile(file, "wb"),
}
STALE_AFTER_S = 24 * 3600.0
MAX_SMALL_FILE_BYTES = 1 << 28  # a vocabulary of ten million words is smaller
CHECKSUMS = "SHA256SUMS"
MAX_CHECKED_BYTES = 1 << 30


def write_text(path: Path, text: str) -> None:
    """Replace `path` atomically by UTF-8 text; also a link or a pipe there, for it may come from a stranger."""
    write_bytes(path, text.encode(), follow=False)


def write_bytes(path: Path, content: bytes, *, clean_up: bool = True, follow: bool = True) -> None:
    """Replace `path` atomically, compressed if its suffix is .gz, .bz2 or .xz; or write to a stream.

    clean_up, follow: see `atomic_file`.
    """
    pack = COMPRESSORS.get(path.suffix.lower(), nullcontext)
    with atomic_file(path, clean_up=clean_up, follow=follow) as file, pack(file) as out:
        out.write(content)


def open_input(path: Path) -> BufferedReader:
    """Open a file, or standard input if the path is STDIO."""
    return open(0, "rb", closefd=False) if path == STDIO else path.open("rb")


def is_stream(path: Path) -> bool:
    """Whether a path is a stream, a pipe or a device, which cannot be read twice or replaced atomically.

    /dev/stdout is a stream even in `tfm … > file`: replacing the file would lose other output.
    """
    return os.fspath(path).startswith(STREAM_PREFIXES) or (path.exists() and not path.is_file())


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by indented JSON. Floats are read back bit for bit: Python writes their shortest exact form."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def append_line(path: Path, line: str) -> None:
    """Append one line of text in a single write, so that lines of several processes do not mix. Raises OSError.

    If a full disk has cut off the last line, a line feed is written first. Refuses links and pipes: they may come from
    a stranger.
    """
    if path.is_symlink() or path.is_fifo():
        raise OSError(errno.EINVAL, "a link or a pipe, not a file", str(path))
    with _named_in_errors(path, path), path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
        ending = b"" if file.read(1) in (b"", b"\n") else b"\n"  # of the line that was cut off
        file.write(ending + f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_file(path: Path, *, clean_up: bool = True, follow: bool = True) -> Iterator[BinaryIO]:
    """Write a file that replaces `path` if the block ends without an error; otherwise nothing is left.

    Keeps the mode of a replaced file. An OSError names `path`.

    follow: if `path` is a link, replace the file that it points to; if it is a stream, append to it. clean_up: call
    `delete_unfinished` for the folder first, which takes time for each file in it.
    """
    if follow and is_stream(path):
        sys.stdout.flush()  # it may be the same stream
        with path.open("ab") as file:
            yield file
        return
    place = path.resolve() if follow and path.is_symlink() else path
    with _renamed_at_end(place, clean_up=clean_up) as temporary, temporary.open("xb") as file:
        with suppress(OSError):  # no file yet, or a file system without modes
            if stat.S_ISREG(mode := place.lstat().st_mode):
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Fill a folder that appears at `path` if the block ends without an error; otherwise nothing is left.

    Yields a temporary folder on the same file system. An OSError names the final path of the file that it concerns.
    Raises FileExistsError if `path` exists, or another OSError if a folder appears there at the last moment, since no
    folder can replace another in one step.
    """
    with _renamed_at_end(path) as temporary:
        temporary.mkdir()
        yield temporary
        for name, _, files in os.walk(temporary, topdown=False):  # files, then their folders
            for file in files:
                with open(os.path.join(name, file), "rb") as written:
                    os.fsync(written.fileno())
            _sync_folder(Path(name))
        if os.path.lexists(path):  # an empty folder would be replaced
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def delete_unfinished(folder: Path, *, idle_s: float = STALE_AFTER_S) -> None:
    """Delete the unfinished files and folders that killed processes left in `folder`. Ignores OSErrors.

    idle_s: how long a file must be unchanged before it is deleted; 0 if the caller holds the folder's lock.
    """
    with suppress(OSError):
        for left in list(folder.glob(f".*.unfinished-{'[0-9a-f]' * 8}")):
            with suppress(OSError):
                written = max(path.lstat().st_mtime for path in (left, *left.rglob("*")))
                if not idle_s or time.time() - written > idle_s:
                    delete(left)


def delete(path: Path) -> None:
    """Delete a file, a link or a whole folder, if it exists. Raises OSError; a folder may then be deleted in part."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def folder_bytes(folder: Path) -> int:
    """Returns the total size of all files below a folder. Does not follow links; skips files that vanish meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def sha256_of_file(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def read_bytes(path: Path, *, max_bytes: int = MAX_SMALL_FILE_BYTES) -> bytes:
    """Returns a file's content. Raises FileError if it is not a file, cannot be read, or is larger than `max_bytes`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size  # read(n) allocates n bytes, however small the file is
        content = file.read(size + 1) if size <= max_bytes else b""
    if max(size, len(content)) > max_bytes:
        raise FileError(f"{path}: larger than {max_bytes:,} bytes, so it is not the expected file")
    return content


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file to read bytes. Raises FileError if it is not one, or if reading fails in the block."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
            raise FileError(f"{path}: not a file, but {'a folder' if path.is_dir() else 'a pipe or a device'}")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise as_file_error(error, path) from None


def as_file_error(error: OSError, path: Path) -> FileError:
    """Returns the error for a file that could not be read; an OSError without a number is a library's, for damage."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return MissingFile(f"{path}: missing")
    if error.errno is None:
        return FileError(f"{path}: cannot be read: {' '.join(str(error).split())}")
    return UnreadableFile(f"{path}: cannot be read: {error.strerror}; {remedy_for(error, path)}")


def remedy_for(error: OSError, path: Path | None) -> str:
    """Returns what to do about an error of the system. It says nothing about the content of the file."""
    if error.errno in (errno.EACCES, errno.EPERM) and path is not None:
        return f"{_permissions(path)}; change them, or be that user"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many files are open; raise the limit (ulimit -n)"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free disk space, or raise the quota"
    if error.errno in (errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ETIMEDOUT):
        return "check the device or the network share that it is on"
    return "correct the path or its permissions"


def _permissions(path: Path) -> str:
    """Returns the permissions and the owner of a path, or of the folder above it that hides it."""
    for place in (path, *path.absolute().parents):
        with suppress(OSError):
            found = place.stat()
            return f"{place} has the permissions {stat.filemode(found.st_mode)} and belongs to user {found.st_uid}"
    return f"{path} has permissions for other users only"


def read_text(path: Path, *, max_bytes: int = MAX_SMALL_FILE_BYTES) -> str:
    """Returns the UTF-8 text in a file, with its line ends unchanged. Raises FileError."""
    return decode_utf8(read_bytes(path, max_bytes=max_bytes), path)


def decode_utf8(content: bytes, path: Path) -> str:
    """Returns UTF-8 bytes as text. path: the file that they come from. Raises FileError with the line."""
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


def preview(value: Any) -> str:
    """Returns a value from a file for a message: on one line, shortened to 60 characters."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(text, 60)


def sha256_of_bytes(content: bytes) -> str:
    """Returns the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write_checksums(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write SHA256SUMS for these files of a folder (None: all of them), which exist already."""
    if names is None:
        names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != CHECKSUMS)
    write_text(folder / CHECKSUMS, "".join(f"{sha256_of_file(folder / name)}  {name}\n" for name in names))


def read_checksums(folder: Path) -> dict[str, str]:
    """Returns the checksums in a folder's SHA256SUMS, by file name. Raises FileError."""
    path = folder / CHECKSUMS
    sums = {}
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), start=1):
        if not (found := re.fullmatch(r"([0-9a-f]{64})  ([^/]+)", line)):
            raise FileError(f"{path}: line {number}: damaged: it should be a SHA-256 and the name of a file beside it")
        sums[found[2]] = found[1]
    return sums


def verify_file(path: Path) -> None:
    """Compare a file with its checksum in SHA256SUMS beside it. Raises FileError; see `verify_files`."""
    sums = read_checksums(path.parent) if os.path.exists(path) else {}  # report a missing file before its checksum
    _verify_checksum(path, sums.get(path.name))


def verify_files(folder: Path) -> None:
    """Compare all files in a folder's SHA256SUMS with their checksums. Raises FileError, also MissingFile."""
    for name, wanted in read_checksums(folder).items():
        _verify_checksum(folder / name, wanted)


def _verify_checksum(path: Path, wanted: str | None) -> None:
    with open_regular(path) as file:
        if wanted is None:
            raise FileError(f"{path}: damaged: {CHECKSUMS} has no checksum of it")
        if os.fstat(file.fileno()).st_size <= MAX_CHECKED_BYTES and sha256_of_file(path) != wanted:
            raise FileError(f"{path}: damaged: its content is not what was written (another SHA-256)")


def read_verified_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file, after `verify_file`. Raises FileError."""
    verify_file(path)
    value = read_json(path)
    if not isinstance(value, dict):
        raise FileError(f"{path}: damaged: not an object, but {preview(value)}")
    return value


@contextmanager
def _renamed_at_end(path: Path, *, clean_up: bool = True) -> Iterator[Path]:
    """Yield a temporary path next to `path`; after the block, which writes and syncs it, it is renamed to `path`."""
    name = path.name if len(os.fsencode(path.name)) < 234 else path.name[:58]  # file systems allow 255 bytes
    temporary = path.with_name(f".{name}.unfinished-{secrets.token_hex(4)}")
    with _named_in_errors(path, temporary):
        if not path.parent.exists():  # mkdir would report a file there as "File exists", not "Not a directory"
            path.parent.mkdir(parents=True, exist_ok=True)
        if clean_up:
            delete_unfinished(path.parent)
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # report the first error
                delete(temporary)
            raise
        _sync_folder(path.parent)


@contextmanager
def _named_in_errors(path: Path, temporary: Path) -> Iterator[None]:
    """Replace the temporary path by the final one in an OSError."""
    try:
        yield
    except OSError as error:
        name = temporary if error.filename in (None, -1) else Path(os.fsdecode(error.filename))
        if error.errno is None or not name.is_relative_to(temporary):  # another library's error, such as requests'
            raise
        raise OSError(error.errno, error.strerror, str(path / name.relative_to(temporary))) from error


def _sync_folder(folder: Path) -> None:
    """Sync a folder's list of names to the disk, if its file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
