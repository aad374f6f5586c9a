"""The device to compute on, its precision and its free memory. Does not know models or runs."""

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
MAX_SHARDS = 8  # unless the setting asks for more; each shard costs an addition of all gradients
OOM_MESSAGES = re.compile(r"can't allocate memory|not enough memory|out of memory|ALLOC_FAILED")  # in errors of torch


def parse_device(name: str, n_cuda: int, library: str) -> tuple[str, int]:
    """Returns the kind of a device (cpu or cuda) and its index (0 for the CPU).

    name: cpu, cuda, cuda:N or auto (the first CUDA device, else the CPU). n_cuda: the CUDA devices that `library` sees.
    Raises DeviceError if there is no such device.
    """
    if name == "auto":
        return "cuda" if n_cuda else "cpu", 0
    named = re.fullmatch(r"cpu|cuda(?::(\d{1,9}))?", name)  # torch reads cuda:256 as cuda:0
    if not named:
        raise DeviceError(f"device {name}: no such device; choose auto, cpu, cuda or cuda:N")
    kind, index = name.partition(":")[0], int(named[1] or 0)
    if kind == "cuda" and index >= n_cuda:
        found = f"{library} sees only {n_cuda} here" if n_cuda else f"{library} sees no CUDA device here"
        raise DeviceError(f"device {name}: {found}; choose cpu or auto")
    return kind, index


def choose_device(name: str, world: World = SINGLE_PROCESS) -> "torch.device":
    """Returns the torch device of this name (see `parse_device`); several processes get a CUDA device each.

    Raises DeviceError if this machine lacks the device, or has fewer devices than processes.
    """
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind, index = parse_device(name, count, "torch")
    if kind == "cpu" or world.size == 1:
        return torch.device(kind, index) if kind == "cuda" else torch.device(kind)
    if kind != "cuda" or ":" in name or world.local_size > count:
        raise DeviceError(
            f"device {name}: {world.local_size} processes here, and torch sees {pluralize(count, 'CUDA device')}; "
            "choose cuda and start one process for each device, or choose cpu"
        )
    return torch.device("cuda", world.local_rank)


def choose_precision(setting: str, device: "torch.device") -> Precision:
    """Returns the precision of a setting; auto is bfloat16 where it is fast, else float32.

    It is fast on CPUs with AMX or AVX512-BF16, and on CUDA devices of compute capability 8.0 or higher.
    """
    if setting == "bfloat16" or (setting == "auto" and bfloat16_unit(device)):
        return "bfloat16"
    return "float32"


def choose_shards(setting: int | None, world: World) -> int:
    """Returns the number of shards per process on a CPU: the setting, else one per core, at most 8.

    The processes of a machine share its cores.
    """
    return setting or min(MAX_SHARDS, max(1, available_cores() // world.local_size))


def autocast(device: "torch.device", precision: Precision) -> AbstractContextManager[object]:
    """Within the block, compute matrix products in this precision. Weights, and sensitive operations, stay float32."""
    if precision == "float32":
        return nullcontext()
    import torch

    is_cached = device.type != "cpu"  # threads share the cache, and the end of one shard's block would clear it
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=is_cached)


def device_name(device: "torch.device") -> str:
    """Returns the name of a device: "NVIDIA H200", "cpu"."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def describe_device(device: "torch.device") -> str:
    """Returns a description of a device: `cuda:0 (NVIDIA H200)`, `cpu, 2 threads`."""
    import torch

    if device.type == "cuda":
        return f"{device} ({device_name(device)})"
    return f"cpu, {pluralize(torch.get_num_threads(), 'thread')}"


def bfloat16_unit(device: "torch.device") -> str:
    """Returns the hardware unit that makes bfloat16 fast, such as "AVX512-BF16"; "" if none is known."""
    import torch

    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return f"compute capability {major}.{minor}" if major >= 8 else ""
    units = {"AMX": "amx_tile", "AVX512-BF16": "avx512_bf16"}
    found = (name for name, probe in units.items() if getattr(torch.cpu, f"_is_{probe}_supported", lambda: False)())
    return next(found, "")


def int8_sums_overflow() -> bool:
    """Whether sums of int8 products overflow: on x86 without VNNI instructions they saturate at 16 bits."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    with suppress(OSError):
        return " avx512_vnni" not in CPU_INFO.read_text(errors="replace")
    return True


def free_memory(device: "torch.device | None" = None, *, root: Path = Path("/")) -> int | None:
    """Returns the free bytes of a CUDA device, or of the memory that this process may use (None: unknown).

    Memory includes free swap, and is limited by the container and the cgroups (version 2) above it. root: the folder of
    /proc and /sys.
    """
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    limits = []
    meminfo = dict(re.findall(r"(\w+):\s+(\d+) kB", _read_text(root / "proc/meminfo")))
    if "MemAvailable" in meminfo:
        limits.append((int(meminfo["MemAvailable"]) + int(meminfo.get("SwapFree", 0))) * 1024)
    if group := re.search(r"^0::/(.*)", _read_text(root / "proc/self/cgroup"), re.MULTILINE):  # 0::/user.slice/job
        inside = Path(group[1])
        for each in (inside, *inside.parents):
            folder = root / "sys/fs/cgroup" / each
            limit, use = _read_text(folder / "memory.max").strip(), _read_text(folder / "memory.current").strip()
            if limit.isdigit() and use.isdigit():  # a group without a limit says "max"
                cached = re.search(r"^inactive_file (\d+)$", _read_text(folder / "memory.stat"), re.MULTILINE)
                droppable = int(cached[1]) if cached else 0  # cached files
                limits.append(max(0, int(limit) - int(use) + droppable))
    return min(limits, default=None)


@contextmanager
def catch_oom(message: Callable[[], str]) -> Iterator[None]:
    """Raise MemoryShortage if the block runs out of memory.

    message: returns the error's text, such as "a batch of … does not fit in memory; lower …".
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or OOM_MESSAGES.search(str(error)):
            raise MemoryShortage(message()) from None
        raise


def format_bytes(n_bytes: int) -> str:
    """Returns a size in bytes as text: 34 kB, 512 MB or 1.5 GB."""
    if n_bytes < 1e6:
        return f"{n_bytes / 1e3:,.0f} kB"
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:,.0f} MB"


def _read_text(path: Path) -> str:
    """Returns the text of a system file; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
