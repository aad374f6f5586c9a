"""A run's folder: the names of its files, and what state it is in.

runs/multi30k/
    run.json                        metadata (`RunMetadata`)
    SHA256SUMS                      the checksums of run.json, the codecs and the copied text
    config.yaml                     the whole config, with what training chose, such as the precision
    source.vocab.txt target.vocab.txt target.detokenizer.json
                                    the dataset's codecs; for subwords {source,target}.subwords.model instead
    extra_valid.source.txt replay.target.txt …
                                    copies of the text that training.extra_valid and training.replay name
    frozen_rows.json                the words whose pretrained vectors are frozen, with model.vectors.freeze
    history.jsonl curves.png        the validations, one per line; the same as a picture
    tensorboard/                    the same as an event file, with training.tensorboard
    evaluations.jsonl               the results of `tfm evaluate` (see provenance.py)
    checkpoints/step-0004540/       the checkpoint after step 4540 (see checkpoints.py)
    best last average               pointers: text files with the name of a checkpoint
    .incomplete                     exists until the first checkpoint is complete
runs/latest                         a text file with the name of the newest run

exports/multi30k-int8/              an exported model: the weights in CTranslate2's format
    run.json                        the run's metadata, and `exported` (`ExportInfo`)
    SHA256SUMS                      the checksums of all files but config.yaml and README.md
    config.yaml                     the config; its section `decoding` may be edited
    source.vocab.txt target.vocab.txt target.detokenizer.json     as above
    model.bin config.json *_vocabulary.json     what CTranslate2 reads
    README.md                       how to use the model from Python without tfm
    evaluations.jsonl               as above
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

from transformer_cli.config.schema import MAX_NAME_CHARS
from transformer_cli.errors import CheckpointError, ConfigError, DataError, FileError, MissingFile, UnreadableFile
from transformer_cli.system.files import delete, delete_unfinished, read_bytes
from transformer_cli.system.locks import exclusive_lock

Result = TypeVar("Result")

EXPORTED_WEIGHTS = "model.bin"
HISTORY = "history.jsonl"
INCOMPLETE = ".incomplete"
STEP, AVERAGE = (rf"{kind}-(?:\d{{7}}|[1-9]\d{{7,}})" for kind in ("step", "average"))
CHECKPOINT = re.compile(f"{STEP}(?:-unvalidated)?|{AVERAGE}")  # what a pointer may name
POINTERS = ("best", "last", "average")
RESTORE_HINT = "restore it, or give `tfm train --fresh` to move this run aside and begin anew"
EXPORT_AGAIN_HINT = "restore it, or delete the folder and export the run again"
COPY_HINT = "copy it from where the run was trained or exported"
IF_MISSING = f"{COPY_HINT}; if it is lost for good, `tfm train --fresh` moves this run aside and begins anew"
IF_EXPORT_MISSING = f"{COPY_HINT}; if it is lost for good, delete the folder and export the run again"
EXPORTED_FILES = (EXPORTED_WEIGHTS, "config.json")  # that a run does not have
IS_EXPORTED = (
    "an exported model can translate and be evaluated, but not trained or inspected; name the run that it was made from"
)
EDITABLE_FILES = ("config.yaml", "README.md")  # of an exported model


def is_new(folder: Path) -> bool:
    """Whether a folder is absent or has no complete checkpoint, so that a new run can be trained in it.

    Raises CheckpointError if the folder is an exported model's, or if run.json or `last` of a trained run is gone.
    """
    if is_exported(folder):
        raise CheckpointError(f"{folder}: {IS_EXPORTED}")
    is_begun = (folder / "run.json").is_file() or any(folder.glob("checkpoints/*-*"))
    has_pointer = any(os.path.lexists(folder / name) for name in POINTERS)
    if not has_pointer and ((folder / INCOMPLETE).is_file() or not is_begun):
        return True
    for name in ("run.json", "last"):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder / name} is missing, but the run has been trained; {IF_MISSING}")
    return False


def is_exported(folder: Path) -> bool:
    """Whether a folder is an exported model's, even if some of its files have not been copied yet."""
    return any(os.path.lexists(folder / name) for name in EXPORTED_FILES)  # False for a folder without permission


def is_pointer(path: Path) -> bool:
    """Whether a path is a run's pointer to a checkpoint, such as runs/demo/last."""
    return path.name in POINTERS and path.is_file() and path.with_name("run.json").is_file()


def training_lock(folder: Path) -> Path:
    """Returns the file that is locked while a process trains the run in a folder, which need not exist yet.

    For a symbolic link, returns the lock of the folder that it leads to.
    """
    real = folder.resolve() if folder.is_symlink() else folder
    return real.with_name(f".{real.name}.lock")


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Lock a run for training during the block. Raises ConfigError if another process trains it.

    Deletes the unfinished files of a killed process, unless the file system has no locks. If the lock is the first file
    beside the run, and nothing is made in the block, that folder vanishes again.
    """
    is_first = not folder.parent.exists()
    with ExitStack() as locks:
        try:
            # two for a symbolic link, since --fresh renames the link and makes a folder in its place
            paths = sorted({training_lock(folder), folder.with_name(f".{folder.name}.lock")})
            are_held = [locks.enter_context(exclusive_lock(path)) for path in paths]
        except BlockingIOError:
            raise ConfigError(
                f"{folder} is being trained by another process; wait for it, or give --set name={free_name(folder)} to "
                "train another run"
            ) from None
        for each in (folder, folder / "checkpoints") if all(are_held) else ():
            delete_unfinished(each, idle_s=0)
        try:
            yield
        finally:
            with suppress(OSError):
                if is_first and {*folder.parent.iterdir()} <= {*paths}:
                    delete(folder.parent)


def free_name(folder: Path) -> str:
    """Returns a free name for another run beside `folder`, such as multi30k-2 for multi30k."""
    names = (f"{folder.name[: MAX_NAME_CHARS - len(str(number)) - 1]}-{number}" for number in count(2))
    return next(name for name in names if not folder.with_name(name).exists())


def retry_if_moved(path: Path, read: Callable[[], Result]) -> Result:
    """Call `read`, which follows the pointer `path`; if it fails and training has moved the pointer, call it again.

    Training deletes a checkpoint as soon as no pointer names it, even if another process is reading it.
    """
    while True:
        before = bytes_or_none(path)
        try:
            return read()
        except CheckpointError:
            if bytes_or_none(path) == before:
                raise


@contextmanager
def as_checkpoint_error(folder: Path | None = None) -> Iterator[None]:
    """Turn FileError and DataError into CheckpointError with a remedy. folder: the run's, for the message."""
    try:
        yield
    except (DataError, FileError) as error:
        hints = (EXPORT_AGAIN_HINT, IF_EXPORT_MISSING) if folder and is_exported(folder) else (RESTORE_HINT, IF_MISSING)
        message = error.with_remedy(*hints) if isinstance(error, FileError) else f"{error}; {hints[0]}"
        kinds: dict[type, str] = {MissingFile: "incomplete run: ", UnreadableFile: ""}
        what = kinds.get(type(error), "damaged run: ")
        prefix = f"{folder}: {what}" if folder else ""
        raise CheckpointError(f"{prefix}{message}") from None


def bytes_or_none(path: Path) -> bytes | None:
    """Returns the content of a file; None if it cannot be read."""
    try:
        return read_bytes(path)
    except FileError:
        return None
