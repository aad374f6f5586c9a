"""By what a run or an evaluation was made: versions, processor, threads, date. Imports none of what it names."""

import hashlib
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from transformer_cli.compute.devices import CPU_INFO
from transformer_cli.compute.threads import count_threads

DISTRIBUTIONS = {"tfm": "transformer-cli", "torch": "torch", "spacy": "spacy", "sacrebleu": "sacrebleu"}
OF_ONE_CALL = ("date", "threads")  # no bit of the weights depends on them


def provenance(*, device: str | None = None, threads: int | None = None, lanes: int | None = None) -> dict[str, Any]:
    """Returns the versions of tfm, torch, spaCy, sacreBLEU and Python, the processor, the device, threads, lanes, date.

    device: what computes, by `device_name`. threads: None for those that compute now. The date is UTC. A package that
    is not installed has no version (None).
    """
    versions: dict[str, str | None] = dict.fromkeys(DISTRIBUTIONS)
    for name, distribution in DISTRIBUTIONS.items():
        with suppress(PackageNotFoundError):
            versions[name] = version(distribution)
    return {
        **versions,
        "python": platform.python_version(),
        "processor": processor(),
        "device": device,
        "threads": threads or count_threads(),
        "lanes": lanes,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Returns in what two provenances differ that may change bits, as "torch 2.12.0 → 2.13.0, …"; "" if in nothing.

    What one of them does not tell, and lanes, which are a setting, are passed over.
    """
    keys = [key for key in before if key not in (*OF_ONE_CALL, "lanes", "sources") and before[key] and after.get(key)]
    return ", ".join(f"{key} {before[key]} → {after[key]}" for key in keys if before[key] != after[key])


def text_sum(lines: Sequence[str]) -> str:
    r"""Returns the SHA-256 of lines, each with a "\n" after it, as `sha256sum` finds it of a file of them in UTF-8."""
    found = hashlib.sha256()
    for line in lines:
        found.update(f"{line}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def processor() -> str:
    """Returns the name of the CPU, or its kind, such as x86_64, where the system does not tell its name."""
    with suppress(OSError):
        for line in CPU_INFO.read_text(errors="replace").splitlines():
            key, _, name = line.partition(":")
            if key.strip() == "model name":
                return name.strip()
    return platform.processor() or platform.machine()
