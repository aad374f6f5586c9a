"""What evaluations found is kept in the run's folder: evaluations.jsonl, one JSON object per line."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_cli.errors import FileError
from transformer_cli.runs.provenance import provenance
from transformer_cli.runs.run import Translatable
from transformer_cli.system.files import append_line
from transformer_cli.system.reading import read_text

log = logging.getLogger(__name__)

FILE = "evaluations.jsonl"


@dataclass(frozen=True)
class Kept:
    """What is told of an evaluation later."""

    bleu: float
    text: str
    """the split"""
    date: str
    """UTC, ISO 8601"""
    checkpoint: str
    bleu_signature: str


def append_result(
    run: Translatable, result: Mapping[str, Any], *, device: str, sums: Mapping[str, str] | None = None
) -> None:
    """Append a result, and what led to it, after its date (UTC), the version and the provenance.

    device: on which it was translated. sums: the SHA-256 of the text and of its references. If the run cannot be
    written to, a warning says so: evaluating a run that belongs to somebody else is no mistake.
    """
    made_by = provenance(device=device, lanes=run.config.training.lanes) | {"sources": dict(sums or {})}
    line = {"date": made_by.pop("date"), "version": made_by["tfm"], "provenance": made_by, **result}
    try:
        append_line(run.folder / FILE, json.dumps(line))
    except OSError as error:
        log.warning("%s: this result is not kept there: %s", run.folder / FILE, error.strerror or error)


def last_result(folder: Path) -> Kept | None:
    """Returns the last evaluation on a split of the run in a folder, by itself and not in an ensemble, or None.

    A line that is cut off or otherwise damaged is passed over: nothing depends on it.
    """
    try:
        lines = read_text(folder / FILE).split("\n")
    except FileError:
        return None
    for line in reversed(lines):
        try:
            value = json.loads(line)
            if not value["others"] and not value["files"]:
                texts = (str(value[key]) for key in ("split", "date", "checkpoint", "bleu_signature"))
                return Kept(float(value["bleu"]), *texts)
        except (ValueError, TypeError, KeyError):
            continue
    return None
