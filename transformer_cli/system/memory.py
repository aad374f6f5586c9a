"""How glibc hands out the memory of this process. Knows nothing of what it holds."""

import ctypes

# The parameters of mallopt(3), and their values: no block of its own for a large tensor, nothing is given back, and one
# arena for all threads, since each arena would keep memory of its own.
KEPT = {"M_MMAP_THRESHOLD": (-3, 1 << 30), "M_TRIM_THRESHOLD": (-1, (1 << 31) - 1), "M_ARENA_MAX": (-8, 1)}


def keep_freed_memory() -> None:
    """Let the process keep the memory that it frees, so that a training step needs few new pages from the system.

    Call it before the first thread starts. Where there is no glibc, it does nothing.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        for parameter, value in KEPT.values():
            libc.mallopt(parameter, value)
