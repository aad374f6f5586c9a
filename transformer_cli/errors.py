"""The errors that a user can do something about. Anything else that goes wrong is our defect, and an `assert`.

A message is one line: what is wrong, where (file, line, value), what to do. commands/app.py turns errors into exit
codes.
"""

import re

# what a command in backticks says stays, and so does -- inside of a file's name; --set goes; then options at the
# beginning of a message, and elsewhere
OPTION = re.compile(r"`[^`]*`|[\w./]--|--set:? |^--([a-z-]+) (?=[^:]+: )|--([a-z]+(?:-[a-z]+)*)( \d+\b| [A-Z]+\b)?")
IN_PYTHON = {
    "fresh": "fresh=True",
    "input": "sources",
    "on-error": "with_options(on_error=…)",
    "reference": "references",
    "set": "overrides",
    "split": "splits",
}


class TfmError(Exception):
    """The base class of all errors in the user's input, as opposed to defects of ours.

    Messages are written with options, as the command line has them; `str` has the names of Python instead: "--split"
    becomes "splits", "--beam-size 0: …" becomes "beam_size=0: …", and "--set training.epochs=0: …" loses its option.
    """

    @property
    def on_command_line(self) -> str:
        """The message with the names of options."""
        return super().__str__()

    def __str__(self) -> str:
        return OPTION.sub(_in_python, self.on_command_line)

    def __format__(self, form: str) -> str:
        """In an f-string it has options: a message that quotes it is put into Python's words once, as a whole."""
        return format(self.on_command_line, form)


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


def _in_python(option: re.Match[str]) -> str:
    """Returns how Python says what was found of an option."""
    first, name, value = option.groups()
    if first:
        return f"{first.replace('-', '_')}="
    if not name:
        return "" if option[0].startswith("--") else option[0]
    known = IN_PYTHON.get(name, name.replace("-", "_"))
    return f"{known}={value.strip()}" if value and value.strip().isdigit() else known
