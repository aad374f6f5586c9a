"""Where files and folders are written before they are whole, and how what a killed process left of them is deleted.

.train.txt.unfinished-1a2b3c4d-5e6f7081         is to become train.txt
.step-0000052.unfinished-1a2b3c4d-90a1b2c3/     is to become the folder step-0000052

Whoever writes one holds a lock on it: many belong to nothing that could be locked instead, such as the output of
`tfm translate`. The first number is that of this boot of this system, the second is random. Knows nothing of what is
written.
"""

import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from transformer_cli.system.locks import Lock, try_lock

PATIENCE_S = 24 * 3600.0  # without a write, where no lock can tell whether somebody still writes
NAME = re.compile(r"\..+\.unfinished-([0-9a-f]{8})-[0-9a-f]{8}", re.DOTALL)


def begin_file(path: Path) -> tuple[Path, BinaryIO]:
    """Returns a new empty file in the folder of `path`, and the same opened for writing and locked. Raises OSError."""
    while True:
        temporary = _beside(path)
        file = temporary.open("xb")
        if try_lock(file) is not Lock.TAKEN and temporary.exists():
            return temporary, file
        file.close()  # a `sweep` came between the two, and took it for a file that was left


def begin_folder(path: Path) -> tuple[Path, int]:
    """Returns a new folder beside `path`, and a descriptor of it that holds its lock until it is closed."""
    while True:
        temporary = _beside(path)
        temporary.mkdir()
        with suppress(FileNotFoundError):  # a `sweep` came first, as above
            descriptor = os.open(temporary, os.O_RDONLY)
            if try_lock(descriptor) is not Lock.TAKEN and temporary.exists():
                return temporary, descriptor
            os.close(descriptor)


def sweep(folder: Path) -> None:
    """Delete the unfinished files and folders in `folder` that nobody writes any more. Raises no error.

    What was begun under this boot of this system goes as soon as its lock is free. Where that does not show whether
    somebody still writes, it goes after a day without a write: if the file system has no locks (NFS has none on
    folders), or if another system began it, since some file systems show a lock only to the system that holds it.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(".") and not entry.is_symlink()]
        for name in filter(None, map(NAME.fullmatch, names)):
            with suppress(OSError):  # somebody else's
                _sweep(folder / name[0], is_ours=name[1] == _system())


def delete(path: Path) -> None:
    """Delete a file or a whole folder, if there is one; of a link, the link and not what it points to. Raises OSError.

    Of a folder that cannot be deleted some files may be gone afterwards.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sweep(left: Path, *, is_ours: bool) -> None:
    descriptor = os.open(left, os.O_RDONLY if left.is_dir() else os.O_RDWR)  # NFS locks what is open for writing
    try:
        lock = try_lock(descriptor)
        if (lock is Lock.HELD and is_ours) or (lock is not Lock.TAKEN and _is_idle(left)):
            delete(left)
    finally:
        os.close(descriptor)


def _is_idle(left: Path) -> bool:
    """Whether nothing has been written for so long that nobody can still be at it."""
    newest = max(path.lstat().st_mtime for path in (left, *left.rglob("*")))
    return time.time() - newest > PATIENCE_S


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished-{_system()}-{secrets.token_hex(4)}")


@cache
def _system() -> str:
    """A hash that tells this boot of this system from others: its processes see one another's locks for certain."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except (OSError, ValueError):  # macOS
        boot = platform.node()
    return hashlib.sha256(boot.encode()).hexdigest()[:8]
