"""`tfm doctor`: this machine → what a bug report needs to know of it. Changes nothing.

Imports torch last, so that the rest is known even if torch cannot be imported.
"""

import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from transformer_cli.commands.options import JsonOption
from transformer_cli.compute.memory import free_memory, in_words, total_memory
from transformer_cli.errors import DeviceError
from transformer_cli.system.terminal import fitted

PACKAGE = "transformer-cli"
VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|CUDA|PYTORCH)_\w+|TFM_(MULTI30K_DIR|HISTORY)|GENSIM_DATA_DIR|MPLCONFIGDIR|XDG_(CACHE|STATE)_HOME"
    r"|TMPDIR|TERM|NO_COLOR|LANG|LC_ALL|RANK|WORLD_SIZE"
)
BYTES = ("bytes", "disk_free", "disk_total", "memory_free", "memory_total", "device_memory_free")
LABEL = 20  # columns


def doctor(as_json: JsonOption = False) -> None:
    """Say what a bug report needs. It says what is installed, where things lie and what this machine computes with."""
    installed, lie = software(), places()
    if not as_json:
        print(f"{_as_text(installed)}\n\n{_as_text(lie)}\n", flush=True)  # torch takes seconds to come
    computes = computing()
    if as_json:  # escaped to ASCII: a path may hold any bytes
        print(json.dumps({"software": installed, "places": lie, "computing": computes}))
    else:
        print(_as_text(computes))
    if "problem" in computes:
        raise DeviceError(f"torch cannot be imported: {computes['problem']}; install it again")


def software() -> dict[str, Any]:
    """Returns what is installed, with the variables that have an influence. Imports none of it.

    Extras that only add up others are left out; what is not installed has no version (None).
    """
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
    return {
        "tfm": _version(PACKAGE),
        "folder": str(Path(__file__).parents[1]),
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": platform.platform(),
        "packages": packages,
        "extras": {extra: needed for extra, needed in extras.items() if PACKAGE not in needed},
        "variables": {name: value for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)},
    }


def places() -> dict[str, Any]:
    """Returns where things lie. A file without a name is made in the current folder, to see whether that works."""
    from transformer_cli.data.multi30k import cache_folder

    folder, problem, disk = ".", None, None
    try:
        folder = os.getcwd()
        disk = shutil.disk_usage(folder)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        problem = error.strerror or str(error)
    return {
        "folder": folder,
        "problem": problem,
        "disk_free": disk.free if disk else None,
        "disk_total": disk.total if disk else None,
        "data": _place(Path(folder, "data"), "*/manifest.json"),
        "runs": _place(Path(folder, "runs"), "*/run.json"),
        "downloads": _place(cache_folder(), "*"),
    }


def computing() -> dict[str, Any]:
    """Returns with what tfm computes here if it is told nothing; without torch, why it cannot be imported."""
    known: dict[str, Any] = {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_free": free_memory(),
        "memory_total": total_memory(),
    }
    try:
        import torch
    except (ImportError, OSError) as error:
        return known | {"problem": " ".join(str(error).split())}
    from transformer_cli.compute.devices import choose_device, choose_precision, describe, fast_at_bfloat16

    device = choose_device("auto")
    is_cpu = device.type == "cpu"
    built_with = f"torch is built with CUDA {torch.version.cuda}" if torch.version.cuda else "this torch has no CUDA"
    fast = fast_at_bfloat16(device)
    slow = "no AVX512-BF16 or AMX here" if is_cpu else "its compute capability is below 8.0"
    return known | {
        "threads": torch.get_num_threads(),
        "device": describe(device),
        "device_reason": f"{built_with}, and sees no device for it" if torch.version.cuda and is_cpu else built_with,
        "device_memory_free": None if is_cpu else free_memory(device),
        "precision": choose_precision("auto", device),
        "precision_reason": f"fast here by {fast}" if fast else slow,
    }


def _place(folder: Path, pattern: str) -> dict[str, Any]:
    """Returns a folder in which tfm keeps something; how much is in it, unless it is not there or somebody else's."""
    from transformer_cli.system.files import bytes_in

    found: dict[str, Any] = {"path": str(folder), "entries": None, "bytes": 0}
    with suppress(OSError):
        if folder.is_dir():
            found |= {"entries": len(list(folder.glob(pattern))), "bytes": bytes_in(folder)}
    return found


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


def _as_text(section: Mapping[str, Any]) -> str:
    """Returns a line for each thing that is known."""
    lines = {name.replace("_", " "): _shown(name, value) for name, value in section.items() if value is not None}
    return fitted("\n".join(f"{name:<{LABEL}}{text}" for name, text in lines.items()))


def _shown(name: str, value: Any) -> str:
    """A dash is a version or a number that there is not: something is not installed, or not there yet."""
    if isinstance(value, dict):
        inner = {each: _shown(each, of) for each, of in value.items()}
        return ", ".join(
            f"{each} ({inner[each]})" if isinstance(value[each], dict) else f"{each} {inner[each]}" for each in inner
        )
    if value is None:
        return "–"
    return in_words(value) if name in BYTES else str(value)
