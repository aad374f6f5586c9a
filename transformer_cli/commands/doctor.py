"""`tfm doctor`: this machine → what a bug report needs to know of it. Changes nothing.

Imports torch last, so that the rest is known even if torch cannot be imported.
"""

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from transformer_cli.compute.memory import free_memory, in_words
from transformer_cli.compute.threads import available_cores
from transformer_cli.errors import DeviceError
from transformer_cli.runs.provenance import processor

PACKAGE = "transformer-cli"
VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|CUDA|PYTORCH)_\w+|TFM_MULTI30K_DIR|SACREBLEU_SEED|GENSIM_DATA_DIR|MPLCONFIGDIR|XDG_CACHE_HOME"
    r"|TMPDIR|TERM|LANG|LC_ALL|RANK|WORLD_SIZE"
)


def doctor() -> None:
    """Say what a bug report needs. It says what is installed, where things lie and what this machine computes with."""
    for label, found in _facts():
        print(f"{label:20}{found}", flush=True)  # torch is slow


def _facts() -> Iterator[tuple[str, object]]:
    """Yield what can be known, each with its label. Raises DeviceError if torch cannot be imported."""
    from transformer_cli.corpora.multi30k import cache_folder

    yield "tfm", _version(PACKAGE)
    yield "folder", Path(__file__).parents[1]
    yield "python", platform.python_version()
    yield "executable", sys.executable
    yield "system", platform.platform()
    yield "packages", ", ".join(f"{name} {_version(name)}" for name in _needed())
    influencing = {name: value for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)}
    yield "variables", ", ".join(f"{name} {value}" for name, value in influencing.items())
    here = Path.cwd()
    yield "folder", here
    try:
        tempfile.TemporaryFile(dir=here).close()  # a file without a name: can anything be written?
    except OSError as error:
        yield "problem", error.strerror
    yield "disk free", in_words(shutil.disk_usage(here).free)
    yield "data", here / "data"
    yield "runs", here / "runs"
    yield "downloads", cache_folder()
    yield "cpu", processor()
    yield "cores", available_cores()
    if (free := free_memory()) is not None:
        yield "memory free", in_words(free)
    yield "memory total", in_words(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        import torch
    except (ImportError, OSError) as error:
        problem = " ".join(str(error).split())
        raise DeviceError(f"torch cannot be imported: {problem}; install it again") from None
    from transformer_cli.compute.devices import choose_device, choose_precision, describe, fast_at_bfloat16

    device = choose_device("auto")
    yield "threads", torch.get_num_threads()
    yield "device", describe(device)
    if device.type != "cpu" and (free := free_memory(device)) is not None:
        yield "device memory free", in_words(free)
    yield "cuda", torch.version.cuda or "not in this torch"
    fast = fast_at_bfloat16(device)
    yield "precision", choose_precision("auto", device)
    yield "precision reason", f"fast here by {fast}" if fast else "bfloat16 is not fast here"


def _needed() -> list[str]:
    """Returns the names of the packages that tfm and its extras need."""
    with suppress(metadata.PackageNotFoundError):  # a checkout that is not installed
        needed = metadata.requires(PACKAGE) or []  # gensim>=4.3; extra == "vectors". Some extras add up others
        names = [re.split(r"[^\w.-]", each)[0] for each in needed if "dev" not in each.partition(";")[2]]
        return [name for name in dict.fromkeys(names) if name != PACKAGE]
    return []


def _version(name: str) -> str:
    """Returns a package's version, or a dash if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "–"
