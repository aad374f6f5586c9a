"""Which device and which arithmetic, on machines that have them and on those that have not."""

import pytest
import torch

from pretended import pretended_gpus
from transformer_cli.compute.devices import autocast, choose_device, choose_precision, describe
from transformer_cli.compute.world import ALONE, World
from transformer_cli.errors import DeviceError

CPU = torch.device("cpu")
PROBES = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")


def set_cpu(monkeypatch: pytest.MonkeyPatch, *supported: str) -> None:
    for probe in PROBES:
        monkeypatch.setattr(torch.cpu, probe, lambda probe=probe: probe in supported, raising=False)


@pytest.mark.parametrize(
    ("name", "n_gpus", "chosen"),
    [
        ("auto", 0, "cpu"),
        ("auto", 2, "cuda:0"),
        ("cpu", 2, "cpu"),
        ("cuda", 1, "cuda:0"),
        ("cuda:1", 2, "cuda:1"),
    ],
)
def test_choose_device_is_the_one_named(name: str, n_gpus: int, chosen: str) -> None:
    with pretended_gpus(n_gpus):
        assert choose_device(name) == torch.device(chosen)


@pytest.mark.parametrize(
    ("name", "n_gpus", "message"),
    [
        ("cuda", 0, "device cuda: torch sees no CUDA device here; choose cpu or auto"),
        ("cuda:1", 0, "device cuda:1: torch sees no CUDA device here; choose cpu or auto"),
        ("cuda:2", 2, "device cuda:2: torch sees only 2 here; choose cpu or auto"),
        ("cuda:256", 2, "device cuda:256: torch sees only 2 here; choose cpu or auto"),
        ("cuda:" + "9" * 30, 2, "device cuda:999999999999999999999999999999: no such device; choose auto, cpu"),
        ("cuda:-1", 2, "device cuda:-1: no such device; choose auto, cpu, cuda"),
        ("mps", 0, "device mps: no such device; choose auto, cpu, cuda"),
        ("gpu", 0, "device gpu: no such device; choose auto, cpu, cuda"),
        ("cuda:x", 2, "device cuda:x: no such device; choose auto, cpu, cuda"),
        ("meta", 0, "device meta: no such device; choose auto, cpu, cuda"),
    ],
)
def test_choose_device_that_is_not_there_is_one_line(name: str, n_gpus: int, message: str) -> None:
    with pretended_gpus(n_gpus), pytest.raises(DeviceError) as error:
        choose_device(name)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("world", "name", "n_gpus", "chosen"),
    [
        (World(5, 6, local_rank=1, local_size=2), "auto", 2, "cuda:1"),
        (World(5, 6, local_rank=1, local_size=2), "cuda", 3, "cuda:1"),
        (World(1, 2, local_rank=1, local_size=2), "auto", 0, "cpu"),
        (World(1, 2, local_rank=1, local_size=2), "cpu", 2, "cpu"),
        (ALONE, "cuda:1", 2, "cuda:1"),
    ],
)
def test_choose_device_of_each_process_is_a_gpu_of_its_own(world: World, name: str, n_gpus: int, chosen: str) -> None:
    with pretended_gpus(n_gpus):
        assert choose_device(name, world) == torch.device(chosen)


@pytest.mark.parametrize("name", ["auto", "cuda:1"])
@pytest.mark.parametrize("rank", range(3))
def test_choose_device_of_too_few_is_one_error_in_all_processes(rank: int, name: str) -> None:
    told = f"^device {name}: 3 processes here, and torch sees 2 CUDA devices; choose cuda with one process for each"
    with pretended_gpus(2), pytest.raises(DeviceError, match=told):
        choose_device(name, World(rank, 3, rank, 3))


@pytest.mark.parametrize(
    ("setting", "supported", "precision"),
    [
        ("auto", [], "float32"),
        ("auto", ["_is_avx512_bf16_supported"], "bfloat16"),
        ("auto", PROBES, "bfloat16"),
        ("float32", PROBES, "float32"),
        ("bfloat16", [], "bfloat16"),
    ],
)
def test_choose_precision_auto_on_cpu_is_bfloat16_where_it_is_faster(
    monkeypatch: pytest.MonkeyPatch, setting: str, supported: list[str], precision: str
) -> None:
    set_cpu(monkeypatch, *supported)
    assert choose_precision(setting, CPU) == precision


def test_choose_precision_without_torchs_probes_is_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    for probe in PROBES:
        monkeypatch.delattr(torch.cpu, probe, raising=False)
    assert choose_precision("auto", CPU) == "float32"


@pytest.mark.parametrize(
    ("capability", "precision"),
    [((7, 5), "float32"), ((8, 0), "bfloat16"), ((8, 6), "bfloat16"), ((9, 0), "bfloat16")],
)
def test_choose_precision_on_cuda_is_bfloat16_from_8_0(capability: tuple[int, int], precision: str) -> None:
    with pretended_gpus(1, capability=capability):
        assert choose_precision("auto", torch.device("cuda:0")) == precision


def test_autocast_float32_changes_nothing_and_bfloat16_rounds() -> None:
    matrix = torch.linspace(0.0, 1.0, 16).view(4, 4)
    with autocast(CPU, "float32"):
        assert (matrix @ matrix).equal(torch.mm(matrix, matrix))
        assert not torch.is_autocast_enabled("cpu")
    with autocast(CPU, "bfloat16"):
        assert (matrix @ matrix).dtype == torch.bfloat16


def test_describe_names_threads_or_the_gpu() -> None:
    assert describe(CPU) == "cpu, 1 thread"
    with pretended_gpus(2, "NVIDIA H200"):
        assert describe(torch.device("cuda:1")) == "cuda:1 (NVIDIA H200)"
