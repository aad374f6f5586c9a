"""Locks on files, which the system releases when a process ends, however it ends. Knows nothing of what they guard."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows, which `main` refuses
    fcntl = None  # type: ignore[assignment]

GLANCE_S = 0.05  # longer than `is_locked` holds a lock

log = logging.getLogger(__name__)


class Lock(Enum):
    """What became of an attempt to lock a file."""

    HELD = "held"
    """by us, until the file is closed"""
    TAKEN = "taken"
    """by somebody else, or by another opening of the file in this process"""
    IMPOSSIBLE = "impossible"
    """the file system has no locks (Lustre without `flock`, some FUSE and NFS systems)"""


def try_lock(file: IO[Any] | int) -> Lock:
    """Lock an open file, or a folder by its descriptor, without waiting. NFS needs a file that is open for writing."""
    if fcntl is None:
        return Lock.IMPOSSIBLE
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Lock.TAKEN
    except OSError:  # ENOSYS, ENOLCK, EOPNOTSUPP, …: only BlockingIOError means that somebody holds it
        return Lock.IMPOSSIBLE
    return Lock.HELD


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock on the file `path` during the block.

    Raises BlockingIOError if the lock is held already, by this process or another one, and not for a moment only. If
    the file system has no locks, a warning says so, and no lock is held.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        lock = try_lock(file)
        if lock is Lock.TAKEN:
            time.sleep(GLANCE_S)  # somebody may have been asking whether it is free
            lock = try_lock(file)
        if lock is Lock.TAKEN:
            raise BlockingIOError(path)
        if lock is Lock.IMPOSSIBLE:
            log.warning("%s: this file system has no locks; make sure that nobody else does the same meanwhile", path)
        yield


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock on a file now; False if there is no such file, or if that cannot be told.

    It takes the lock for a moment, since there is no other way to ask; `exclusive` allows for that.
    """
    try:
        with path.open("r+b") as file:
            return try_lock(file) is Lock.TAKEN
    except OSError:
        return False
