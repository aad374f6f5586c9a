"""File locks, which the operating system releases when a process ends in any way. Knows nothing of what they guard."""

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

    Raises BlockingIOError if this or another process holds the lock. If the file system has no locks, logs a warning
    and holds none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            is_held = _try_lock(file)
        except BlockingIOError:
            time.sleep(PROBE_S)  # it may have been `is_locked`
            is_held = _try_lock(file)
        if not is_held:
            log.warning("%s: this file system has no locks; make sure that no other process writes there", path)
        yield is_held


def is_locked(path: Path) -> bool:
    """Whether the lock on a file is held now; False if the file does not exist or the file system has no locks.

    Takes the lock for a moment, since there is no other way to find out; `exclusive_lock` waits for that.
    """
    try:
        with path.open("r+b") as file:
            _try_lock(file)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _try_lock(file: IO[Any]) -> bool:
    """Lock an open file without waiting. Returns False if its file system has no locks (Lustre without `flock`, …).

    Raises BlockingIOError if another process, or another file object of this process, holds the lock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # NFS needs a file that is open for writing
    except BlockingIOError:
        raise
    except OSError:  # ENOSYS, ENOLCK, EOPNOTSUPP, …
        return False
    return True
