"""What a training leaves, to compare one that was cut off with one that was not."""

import re
from typing import Any

from transformer_cli.runs.run import POINTERS, Run


class PowerCut(BaseException):
    """Ends training like a kill: nothing catches it."""


def outcome(run: Run) -> dict[str, Any]:
    """All that a run leaves, but the seconds, and the sums of files that have them."""
    history = [{key: value for key, value in entry.items() if not key.endswith("_seconds")} for entry in run.history()]
    files = [file for file in sorted(run.folder.glob("checkpoints/*/*")) if file.name != "SHA256SUMS"]
    sum_of_history = rb'"history": "\w+"'
    saved = {f"{file.parent.name}/{file.name}": re.sub(sum_of_history, b"", file.read_bytes()) for file in files}
    pointers = {name: run.checkpoint(name).name for name in POINTERS if run.has_checkpoint(name)}
    return {"history": history, "checkpoints": saved, **pointers}
