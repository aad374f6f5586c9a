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

LONGEST = 300  # characters of an error's own words
PACKAGES = ("transformer-cli", "torch", "numpy", "typer", "pydantic", "spacy", "sentencepiece", "safetensors")


def tell(error: BaseException) -> str:
    """Write a report of the error into the folder for temporary files. Returns one line: its kind, and the report."""
    words = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    said = f"{words[:LONGEST]}{'…' if len(words) > LONGEST else ''}; this is a defect of tfm"
    command = re.sub("(--api-key[=\0])[^\0]*", "\\1…", "\0".join(sys.argv))  # without what is secret
    lines = [
        time.strftime("%Y-%m-%d %H:%M:%S %z"),
        f"command: {shlex.join(command.split(chr(0)))}",
        f"Python {platform.python_version()}, {platform.platform()}",
    ]
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            lines.append(f"{name} {metadata.version(name)}")
    try:
        descriptor, path = tempfile.mkstemp(prefix="tfm-report-", suffix=".txt")
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("\n".join([*lines, "", *traceback.format_exception(error)]))
    except OSError as full:
        return f"{said}, and a report cannot be written ({full.strerror}): set TMPDIR to a folder with room"
    return f"{said}: please send {os.path.abspath(path)} to its authors"
