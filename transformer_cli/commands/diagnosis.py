"""What a bug report needs to know of a machine: versions, folders, how it computes (`tfm doctor`). Changes nothing.

Imports torch in `computing` alone, so that the rest is known even if torch cannot be imported.
"""

import os
import platform
import re
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from transformer_cli.compute.memory import free_memory, total_memory
from transformer_cli.data.corpora.multi30k import cache_folder
from transformer_cli.data.vectors import downloads_folder
from transformer_cli.system.files import bytes_in
from transformer_cli.system.keyboard import history_file
from transformer_cli.system.locks import Lock, try_lock

if TYPE_CHECKING:
    import torch

    from transformer_cli.compute.devices import Precision

PACKAGE = "transformer-cli"
VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|CUDA|PYTORCH)_\w+|TFM_MULTI30K_DIR|GENSIM_DATA_DIR|MPLCONFIGDIR|XDG_(CACHE|STATE)_HOME"
    r"|TMPDIR|TERM|NO_COLOR|LANG|LC_ALL|RANK|WORLD_SIZE"
)


@dataclass(frozen=True)
class Software:
    """What is installed."""

    tfm: str | None
    folder: str
    """of the package"""
    python: str
    executable: str
    system: str
    packages: dict[str, str | None]
    """what tfm needs → its version, or None if it is not installed"""
    extras: dict[str, dict[str, str | None]]
    """extra → what it needs, likewise; extras that only add up others are left out"""
    variables: dict[str, str]
    """environment variables that have an influence"""


@dataclass(frozen=True)
class Place:
    """A folder in which tfm keeps something."""

    path: str
    entries: int | None
    """how many datasets, runs or files are in it; None if it is not there"""
    bytes: int


@dataclass(frozen=True)
class Places:
    """Where things lie."""

    folder: str
    """the current one"""
    problem: str | None
    """why nothing can be written there"""
    locks: bool | None
    """whether its file system has locks; None if that is unknown"""
    disk_free: int | None
    """bytes"""
    disk_total: int | None
    data: Place
    runs: Place
    downloads: Place
    vectors: Place
    """what gensim's downloader has fetched"""
    history: Place
    """what was typed into the interactive translator"""


@dataclass(frozen=True)
class Computing:
    """With what tfm computes here, if it is told nothing."""

    cpu: str
    cores: int
    """that this process may use"""
    load: float | None
    """processes that wanted a core in the last minute, on average"""
    memory_free: int | None
    """bytes that this process may still take"""
    memory_total: int | None
    threads: int | None = None
    device: str | None = None
    """what `device: auto` chooses; None, and so the rest, if torch cannot be imported"""
    device_reason: str = ""
    device_memory_free: int | None = None
    """of a GPU"""
    precision: str | None = None
    """what `precision: auto` chooses"""
    precision_reason: str = ""
    rates: dict[str, float | None] = field(default_factory=dict)
    """precision → operations per second when large matrices are multiplied; None if the device cannot"""
    problem: str | None = None
    """why torch cannot be imported"""


def software() -> Software:
    """Returns what is installed. Imports none of it."""
    requirements: list[str] = []
    with suppress(metadata.PackageNotFoundError):
        requirements = metadata.requires(PACKAGE) or []
    packages: dict[str, str | None] = {}
    extras: dict[str, dict[str, str | None]] = {}
    for requirement in requirements:  # gensim>=4.3; extra == "vectors"
        needed, _, marker = requirement.partition(";")
        name = re.split(r"[^\w.-]", needed)[0]
        extra = re.search(r"""extra\s*==\s*["']([^"']+)""", marker)
        group = packages if extra is None else extras.setdefault(extra[1], {})
        group[name] = _version(name)
    return Software(
        tfm=_version(PACKAGE),
        folder=str(Path(__file__).parents[1]),
        python=platform.python_version(),
        executable=sys.executable,
        system=platform.platform(),
        packages=packages,
        extras={extra: needed for extra, needed in extras.items() if PACKAGE not in needed},
        variables={name: value for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)},
    )


def places(*, data_dir: Path = Path("data"), runs_dir: Path = Path("runs")) -> Places:
    """Returns where things lie. A file without a name is made in the current folder, to see whether that works."""
    folder, problem, locks, disk = ".", None, None, None
    try:
        folder = os.getcwd()
        disk = shutil.disk_usage(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            locks = try_lock(file) is Lock.HELD
    except OSError as error:
        problem = error.strerror or str(error)
    return Places(
        folder=folder,
        problem=problem,
        locks=locks,
        disk_free=disk.free if disk else None,
        disk_total=disk.total if disk else None,
        data=_place(data_dir, "*/manifest.json", folder),
        runs=_place(runs_dir, "*/run.json", folder),
        downloads=_place(cache_folder(), "*", folder),
        vectors=_place(downloads_folder(), "*/*", folder),
        history=_place(history_file().parent, "*", folder),
    )


def computing() -> Computing:
    """Returns with what tfm computes here, and how fast; after torch is imported this takes a second."""
    known = Computing(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        memory_free=free_memory(),
        memory_total=total_memory(),
    )
    try:
        import torch
    except (ImportError, OSError) as error:
        return replace(known, problem=" ".join(str(error).split()))
    from transformer_cli.compute.devices import (
        Precision,
        choose_device,
        choose_precision,
        describe,
        fast_at_bfloat16,
    )

    device = choose_device("auto")
    is_cpu = device.type == "cpu"
    built_with = f"torch is built with CUDA {torch.version.cuda}" if torch.version.cuda else "this torch has no CUDA"
    fast = fast_at_bfloat16(device)
    slow = "no AVX512-BF16 or AMX here" if is_cpu else "its compute capability is below 8.0"
    return replace(
        known,
        threads=torch.get_num_threads(),
        device=describe(device),
        device_reason=f"{built_with}, and sees no device for it" if torch.version.cuda and is_cpu else built_with,
        device_memory_free=None if is_cpu else free_memory(device),
        precision=choose_precision("auto", device),
        precision_reason=f"fast here by {fast}" if fast else slow,
        rates={precision: _rate(device, precision) for precision in get_args(Precision)},
    )


def _rate(device: "torch.device", precision: "Precision") -> float | None:
    from transformer_cli.compute.rates import matrix_rate

    try:
        return matrix_rate(device, precision)
    except RuntimeError:  # not in this precision, or no memory is free
        return None


def _place(folder: Path, pattern: str, inside: str) -> Place:
    path = str(Path(inside, folder))
    try:
        return Place(path, len(list(folder.glob(pattern))) if folder.is_dir() else None, bytes_in(folder))
    except OSError:  # somebody else's
        return Place(path, None, 0)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    """Returns the processor's name, as far as the system tells it."""
    with suppress(OSError):
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()
