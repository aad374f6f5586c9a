"""History → a TensorBoard event file. The one owner of tensorboard, an extra that is imported only if enabled."""

import io
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformer_cli.errors import ConfigError
from transformer_cli.system.files import write_bytes

Entry = Mapping[str, Any]


def check_installed() -> None:
    """Raises ConfigError if tensorboard is not installed."""
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise ConfigError(
            "training.tensorboard: tensorboard is not installed; run `pip install 'tensorboard>=2.16'`, "
            "or set it to false"
        ) from None


class EventFile:
    """The validations of a run as TensorBoard reads them: each validation is one point on every curve."""

    def __init__(self, folder: Path, history: Sequence[Entry]) -> None:
        """Write all validations so far, as in history.jsonl, to a new file in `folder`, and delete the older files.

        The older files may hold validations that a resumed run has lost; the history is what counts.
        """
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        now = time.time()
        then = now - sum(_seconds(entry) for entry in history)  # as if trained in one sitting that ends now
        events = [
            Event(wall_time=then, file_version="brain.Event:2"),
            Event(wall_time=then, session_log=SessionLog(status=SessionLog.START)),  # a running TensorBoard starts over
        ]
        for entry in history:
            then += _seconds(entry)
            events.append(_event(entry, then))
        self.path = folder / f"events.out.tfevents.{now:.6f}"
        write_bytes(self.path, b"".join(map(_record, events)))
        for file in folder.glob("*.tfevents.*"):
            if file != self.path:
                file.unlink()

    def add(self, entry: Entry) -> None:
        """Append one more validation, because TensorBoard keeps reading the file that it has opened."""
        with self.path.open("ab") as file:
            file.write(_record(_event(entry, time.time())))


def scalars(entry: Entry) -> dict[str, float]:
    """Returns what TensorBoard shows of a validation: the name of each curve → its value."""
    return {
        "loss/train": entry["train_loss"],
        "loss/valid": entry["valid_loss"],
        "perplexity/valid": entry["valid_ppl"],
        "learning_rate": entry["learning_rate"],
        "target_tokens_per_second": entry["target_tokens"] / max(entry["train_seconds"], 0.001),
    }


def _event(entry: Entry, wall_time: float) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars(entry).items()]
    return Event(wall_time=wall_time, step=entry["step"], summary=Summary(value=values))


def _record(event: Any) -> bytes:
    from tensorboard.summary.writer.record_writer import RecordWriter

    record = io.BytesIO()
    RecordWriter(record).write(event.SerializeToString())
    return record.getvalue()


def _seconds(entry: Entry) -> float:
    return float(entry["train_seconds"] + entry["valid_seconds"])
