"""Locks on files, which the system releases when a process ends, however it ends. Knows nothing of what they guard."""

import fcntl
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PROBE_S = 0.05  # longer than `is_locked` holds a lock

log = logging.getLogger(__name__)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[bool]:
    """Hold a lock on the file `path` during the block. Yields whether it is held.

    Raises BlockingIOError if the lock is held already, by this process or another one, and not for a moment only. If
    the file system has no locks, a warning says so, and no lock is held.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            is_held = _try_lock(file)
        except BlockingIOError:
            time.sleep(PROBE_S)  # somebody may have been asking whether it is free
            is_held = _try_lock(file)
        if not is_held:
            log.warning("%s: this file system has no locks; make sure that nobody else does the same meanwhile", path)
        yield is_held


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock on a file now; False if there is no such file, or if that cannot be told.

    It takes the lock for a moment, since there is no other way to ask; `exclusive_lock` allows for that.
    """
    try:
        with path.open("r+b") as file:
            _try_lock(file)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _try_lock(file: IO[Any]) -> bool:
    """Lock an open file without waiting. Returns False if its file system has no locks (Lustre without `flock`, …).

    Raises BlockingIOError if somebody holds the lock, or another opening of the file in this process does.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # on NFS only a file that is open for writing can be locked
    except BlockingIOError:
        raise
    except OSError:  # ENOSYS, ENOLCK, EOPNOTSUPP, …
        return False
    return True
