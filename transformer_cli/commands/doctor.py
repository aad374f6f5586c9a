"""`tfm doctor`: this machine → what a bug report needs to know of it. Changes nothing.

Imports torch last, so that the rest is known even if torch cannot be imported.
"""

import os
import platform
import re
import shutil
import sys
import tempfile
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from transformer_cli.compute.memory import free_memory, in_words
from transformer_cli.compute.threads import available_cores
from transformer_cli.errors import DeviceError

PACKAGE = "transformer-cli"
VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|CUDA|PYTORCH)_\w+|TFM_MULTI30K_DIR|SACREBLEU_SEED|GENSIM_DATA_DIR|MPLCONFIGDIR|XDG_CACHE_HOME"
    r"|TMPDIR|TERM|LANG|LC_ALL|RANK|WORLD_SIZE"
)
BYTES = ("disk_free", "memory_free", "memory_total", "device_memory_free")


def doctor() -> None:
    """Say what a bug report needs. It says what is installed, where things lie and what this machine computes with."""
    for look in (software, places, computing):
        found = look()
        known = {key: _shown(key, value) for key, value in found.items() if value is not None}
        lines = (f"{key.replace('_', ' '):20}{text}" for key, text in known.items())
        print("\n".join(lines), flush=True)  # torch is slow
    if problem := found.get("problem"):
        raise DeviceError(f"torch cannot be imported: {problem}; install it again")


def software() -> dict[str, Any]:
    """Returns what is installed, with the variables that have an influence. Imports none of it.

    packages: what tfm and its extras need; what is not installed has no version (None).
    """
    needed = []
    with suppress(metadata.PackageNotFoundError):  # a checkout that is not installed
        needed = metadata.requires(PACKAGE) or []  # uvicorn>=0.30; extra == "serve". Some extras add up others
    names = [re.split(r"[^\w.-]", each)[0] for each in needed if "dev" not in each.partition(";")[2]]
    return {
        "tfm": _version(PACKAGE),
        "folder": str(Path(__file__).parents[1]),
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": platform.platform(),
        "packages": {name: _version(name) for name in names if name != PACKAGE},
        "variables": {name: value for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)},
    }


def places() -> dict[str, Any]:
    """Returns where things lie. A file without a name is made in the current folder, to see whether that works."""
    from transformer_cli.data.multi30k import cache_folder

    folder, problem = Path.cwd(), None
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        problem = error.strerror
    lie = {"data": folder / "data", "runs": folder / "runs", "downloads": cache_folder()}
    return {
        "folder": str(folder),
        "problem": problem,
        "disk_free": shutil.disk_usage(folder).free,
        **{name: str(path) for name, path in lie.items()},
    }


def computing() -> dict[str, Any]:
    """Returns with what tfm computes here if it is told nothing; without torch, why it cannot be imported."""
    known: dict[str, Any] = {
        "cpu": _cpu(),
        "cores": available_cores(),
        "memory_free": free_memory(),
        "memory_total": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    }
    try:
        import torch
    except (ImportError, OSError) as error:
        return known | {"problem": " ".join(str(error).split())}
    from transformer_cli.compute.devices import choose_device, choose_precision, describe, fast_at_bfloat16

    device = choose_device("auto")
    return known | {
        "threads": torch.get_num_threads(),
        "device": describe(device),
        "device_memory_free": None if device.type == "cpu" else free_memory(device),
        "cuda": torch.version.cuda or "not in this torch",
        "precision": choose_precision("auto", device),
        "precision_reason": f"fast here by {fast}"
        if (fast := fast_at_bfloat16(device))
        else "bfloat16 is not fast here",
    }


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


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):  # packages: a dash is a version of what is not installed
        return ", ".join(f"{each} {'–' if version is None else version}" for each, version in value.items())
    return in_words(value) if name in BYTES else str(value)
