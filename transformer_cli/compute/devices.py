"""Which device computes, with which precision, and how much memory is free. Knows nothing of models or runs."""

import platform
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from transformer_cli.compute.threads import available_cores
from transformer_cli.compute.world import SINGLE_PROCESS, World
from transformer_cli.errors import DeviceError, MemoryShortage
from transformer_cli.system.terminal import pluralize

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "bfloat16"]

CPU_INFO = Path("/proc/cpuinfo")
MAX_SHARDS = 8  # chosen by themselves; each one more costs an addition of all gradients
OOM_MESSAGES = re.compile(r"can't allocate memory|not enough memory|out of memory|ALLOC_FAILED")  # in errors of torch


def parse_device(name: str, n_cuda: int, library: str) -> tuple[str, int]:
    """Returns the kind of the named device (cpu or cuda) and its index, which is 0 but for CUDA.

    auto is the first CUDA device, else the CPU. n_cuda: how many CUDA devices the library
    sees. Raises DeviceError if there is no such device.
    """
    if name == "auto":
        return "cuda" if n_cuda else "cpu", 0
    named = re.fullmatch(r"cpu|cuda(?::(\d{1,9}))?", name)  # torch itself takes cuda:256 for cuda:0
    if not named:
        raise DeviceError(f"device {name}: no such device; choose auto, cpu, cuda or cuda:N")
    kind, index = name.partition(":")[0], int(named[1] or 0)
    if kind == "cuda" and index >= n_cuda:
        found = f"{library} sees only {n_cuda} here" if n_cuda else f"{library} sees no CUDA device here"
        raise DeviceError(f"device {name}: {found}; choose cpu or auto")
    return kind, index


def choose_device(name: str, world: World = SINGLE_PROCESS) -> "torch.device":
    """Returns the named device of torch; if several processes run on a machine, each gets a CUDA device of its own.

    Raises DeviceError if this machine does not have it, or not one for each process; see `parse_device`.
    """
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind, index = parse_device(name, count, "torch")
    if kind == "cpu" or world.size == 1:
        return torch.device(kind, index) if kind == "cuda" else torch.device(kind)
    if kind != "cuda" or ":" in name or world.local_size > count:
        raise DeviceError(
            f"device {name}: {world.local_size} processes here, and torch sees {pluralize(count, 'CUDA device')}; "
            "choose cuda with one process for each device, so that each takes its own, or cpu"
        )
    return torch.device("cuda", world.local_rank)


def choose_precision(setting: str, device: "torch.device") -> Precision:
    """Returns the set precision; auto is bfloat16 where the hardware is fast at it, else float32.

    Fast are CPUs with AMX or AVX512-BF16, and CUDA devices of compute capability 8.0 or higher.
    """
    if setting == "bfloat16" or (setting == "auto" and bfloat16_unit(device)):
        return "bfloat16"
    return "float32"


def choose_shards(setting: int | None, world: World) -> int:
    """Returns in how many shards each process computes on a CPU: the set number, else one for each core that it has.

    The processes of a machine share its cores; each has at least one shard, and at most 8.
    """
    return setting or min(MAX_SHARDS, max(1, available_cores() // world.local_size))


def autocast(device: "torch.device", precision: Precision) -> AbstractContextManager[object]:
    """Compute matrix products in the given precision. All weights, and operations that need more, stay in float32."""
    if precision == "float32":
        return nullcontext()
    import torch

    is_cached = (
        device.type != "cpu"
    )  # all threads share the cache of weights that were cast, and shards end at any time
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=is_cached)


def device_name(device: "torch.device") -> str:
    """Returns what a device is: "NVIDIA H200", "cpu"."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def describe_device(device: "torch.device") -> str:
    """Returns the device in words: `cuda:0 (NVIDIA H200)`, `cpu, 2 threads`."""
    import torch

    if device.type == "cuda":
        return f"{device} ({device_name(device)})"
    return f"cpu, {pluralize(torch.get_num_threads(), 'thread')}"


def bfloat16_unit(device: "torch.device") -> str:
    """Returns by what a device is fast at bfloat16, such as "AVX512-BF16"; "" if it is not, or unknown to be."""
    import torch

    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return f"compute capability {major}.{minor}" if major >= 8 else ""
    units = {"AMX": "amx_tile", "AVX512-BF16": "avx512_bf16"}
    found = (name for name, probe in units.items() if getattr(torch.cpu, f"_is_{probe}_supported", lambda: False)())
    return next(found, "")


def int8_sums_overflow() -> bool:
    """Whether sums of int8 products may overflow 16 bits: on x86 without VNNI instructions they are cut off there."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    with suppress(OSError):
        return " avx512_vnni" not in CPU_INFO.read_text(errors="replace")
    return True


def free_memory(device: "torch.device | None" = None, *, root: Path = Path("/")) -> int | None:
    """Returns how many bytes are free on a CUDA device, or for this process in the machine's memory (None: unknown).

    The machine's memory includes free swap. The limits of a container and of the groups above it count (cgroup version
    2). root: where /proc and /sys are.
    """
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    found = []
    machine = dict(re.findall(r"(\w+):\s+(\d+) kB", _read_text(root / "proc/meminfo")))
    if "MemAvailable" in machine:
        found.append((int(machine["MemAvailable"]) + int(machine.get("SwapFree", 0))) * 1024)
    if group := re.search(r"^0::/(.*)", _read_text(root / "proc/self/cgroup"), re.MULTILINE):  # 0::/user.slice/job
        inside = Path(group[1])
        for each in (inside, *inside.parents):
            folder = root / "sys/fs/cgroup" / each
            limit, use = _read_text(folder / "memory.max").strip(), _read_text(folder / "memory.current").strip()
            if limit.isdigit() and use.isdigit():  # a group without a limit says "max"
                cached = re.search(r"^inactive_file (\d+)$", _read_text(folder / "memory.stat"), re.MULTILINE)
                found.append(max(0, int(limit) - int(use) + (int(cached[1]) if cached else 0)))  # files can be dropped
    return min(found, default=None)


@contextmanager
def catch_oom(what: Callable[[], str]) -> Iterator[None]:
    """A block that may ask for more memory than there is. Raises MemoryShortage if so, with the words of `what`.

    what: returns what did not fit, and what to do: "a batch of … does not fit in memory; lower …".
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or OOM_MESSAGES.search(str(error)):
            raise MemoryShortage(what()) from None
        raise


def format_bytes(n_bytes: int) -> str:
    """Returns a number of bytes as 34 kB, 512 MB or 1.5 GB."""
    if n_bytes < 1e6:
        return f"{n_bytes / 1e3:,.0f} kB"
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:,.0f} MB"


def _read_text(path: Path) -> str:
    """Returns what the system says in a file; nothing where it does not."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
