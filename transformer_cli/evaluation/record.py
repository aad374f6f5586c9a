"""Keeps what an evaluation found in the run's folder: evaluations.jsonl, one JSON object per line."""

import json
import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from transformer_cli.files import append_line
from transformer_cli.runs.run import Run

log = logging.getLogger(__name__)

FILE = "evaluations.jsonl"


def append_result(run: Run, result: Mapping[str, Any], *, checkpoint: str, files: tuple[Path, Path] | None) -> None:
    """Append the fields of a result, after what led to it: date (UTC), version, checkpoint, files, decoding settings.

    files: the text and its references; None if a split of the run's dataset was judged.

    If the run cannot be written to, a warning says so: evaluating a run that belongs to somebody else is no mistake.
    """
    from importlib.metadata import version

    line = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "version": version("transformer-cli"),
        "checkpoint": checkpoint,
        "files": [str(path) for path in files] if files else None,
        "decoding": run.config.decoding.model_dump(mode="json"),
        **result,
    }
    try:
        append_line(run.folder / FILE, json.dumps(line))
    except OSError as error:
        log.warning("%s: this result is not kept there: %s", run.folder / FILE, error.strerror or error)
