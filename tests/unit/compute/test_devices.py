"""Which device, which arithmetic and how much memory, on machines that have them and on those that have not."""

from pathlib import Path

import pytest
import torch

from pretended import pretended_gpus
from tables import read_table, read_tables
from transformer_cli.compute import devices
from transformer_cli.compute.devices import catch_oom, choose_device, choose_precision, describe_device, free_memory
from transformer_cli.compute.world import SINGLE_PROCESS, World
from transformer_cli.errors import ConfigError, DeviceError, MemoryShortage

CPU = torch.device("cpu")
PROBES = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
GB = 10**9
MEMINFO = f"MemTotal: {8 * GB // 1024} kB\nMemAvailable:   {4 * GB // 1024} kB\nSwapFree: {GB // 1024} kB\n"


@pytest.mark.parametrize(("device", "message"), read_table(Path(__file__).with_name("missing_devices.txt")))
def test_choose_device_missing_raises_device_error(device: str, message: str) -> None:
    name, _, n_gpus = device.partition(" of ")
    with pretended_gpus(int(n_gpus)), pytest.raises(DeviceError) as error:
        choose_device(name)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("world", "name", "n_gpus", "chosen"),
    [
        *((SINGLE_PROCESS, "auto", 0, "cpu"), (SINGLE_PROCESS, "auto", 2, "cuda:0")),
        *((SINGLE_PROCESS, "cpu", 2, "cpu"), (SINGLE_PROCESS, "cuda", 1, "cuda:0")),
        (SINGLE_PROCESS, "cuda:1", 2, "cuda:1"),
        (World(5, 6, local_rank=1, local_size=2), "auto", 2, "cuda:1"),
        (World(5, 6, local_rank=1, local_size=2), "cuda", 3, "cuda:1"),
        (World(1, 2, local_rank=1, local_size=2), "auto", 0, "cpu"),
        (World(1, 2, local_rank=1, local_size=2), "cpu", 2, "cpu"),
    ],
)
def test_choose_device_gives_each_process_its_own(world: World, name: str, n_gpus: int, chosen: str) -> None:
    with pretended_gpus(n_gpus):
        assert choose_device(name, world) == torch.device(chosen)


@pytest.mark.parametrize("name", ["auto", "cuda:1"])
@pytest.mark.parametrize("rank", range(3))
def test_choose_device_too_few_raises_in_all_processes(rank: int, name: str) -> None:
    told = f"^device {name}: 3 processes here, and torch sees 2 CUDA devices; choose cuda and start one process for"
    with pretended_gpus(2), pytest.raises(DeviceError, match=told):
        choose_device(name, World(rank, 3, rank, 3))


@pytest.mark.parametrize(
    ("setting", "supported", "precision"),
    [
        *(("auto", [], "float32"), ("auto", ["_is_avx512_bf16_supported"], "bfloat16")),
        *(("auto", PROBES, "bfloat16"), ("float32", PROBES, "float32"), ("bfloat16", [], "bfloat16")),
    ],
)
def test_choose_precision_auto_on_cpu_is_bfloat16_if_fast(
    monkeypatch: pytest.MonkeyPatch, setting: str, supported: list[str] | None, precision: str
) -> None:
    for probe in PROBES:
        if supported is None:
            monkeypatch.delattr(torch.cpu, probe, raising=False)
        else:
            monkeypatch.setattr(torch.cpu, probe, lambda probe=probe: probe in supported, raising=False)
    assert choose_precision(setting, CPU) == precision


@pytest.mark.parametrize(
    ("capability", "precision"),
    [((7, 5), "float32"), ((8, 0), "bfloat16"), ((8, 6), "bfloat16"), ((9, 0), "bfloat16")],
)
def test_choose_precision_on_cuda_8_0_is_bfloat16(capability: tuple[int, int], precision: str) -> None:
    with pretended_gpus(1, capability=capability):
        assert choose_precision("auto", torch.device("cuda:0")) == precision


def test_autocast_rounds_only_in_bfloat16() -> None:
    matrix = torch.linspace(0.0, 1.0, 16).view(4, 4)
    with devices.autocast(CPU, "float32"):
        assert (matrix @ matrix).equal(torch.mm(matrix, matrix))
        assert not torch.is_autocast_enabled("cpu")
    with devices.autocast(CPU, "bfloat16"):
        assert (matrix @ matrix).dtype == torch.bfloat16


def test_describe_device_names_threads_or_gpu() -> None:
    assert describe_device(CPU) == "cpu, 1 thread"
    with pretended_gpus(2, "NVIDIA H200"):
        assert describe_device(torch.device("cuda:1")) == "cuda:1 (NVIDIA H200)"


@pytest.mark.parametrize(("files", "free"), read_tables(Path(__file__).with_name("memory.txt"), MEMINFO=MEMINFO)[""])
def test_free_memory_of_machines_and_containers(tmp_path: Path, files: str, free: str) -> None:
    for file in [] if files == "none" else [f"proc/meminfo: {MEMINFO}", *files.split(" ¦ ")]:
        name, _, text = file.partition(": ")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = free_memory(root=tmp_path)
    assert found == (None if free == "unknown" else pytest.approx(int(free) * 10**6, abs=3000))  # meminfo counts in kB


def test_free_memory_of_gpu_is_mem_get_info(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_catch_oom_raises_with_its_message(error: Exception) -> None:
    with pytest.raises(MemoryShortage) as told, catch_oom(lambda: "the cake does not fit; eat less"):
        raise error
    assert str(told.value) == "the cake does not fit; eat less"
    assert issubclass(MemoryShortage, ConfigError)


def test_catch_oom_catches_a_real_shortage_and_passes_other_errors_on() -> None:
    with pytest.raises(MemoryShortage, match="too much"), catch_oom(lambda: "too much"):
        torch.empty(1 << 60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="shapes"), catch_oom(lambda: "never"):
        raise RuntimeError("shapes do not fit")


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [(0, "0 kB"), (34_200, "34 kB"), (3 * 10**6, "3 MB"), (1.5e9, "1.5 GB"), (1.2e13, "12,000.0 GB")],
)
def test_format_bytes_uses_the_largest_unit(n_bytes: int, words: str) -> None:
    assert devices.format_bytes(n_bytes) == words
