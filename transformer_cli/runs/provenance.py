"""Provenance of runs and evaluations: versions, processor, threads, date; and the results of evaluations.

Results are saved in the run's folder: evaluations.jsonl, one JSON object per line. Imports none of the packages whose
versions it returns.
"""

import json
import logging
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from transformer_cli.compute.devices import CPU_INFO
from transformer_cli.compute.threads import count_threads
from transformer_cli.errors import FileError
from transformer_cli.system.files import append_line, read_text, sha256_of_bytes

DISTRIBUTIONS = {"tfm": "transformer-cli", "torch": "torch", "spacy": "spacy", "sacrebleu": "sacrebleu"}
PER_CALL_KEYS = ("date", "threads")  # have no influence on the weights
EVALUATIONS = "evaluations.jsonl"

log = logging.getLogger(__name__)


def provenance(*, device: str | None = None, threads: int | None = None, shards: int | None = None) -> dict[str, Any]:
    """Returns the versions of tfm, its libraries and Python, the processor, the device, threads, shards and the date.

    device: its name, by `device_name`. threads: None for torch's number of threads now. The date is in UTC. A package
    that is not installed has the version None.
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
        "shards": shards,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def provenance_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Returns the differences that may change the last digits of results, such as "torch 2.12.0 → 2.13.0, …", or "".

    Leaves out what is unknown in one of them, the text, and shards, which are a setting.
    """
    ignored = (*PER_CALL_KEYS, "shards", "sources", "files")
    keys = [key for key in before if key not in ignored and before[key] and after.get(key)]
    return ", ".join(f"{key} {before[key]} → {after[key]}" for key in keys if before[key] != after[key])


def sha256_of_lines(lines: Sequence[str]) -> str:
    r"""Returns the SHA-256 of a UTF-8 file of these lines, each ended by "\n", as `sha256sum` prints it."""
    return sha256_of_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))


def processor() -> str:
    """Returns the name of the CPU, or its architecture, such as x86_64, if the system does not tell the name."""
    with suppress(OSError):
        for line in CPU_INFO.read_text(errors="replace").splitlines():
            key, _, name = line.partition(":")
            if key.strip() == "model name":
                return name.strip()
    return platform.processor() or platform.machine()


@dataclass(frozen=True)
class SavedResult:
    """What `tfm runs` shows of an evaluation."""

    bleu: float
    text: str
    """the name of the split"""
    date: str
    """UTC, ISO 8601"""
    checkpoint: str
    bleu_signature: str


def append_result(
    folder: Path, result: Mapping[str, Any], *, device: str, shards: int | None, sums: Mapping[str, str] | None = None
) -> None:
    """Append the result of an evaluation to evaluations.jsonl, with its date (UTC), version and provenance.

    folder: the run's; if it is read-only, as another user's may be, a warning says so. device: on which it was
    translated. shards: those of training. sums: the SHA-256 of the text and of its references.
    """
    origin = provenance(device=device, shards=shards) | {"sources": dict(sums or {})}
    line = {"date": origin.pop("date"), "version": origin["tfm"], "provenance": origin, **result}
    try:
        append_line(folder / EVALUATIONS, json.dumps(line))
    except OSError as error:
        log.warning("%s: this result is not saved: %s", folder / EVALUATIONS, error.strerror or error)


def last_result(folder: Path) -> SavedResult | None:
    """Returns the run's last evaluation on a split, ensembles excluded, or None. Ignores damaged lines."""
    try:
        lines = read_text(folder / EVALUATIONS).split("\n")
    except FileError:
        return None
    for line in reversed(lines):
        try:
            value = json.loads(line)
            if not value["others"] and not value["files"]:
                texts = (str(value[key]) for key in ("split", "date", "checkpoint", "bleu_signature"))
                return SavedResult(float(value["bleu"]), *texts)
        except (ValueError, TypeError, KeyError):
            continue
    return None
