"""What is written about an error that nobody foresaw: versions, the command and the traceback, in a file.

Knows nothing of commands.
"""

import os
import platform
import re
import shlex
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from importlib import metadata
from pathlib import Path

LONGEST = 300  # characters of an error's own words
PACKAGES = ("transformer-cli", "torch", "numpy", "typer", "pydantic", "spacy", "sentencepiece", "safetensors")


def tell(error: BaseException) -> str:
    """Write a report of the error. Returns one line: its kind, and where the report is."""
    kind, words = type(error).__name__, " ".join(str(error).split())
    said = f"{kind}: {words[:LONGEST]}{'…' if len(words) > LONGEST else ''}" if words else kind
    report = _report(error)
    for folder in (None, os.path.expanduser("~"), "/dev/shm"):  # None: TMPDIR, /tmp, … ; the last is memory
        with suppress(OSError):
            return f"{said}; this is a defect of tfm: please send {_write(report, folder)} to its authors"
    return f"{said}; this is a defect of tfm, and no folder has room for a report: set TMPDIR to one and try again"


def _report(error: BaseException) -> str:
    command = re.sub("(--api-key[=\0])[^\0]*", "\\1…", "\0".join(sys.argv))  # without what is secret
    lines = [
        time.strftime("%Y-%m-%d %H:%M:%S %z"),
        f"command: {shlex.join(command.split(chr(0)))}",
        f"Python {platform.python_version()}, {platform.platform()}",
    ]
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            lines.append(f"{name} {metadata.version(name)}")
    return "\n".join([*lines, "", *traceback.format_exception(error)])


def _write(text: str, folder: str | None) -> Path:
    """Write a report into a folder, or nothing. Returns its path. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix="tfm-report-", suffix=".txt", dir=folder)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        os.unlink(name)
        raise
    return Path(name).absolute()
