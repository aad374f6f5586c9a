"""Locks on files, which the system releases when a process ends, however it ends. Knows nothing of what they guard."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows, which `main` refuses
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)


class Lock(Enum):
    """What became of an attempt to lock a file."""

    HELD = "held"
    """by us, until the file is closed"""
    TAKEN = "taken"
    """by somebody else, or by another opening of the file in this process"""
    IMPOSSIBLE = "impossible"
    """the file system has no locks (Lustre without `flock`, some FUSE and NFS systems)"""


def try_lock(file: IO[Any]) -> Lock:
    """Lock an open file without waiting. NFS needs a file that is open for writing."""
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

    Raises BlockingIOError at once if the lock is held already, by this process or another one. If the file system has
    no locks, a warning says so, and no lock is held.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        lock = try_lock(file)
        if lock is Lock.TAKEN:
            raise BlockingIOError(path)
        if lock is Lock.IMPOSSIBLE:
            log.warning("%s: this file system has no locks; make sure that nobody else does the same meanwhile", path)
        yield
