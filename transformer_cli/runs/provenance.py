"""By what a run or an evaluation was made: versions, processor, threads, date. Imports none of what it names."""

import hashlib
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from transformer_cli.compute.devices import CPU_INFO
from transformer_cli.compute.threads import count_threads

DISTRIBUTIONS = {"tfm": "transformer-cli", "torch": "torch", "spacy": "spacy", "sacrebleu": "sacrebleu"}
OF_ONE_CALL = ("date", "threads")  # no bit of the weights depends on them


def provenance(*, threads: int | None = None, lanes: int | None = None) -> dict[str, Any]:
    """Returns the versions of tfm, torch, spaCy, sacreBLEU and Python, the processor, threads, lanes and date (UTC).

    threads: None for those that compute now. A package that is not installed has no version (None).
    """
    versions: dict[str, str | None] = dict.fromkeys(DISTRIBUTIONS)
    for name, distribution in DISTRIBUTIONS.items():
        with suppress(PackageNotFoundError):
            versions[name] = version(distribution)
    return {
        **versions,
        "python": platform.python_version(),
        "processor": _processor(),
        "threads": threads or count_threads(),
        "lanes": lanes,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def text_sum(lines: Sequence[str]) -> str:
    r"""Returns the SHA-256 of lines, each with a "\n" after it, as `sha256sum` finds it of a file of them in UTF-8."""
    found = hashlib.sha256()
    for line in lines:
        found.update(f"{line}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def _processor() -> str:
    """Returns the name of the CPU, or its kind, such as x86_64, where the system does not tell its name."""
    with suppress(OSError):
        for line in CPU_INFO.read_text(errors="replace").splitlines():
            key, _, name = line.partition(":")
            if key.strip() == "model name":
                return name.strip()
    return platform.processor() or platform.machine()
