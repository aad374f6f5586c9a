"""How much memory this process may still take, and what it looks like when that was too little. Knows no models."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli.errors import MemoryShortage

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import torch

SHORTAGES = re.compile(r"can't allocate memory|not enough memory|out of memory|ALLOC_FAILED")  # in errors of torch
CGROUPS = {  # of version 2 and 1: folder, files of limit and use; in memory.stat: cached files, which can be dropped
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def free_memory(device: "torch.device | None" = None, *, root: Path = Path("/")) -> int | None:
    """Returns how many bytes are free on a CUDA device, or for this process in the machine's memory (None: unknown).

    The machine's memory includes free swap. A container's limit counts (cgroup version 1 or 2, and of the groups above
    it), and so does `ulimit -v`. root: where /proc and /sys are.
    """
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return min((max(0, free) for free in _free(root)), default=None)


def total_memory() -> int | None:
    """Returns how many bytes of memory the machine has, whether this process may take them or not (None: unknown)."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


@contextmanager
def room_for(what: Callable[[], str]) -> Iterator[None]:
    """A block that may ask for more memory than there is. Raises MemoryShortage if so, with the words of `what`.

    what: returns what did not fit, and what to do: "a batch of … does not fit in memory; lower …".
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or SHORTAGES.search(str(error)):
            raise MemoryShortage(what()) from None
        raise


def in_words(n_bytes: int) -> str:
    """Returns a number of bytes as 34 kB, 512 MB or 1.5 GB."""
    if n_bytes < 1e6:
        return f"{n_bytes / 1e3:,.0f} kB"
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:,.0f} MB"


def _free(root: Path) -> Iterator[int]:
    """What is free in the machine, in each control group that this process is in, and by `ulimit -v`."""
    machine = dict(re.findall(r"(\w+):\s+(\d+) kB", _text(root / "proc/meminfo")))
    if "MemAvailable" in machine:
        yield (int(machine["MemAvailable"]) + int(machine.get("SwapFree", 0))) * 1024
    for controllers, path in re.findall(r"^\d+:(.*?):(.*)", _text(root / "proc/self/cgroup"), re.MULTILINE):
        for controller in CGROUPS.keys() & controllers.split(","):  # 0::/user.slice, or 9:cpuset,memory:/docker/0ab…
            folder, *files, cached_key = CGROUPS[controller]
            top, inside = root / "sys/fs/cgroup" / folder, Path(path.lstrip("/"))
            for group in (inside, *inside.parents):  # in a container `path` may be the host's; then only top is there
                limit, use = (_text(top / group / name).strip() for name in files)
                if limit.isdigit() and use.isdigit():
                    cached = re.search(rf"^{cached_key} (\d+)$", _text(top / group / "memory.stat"), re.MULTILINE)
                    yield int(limit) - int(use) + (int(cached[1]) if cached else 0)
    pages = _text(root / "proc/self/statm").split(" ")[0]
    if resource is not None and pages.isdigit():
        limit_of_process, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit_of_process != resource.RLIM_INFINITY:
            yield limit_of_process - int(pages) * resource.getpagesize()


def _text(path: Path) -> str:
    """Returns what the system says in a file, or nothing."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
