"""Errors that users can correct. Defects of tfm are assertions or other exceptions.

A message is one line: the place (file, line, value), what is wrong, and the remedy. It is shown on the command line and
in Python, so it names settings and arguments as in Python (max_tokens, training.epochs=0), and options only in a remedy
(give it --fresh). commands/app.py turns errors into exit codes.
"""

import subprocess
import traceback
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).parent


class TfmError(Exception):
    """Base class of all errors that users can correct."""


class ArgumentError(TfmError, TypeError):
    """An argument of a Python function has the wrong type."""


class ConfigError(TfmError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another."""


class MemoryShortage(ConfigError):
    """A model or a batch does not fit into memory."""


class DataError(TfmError):
    """Text or a dataset is missing, damaged, or does not fit the model."""


class DownloadError(DataError):
    """A corpus could not be downloaded: no network, a failing address, or a timeout."""


class CheckpointError(TfmError):
    """A run on disk is missing, damaged, or has another format version."""


class FileError(TfmError):
    """A file is damaged: it was read and found wrong. Callers turn this into another error, with a remedy."""

    def with_remedy(self, if_damaged: str, if_missing: str) -> str:
        """Returns the message and `if_damaged`: only this remedy may tell users to delete or replace a file."""
        return f"{self}; {if_damaged}"


class MissingFile(FileError):
    """A file does not exist."""

    def with_remedy(self, if_damaged: str, if_missing: str) -> str:
        """Returns the message and `if_missing`."""
        return f"{self}; {if_missing}"


class UnreadableFile(FileError):
    """The system refuses to read a file, whose content may be right. The message says what to do."""

    def with_remedy(self, if_damaged: str, if_missing: str) -> str:
        """Returns the message."""
        return str(self)


class DeviceError(TfmError):
    """This machine does not have the requested device."""


class DistributedError(TfmError):
    """Another process of the same job has ended or cannot be reached."""


class Interrupted(Exception):
    """A signal stopped training after it was saved. This is not an error: the same command continues the run."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number


def defect(error: BaseException) -> str:
    """Returns one line about an unexpected error, which is printed below its traceback."""
    words = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    words = f"{words[:300]}…" if len(words) > 300 else words
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if _is_edited(path := Path(frame.f_code.co_filename)):
            return f"{words}; look into {path}, line {line}, first: this file is not the one that was installed"
    return f"{words}; this is a defect of tfm: please send its authors the lines above, and what `tfm doctor` prints"


def _is_edited(path: Path) -> bool:
    """Whether a file of this package has been changed since it was cloned; False if git does not know it."""

    def git(*arguments: str) -> int:
        return subprocess.run(["git", "-C", PACKAGE, *arguments, "--", path], capture_output=True).returncode

    with suppress(OSError):  # git is not installed
        if path.is_relative_to(PACKAGE) and git("ls-files", "--error-unmatch") == 0:
            since = ("--merge-base origin/HEAD", "HEAD", "")  # what was cloned, committed or added
            return any(git("diff", "--quiet", *each.split()) == 1 for each in since)
    return False
