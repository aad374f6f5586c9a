"""Free memory of machines and containers that are written down as files, and how a shortage is told."""

from pathlib import Path

import pytest
import torch

from transformer_cli.compute.memory import free_memory, in_words, room_for
from transformer_cli.errors import ConfigError, MemoryShortage

GB = 10**9
MEMINFO = f"MemTotal: {8 * GB // 1024} kB\nMemAvailable:   {4 * GB // 1024} kB\nSwapFree: {GB // 1024} kB\n"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("files", "free"),
    [
        pytest.param({}, None, id="a system that does not say"),
        pytest.param({"proc/meminfo": MEMINFO}, 5 * GB, id="no container"),
        pytest.param(
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": f"{2 * GB}\n",
                "sys/fs/cgroup/memory.current": f"{GB}\n",
                "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {GB // 2}\nactive_file 3\n",
            },
            3 * GB // 2,
            id="version 2, a third of it cached files",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/user.slice/job\n",
                "sys/fs/cgroup/user.slice/memory.max": f"{3 * GB}\n",
                "sys/fs/cgroup/user.slice/memory.current": f"{2 * GB}\n",
                "sys/fs/cgroup/user.slice/job/memory.max": "max\n",
                "sys/fs/cgroup/user.slice/job/memory.current": f"{GB}\n",
            },
            GB,
            id="version 2, the limit is above",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/job\n",
                "sys/fs/cgroup/job/memory.max": f"{GB}\n",
                "sys/fs/cgroup/job/memory.current": f"{2 * GB}\n",
            },
            0,
            id="version 2, more than the limit is in use",
        ),
        pytest.param({"proc/self/cgroup": "9:memory:/docker/0ab\n0::/gone\n"}, 5 * GB, id="nothing to be read"),
    ],
)
def test_free_memory_of_machines_and_containers(tmp_path: Path, files: dict[str, str], free: int | None) -> None:
    root = write(tmp_path, {"proc/meminfo": MEMINFO, **files} if files else {})
    found = free_memory(root=root)
    assert found == (None if free is None else pytest.approx(free, abs=3000))  # meminfo counts in kB


def test_free_memory_of_a_gpu_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3 * GB, 8 * GB))
    assert free_memory(torch.device("cuda:0")) == 3 * GB


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has …"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried …"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4 bytes."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
    ids=lambda error: str(error)[:20] or "MemoryError",
)
def test_room_for_tells_a_shortage_in_its_own_words(error: Exception) -> None:
    with pytest.raises(MemoryShortage) as told, room_for(lambda: "the cake does not fit; eat less"):
        raise error
    assert str(told.value) == "the cake does not fit; eat less"
    assert issubclass(MemoryShortage, ConfigError)


def test_room_for_tells_a_real_shortage() -> None:
    with pytest.raises(MemoryShortage, match="too much"), room_for(lambda: "too much"):
        torch.empty(1 << 60, dtype=torch.uint8)


def test_room_for_passes_another_error_on() -> None:
    with pytest.raises(RuntimeError, match="shapes"), room_for(lambda: "never"):
        raise RuntimeError("shapes do not fit")


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [(0, "0 kB"), (34_200, "34 kB"), (3 * 10**6, "3 MB"), (1.5e9, "1.5 GB"), (1.2e13, "12,000.0 GB")],
)
def test_in_words_says_bytes_in_the_largest_unit(n_bytes: int, words: str) -> None:
    assert in_words(n_bytes) == words
