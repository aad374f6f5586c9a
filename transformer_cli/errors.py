"""What a user can do something about. Anything else that goes wrong is a defect of ours, and an `assert`.

TfmError
├── ConfigError       a setting: unknown key, wrong type, out of range, settings that contradict each other
├── DataError         parallel text or a prepared dataset: missing, damaged, out of step
│   └── DownloadError     a corpus or word vectors that could not be fetched
├── CheckpointError   a run on disk: missing, of another format version, truncated
├── DeviceError       a device that this machine does not have
└── DistributedError  another process of the same job: out of reach, ended, or dead

Each message is one line: what is wrong, where (file, line, value), what to do. Only cli.py turns them into exit codes.
"""


class TfmError(Exception):
    """Base of all errors that are the input's fault, not ours."""


class ConfigError(TfmError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another."""


class DataError(TfmError):
    """Parallel text or a prepared dataset is missing, damaged or out of step."""


class DownloadError(DataError):
    """A corpus or word vectors could not be fetched: no network, an address that fails, a time-out."""


class CheckpointError(TfmError):
    """A run on disk is missing, of another format version, or damaged."""


class DeviceError(TfmError):
    """A device was asked for that this machine does not have."""


class DistributedError(TfmError):
    """Another process of the same job cannot be reached, has ended, or has died."""


class Interrupted(Exception):
    """Training was asked to stop by a signal, and has saved. No error: the same command goes on."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
