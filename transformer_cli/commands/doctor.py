"""`tfm doctor`: this machine → what a bug report needs to know of it. Changes nothing.

Imports torch last, so that the rest is known even if torch cannot be imported.
"""

import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from transformer_cli.compute.memory import free_memory, in_words
from transformer_cli.compute.threads import available_cores
from transformer_cli.errors import DeviceError
from transformer_cli.runs.provenance import DISTRIBUTIONS, provenance

VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|CUDA|PYTORCH)_\w+|TFM_MULTI30K_DIR|SACREBLEU_SEED|GENSIM_DATA_DIR|MPLCONFIGDIR|XDG_CACHE_HOME"
    r"|TMPDIR|TERM|LANG|LC_ALL|RANK|WORLD_SIZE"
)


def doctor() -> None:
    """Say what a bug report needs. It says what is installed, where things lie and what this machine computes with."""
    for label, found in _facts():
        print(f"{label:20}{found}", flush=True)  # torch is slow


def _facts() -> Iterator[tuple[str, object]]:
    """Yield what can be known, each with its label. Raises DeviceError if torch is damaged."""
    from transformer_cli.corpora.multi30k import cache_folder

    made_by = provenance()
    yield "tfm", f"{made_by['tfm'] or '–'} in {Path(__file__).parents[1]}"
    yield "python", made_by["python"]
    yield "system", platform.platform()
    yield "packages", ", ".join(_packages())
    influencing = {name: value for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)}
    yield "variables", ", ".join(f"{name} {value}" for name, value in influencing.items())
    here = Path.cwd()
    yield "folder", here if os.access(here, os.W_OK) else f"{here}, in which nothing can be written"
    yield "disk free", in_words(shutil.disk_usage(here).free)
    yield "downloads", cache_folder()
    yield "processor", f"{made_by['processor']}, {available_cores()} cores"
    total = in_words(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    yield "memory", f"{total}, {in_words(free)} free" if (free := free_memory()) is not None else total
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        yield "device", "torch is not installed: exported models alone can be used"
        return
    except (ImportError, OSError) as error:
        problem = " ".join(str(error).split())
        raise DeviceError(f"torch cannot be imported: {problem}; install it again") from None
    from transformer_cli.compute.devices import choose_device, choose_precision, describe, fast_at_bfloat16

    device = choose_device("auto")
    yield "device", describe(device)
    if device.type != "cpu" and (free := free_memory(device)) is not None:
        yield "device memory free", in_words(free)
    fast = fast_at_bfloat16(device)
    reason = f"fast here by {fast}" if fast else "bfloat16 is not fast here"
    yield "precision", f"{choose_precision('auto', device)}: {reason}"


def _packages() -> Iterator[str]:
    """Yield what tfm and its extras need, each with its version, or with a dash if it is not installed."""
    needed: list[str] = []
    with suppress(metadata.PackageNotFoundError):  # a checkout that is not installed
        needed = metadata.requires(DISTRIBUTIONS["tfm"]) or []  # gensim>=4.3; extra == "vectors"
    names = [re.split(r"[^\w.-]", each)[0] for each in needed if "dev" not in each.partition(";")[2]]
    for name in dict.fromkeys(names):
        if name != DISTRIBUTIONS["tfm"]:  # some extras add up others
            try:
                yield f"{name} {metadata.version(name)}"
            except metadata.PackageNotFoundError:
                yield f"{name} –"
