"""Files: they appear whole or not at all, and what is in small ones is checked before it is used.

Knows nothing of what files mean, and no remedy. What is not whole yet stands beside its place:

.train.txt.unfinished-1a2b3c4d         is to become train.txt
.step-0000052.unfinished-90a1b2c3/     is to become the folder step-0000052

A small file is a pointer, a vocabulary, JSON or YAML: anything but text, ids and weights. What is wrong with it is a
FileError, which begins with the file's path. Who knows what the user can do about it adds that.

SHA256SUMS says what the files of a folder were when they were written:

    5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9  manifest.json

`sha256sum -c SHA256SUMS` reads it too. Files are compared with it where they are opened; those of more than SUMMED
bytes only by `sha256sum`. Sums find accidents; they do not stop somebody who changes a file and its sum on purpose.
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

from transformer_cli.errors import FileError, MissingFile
from transformer_cli.system.terminal import shorten

STDIO = Path("-")
"""standard input or output, where a command takes it for a file of lines"""
STREAM_PREFIXES = ("/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")
"""how the names of the streams of a process begin"""
COMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {  # what packs a file that is called so, until it is closed
    ".gz": lambda file: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
    ".bz2": lambda file: bz2.BZ2File(file, "wb"),
    ".xz": lambda file: lzma.LZMAFile(file, "wb"),
}
STALE_AFTER_S = 24 * 3600.0
MAX_SMALL_FILE_BYTES = 1 << 28  # bytes of a small file: a vocabulary of ten million words is smaller
CHECKSUMS = "SHA256SUMS"
MAX_CHECKED_BYTES = 1 << 30


def write_text(path: Path, text: str) -> None:
    """Replace `path` by UTF-8 text, whole or not at all, packed as its name says."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes, *, clean_up: bool = True) -> None:
    """Replace `path` whole or not at all, packed as its name says, as it is read; or write to a stream.

    clean_up: as `atomic_file` has it.
    """
    with atomic_file(path, clean_up=clean_up) as file, COMPRESSORS.get(path.suffix.lower(), nullcontext)(file) as out:
        out.write(content)


def open_input(path: Path) -> BufferedReader:
    """Open a file, or standard input for STANDARD."""
    return open(0, "rb", closefd=False) if path == STDIO else path.open("rb")


def is_stream(path: Path) -> bool:
    """Whether a path names a stream, a pipe or a device: what cannot be read twice, and is not replaced as a whole.

    /dev/stdout is one even in `tfm … > file`: to replace the file would lose what else is written to it.
    """
    return os.fspath(path).startswith(STREAM_PREFIXES) or (path.exists() and not path.is_file())


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by readable JSON. Floats are read back bit for bit (Python writes their shortest exact form)."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def append_line(path: Path, line: str) -> None:
    """Append one line of text in a single write: processes that append at the same time do not mix their lines.

    A full disk may leave a part of one; the next line then begins on a line of its own. Raises OSError.
    """
    with _named_in_errors(path, path), path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
        ending = b"" if file.read(1) in (b"", b"\n") else b"\n"  # of a part of a line
        file.write(ending + f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_file(path: Path, *, clean_up: bool = True) -> Iterator[BinaryIO]:
    """Write a file that appears at `path`, or replaces it, only if the block ends without an error.

    It has the mode of the file that it replaces; of a link, the file that it points to is replaced. After an error
    nothing is left. An OSError of the system names `path`. What `is_stream` is appended to instead.

    clean_up: whether to `delete_unfinished` its folder, which takes time for each file in it.
    """
    if is_stream(path):
        sys.stdout.flush()  # which may be the same stream
        with path.open("ab") as file:
            yield file
        return
    place = path.resolve() if path.is_symlink() else path
    with _renamed_at_end(place, clean_up=clean_up) as temporary, temporary.open("xb") as file:
        with suppress(OSError):  # there is none, or the file system has no modes
            os.fchmod(file.fileno(), stat.S_IMODE(place.stat().st_mode))
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Fill a folder that appears at `path` only if the block ends without an error; otherwise nothing is left.

    Yields a folder to write into, on the same file system. An OSError of the system names the place below `path`.
    Raises FileExistsError if something is at `path` already, or another OSError if a folder has just appeared there: a
    folder cannot replace another one in one step, so each needs a new name.
    """
    with _renamed_at_end(path) as temporary:
        temporary.mkdir()
        yield temporary
        for name, _, files in os.walk(temporary, topdown=False):  # files, then the lists of names of their folders
            for file in files:
                with open(os.path.join(name, file), "rb") as written:
                    os.fsync(written.fileno())
            _sync_folder(Path(name))
        if os.path.lexists(path):  # an empty folder would be replaced
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def delete_unfinished(folder: Path, *, idle_s: float = STALE_AFTER_S) -> None:
    """Delete what killed processes left unfinished in `folder`: what has not been written to for so long.

    idle_s: 0 for whoever holds the lock that all who write there hold. Raises no error: what cannot be deleted is
    somebody else's.
    """
    with suppress(OSError):
        for left in list(folder.glob(f".*.unfinished-{'[0-9a-f]' * 8}")):
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


def folder_bytes(folder: Path) -> int:
    """Returns how large all files below a folder are together. Links are not followed; what vanishes is left out."""
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
    """Returns what is in a file. Raises FileError if it cannot be read, is no file, or is larger than `max_bytes`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size  # read(n) takes n bytes of memory, however small the file is
        content = file.read(min(size, max_bytes) + 1)
    if len(content) > max_bytes:
        raise FileError(f"{path}: more than {max_bytes:,} bytes, so it is not what it should be")
    return content


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
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


def read_text(path: Path, *, max_bytes: int = MAX_SMALL_FILE_BYTES) -> str:
    """Returns the UTF-8 text in a file, with its line ends as they are. Raises FileError, also for other bytes."""
    return decode_utf8(read_bytes(path, max_bytes=max_bytes), path)


def decode_utf8(content: bytes, path: Path) -> str:
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


def preview(value: Any) -> str:
    """Returns a value from a file on one line, cut off where it is long."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(text, 60)


def sha256_of_bytes(content: bytes) -> str:
    """Returns the sum of some bytes."""
    return hashlib.sha256(content).hexdigest()


def write_checksums(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write the sums of these files of a folder (None: of all its files), which are written."""
    if names is None:
        names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != CHECKSUMS)
    write_text(folder / CHECKSUMS, "".join(f"{sha256_of_file(folder / name)}  {name}\n" for name in names))


def read_checksums(folder: Path) -> dict[str, str]:
    """Returns the sums of a folder's files, by their names. Raises FileError."""
    path = folder / CHECKSUMS
    sums = {}
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), start=1):
        if not (found := re.fullmatch(r"([0-9a-f]{64})  ([^/]+)", line)):
            raise FileError(f"{path}: line {number}: damaged: it should be a SHA-256 and the name of a file beside it")
        sums[found[2]] = found[1]
    return sums


def verify_file(path: Path) -> None:
    """Compare a file with its sum in SHA256SUMS beside it. Raises FileError; see `verify_files`."""
    sums = read_checksums(path.parent) if path.exists() else {}  # what is not there is told first
    _verify_checksum(path, sums.get(path.name))


def verify_files(folder: Path) -> None:
    """Compare all files of a folder that have sums. Raises FileError, MissingFile for a file that is gone."""
    for name, wanted in read_checksums(folder).items():
        _verify_checksum(folder / name, wanted)


def _verify_checksum(path: Path, wanted: str | None) -> None:
    with open_regular(path) as file:
        if wanted is None:
            raise FileError(f"{path}: damaged: {CHECKSUMS} has no sum of it")
        if os.fstat(file.fileno()).st_size <= MAX_CHECKED_BYTES and sha256_of_file(path) != wanted:
            raise FileError(f"{path}: damaged: its content is not what was written (another SHA-256)")


def read_verified_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file that is as it was written. Raises FileError."""
    verify_file(path)
    value = read_json(path)
    if not isinstance(value, dict):
        raise FileError(f"{path}: damaged: not an object, but {preview(value)}")
    return value


@contextmanager
def _renamed_at_end(path: Path, *, clean_up: bool = True) -> Iterator[Path]:
    """Yield a place beside `path` for what the block writes and syncs; at the end it is renamed to `path`."""
    name = path.name if len(os.fsencode(path.name)) < 234 else path.name[:58]  # file systems take 255 bytes
    temporary = path.with_name(f".{name}.unfinished-{secrets.token_hex(4)}")
    with _named_in_errors(path, temporary):
        if not path.parent.exists():  # else a file in its place would be "File exists", and not "Not a directory"
            path.parent.mkdir(parents=True, exist_ok=True)
        if clean_up:
            delete_unfinished(path.parent)
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # the error above is the one to tell
                delete(temporary)
            raise
        _sync_folder(path.parent)


@contextmanager
def _named_in_errors(path: Path, temporary: Path) -> Iterator[None]:
    """Let errors of the system name what the user knows: `path`, or a file below it, instead of the temporary place."""
    try:
        yield
    except OSError as error:
        name = temporary if error.filename in (None, -1) else Path(os.fsdecode(error.filename))
        if error.errno is None or not name.is_relative_to(temporary):  # somebody's own error, of requests for example
            raise
        raise OSError(error.errno, error.strerror, str(path / name.relative_to(temporary))) from error


def _sync_folder(folder: Path) -> None:
    """Wait until a folder's list of names is on the disk, as far as its file system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
