"""How much memory this process may still take, and what it looks like when that was too little. Knows no models."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli.errors import MemoryShortage

if TYPE_CHECKING:
    import torch

SHORTAGES = re.compile(r"can't allocate memory|not enough memory|out of memory|ALLOC_FAILED")  # in errors of torch


def free_memory(device: "torch.device | None" = None, *, root: Path = Path("/")) -> int | None:
    """Returns how many bytes are free on a CUDA device, or for this process in the machine's memory (None: unknown).

    The machine's memory includes free swap. The limits of a container and of the groups above it count (cgroup version
    2). root: where /proc and /sys are.
    """
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    found = []
    machine = dict(re.findall(r"(\w+):\s+(\d+) kB", _text(root / "proc/meminfo")))
    if "MemAvailable" in machine:
        found.append((int(machine["MemAvailable"]) + int(machine.get("SwapFree", 0))) * 1024)
    if group := re.search(r"^0::/(.*)", _text(root / "proc/self/cgroup"), re.MULTILINE):  # 0::/user.slice/job
        inside = Path(group[1])
        for each in (inside, *inside.parents):
            folder = root / "sys/fs/cgroup" / each
            limit, use = _text(folder / "memory.max").strip(), _text(folder / "memory.current").strip()
            if limit.isdigit() and use.isdigit():  # a group without a limit says "max"
                cached = re.search(r"^inactive_file (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
                found.append(max(0, int(limit) - int(use) + (int(cached[1]) if cached else 0)))  # files can be dropped
    return min(found, default=None)


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


def _text(path: Path) -> str:
    """Returns what the system says in a file; nothing where it does not."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
