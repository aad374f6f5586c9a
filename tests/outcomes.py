"""What a training leaves, to compare one that was cut off with one that was not."""

from typing import Any

from transformer_cli.runs.run import Run


class PowerCut(BaseException):
    """Ends training like a kill: nothing catches it."""


def outcome(run: Run) -> dict[str, Any]:
    """All that a run leaves, but the seconds."""
    history = [{key: value for key, value in entry.items() if not key.endswith("_seconds")} for entry in run.history()]
    files = sorted((run.folder / "checkpoints").glob("*/*.safetensors"))  # weights and moments
    saved = {f"{file.parent.name}/{file.name}": file.read_bytes() for file in files}
    return {"history": history, "checkpoints": saved, **{name: run.checkpoint(name).name for name in ("best", "last")}}
