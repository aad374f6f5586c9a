"""`tfm doctor`: this machine → what a bug report needs to know of it. Changes nothing.

Imports torch last, which is slow, and may not be installed.
"""

import os
import platform
import re
import shutil
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from transformer_cli.compute.devices import (
    choose_device,
    choose_precision,
    describe,
    fast_at_bfloat16,
    free_memory,
    in_words,
)
from transformer_cli.compute.threads import available_cores
from transformer_cli.runs.provenance import DISTRIBUTIONS, provenance

VARIABLES = re.compile(
    r"(OMP|GOMP|KMP|MKL|CUDA|PYTORCH)_\w+|TFM_MULTI30K_DIR|SACREBLEU_SEED|GENSIM_DATA_DIR|MPLCONFIGDIR|XDG_CACHE_HOME"
    r"|TMPDIR|TERM|LANG|LC_ALL|RANK|WORLD_SIZE"
)


def doctor() -> None:
    """Say what a bug report needs. It says what is installed, where things lie and what this machine computes with."""
    from transformer_cli.corpora.multi30k import cache_folder

    made_by, free = provenance(), free_memory()
    influencing = (f"{name} {value}" for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name))
    _say("tfm", f"{made_by['tfm'] or '–'} in {Path(__file__).parents[1]}")
    _say("python", f"{made_by['python']}, {platform.platform()}")
    _say("packages", _packages())
    _say("variables", ", ".join(influencing))
    _say("folder", f"{Path.cwd()}, {in_words(shutil.disk_usage(Path.cwd()).free)} free")
    _say("downloads", str(cache_folder()))
    _say("processor", f"{made_by['processor']}, {available_cores()} cores")
    _say("memory free", "–" if free is None else in_words(free))
    try:
        device = choose_device("auto")
    except (ImportError, OSError) as error:  # it is not installed, or damaged
        _say("device", f"no torch ({' '.join(str(error).split())}): exported models alone can be used")
        return
    fast = fast_at_bfloat16(device)
    _say("device", describe(device))
    _say(
        "precision",
        f"{choose_precision('auto', device)}: {f'fast here by {fast}' if fast else 'bfloat16 is slow here'}",
    )


def _say(label: str, found: str) -> None:
    print(f"{label:20}{found}", flush=True)


def _packages() -> str:
    """Returns what tfm and its extras need and what of it is installed, with versions."""
    needed, found = [*DISTRIBUTIONS.values()], dict[str, str]()
    with suppress(metadata.PackageNotFoundError):  # a checkout that is not installed
        needed += metadata.requires(DISTRIBUTIONS["tfm"]) or []  # gensim>=4.3; extra == "vectors"
    for name in (re.split(r"[^\w.-]", each)[0] for each in needed if 'extra == "dev"' not in each):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return ", ".join(f"{name} {version}" for name, version in found.items() if name != DISTRIBUTIONS["tfm"])
