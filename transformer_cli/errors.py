"""The errors that a user can do something about. Anything else that goes wrong is our defect, and an `assert`.

A message is one line: what is wrong, where (file, line, value), what to do. It is read on the command line and in
Python: settings and arguments have the names of Python (max_tokens, training.epochs=0), and an option stands where it
says what to do (give it --fresh). commands/app.py turns errors into exit codes.
"""


class TfmError(Exception):
    """The base class of all errors in the user's input, as opposed to defects of ours."""


class ArgumentError(TfmError, TypeError):
    """A function of Python was given something of another type than it takes."""


class ConfigError(TfmError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another."""


class MemoryShortage(ConfigError):
    """A model or a batch needs more memory than there is."""


class DataError(TfmError):
    """Parallel text or a prepared dataset is missing, damaged or out of step."""


class DownloadError(DataError):
    """A corpus could not be fetched: no network, an address that fails, a time-out."""


class CheckpointError(TfmError):
    """A run on disk is missing, of another format version, or damaged."""


class FileError(TfmError):
    """A small file cannot be read, or does not hold what it should; who opened it says what to do, as another error."""


class MissingFile(FileError):
    """A small file is not there."""


class DeviceError(TfmError):
    """This machine does not have the requested device."""


class DistributedError(TfmError):
    """Another process of the same job cannot be reached, has ended, or has died."""


class Interrupted(Exception):
    """A signal has stopped training, which has been saved. This is not an error: the same command continues."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number


def defect(error: BaseException) -> str:
    """Returns one line about an error that nobody foresaw; its traceback stands above it."""
    words = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    words = f"{words[:300]}…" if len(words) > 300 else words
    return f"{words}; this is a defect of tfm: please send its authors the lines above, and what `tfm doctor` prints"
