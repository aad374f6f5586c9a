"""What is written about an error that nobody foresaw: versions, the command and the traceback, in a file.

Knows nothing of commands.
"""

import os
import platform
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

LONGEST = 300  # characters of an error's own words
PACKAGES = ("transformer-cli", "torch", "numpy", "typer", "pydantic", "spacy", "sentencepiece", "safetensors")


def tell(error: BaseException) -> str:
    """Write a report of the error. Returns one line: its kind, and where the report is."""
    kind = type(error).__name__
    words = " ".join(str(error).split())
    said = f"{kind}: {words[:LONGEST]}{'…' if len(words) > LONGEST else ''}" if words else kind
    path = _write(_report(error))
    if path is None:
        return f"{said}; this is a defect of tfm, and no folder has room for a report: set TMPDIR to one and try again"
    return f"{said}; this is a defect of tfm: please send {path} to its authors"


def _report(error: BaseException) -> str:
    lines = [
        time.strftime("%Y-%m-%d %H:%M:%S %z"),
        f"command: {shlex.join(_without_key(sys.argv))}",
        f"folder: {_folder()}",
        f"Python {platform.python_version()}, {platform.platform()}",
        *_versions(),
        *(f"{name}={value}" for name, value in sorted(os.environ.items()) if name in ("RANK", "WORLD_SIZE")),
        "",
        *traceback.format_exception(error),
    ]
    return "\n".join(lines)


def _without_key(arguments: Sequence[str]) -> list[str]:
    """Returns a command's arguments without what is secret among them."""
    shown = ["--api-key=…" if each.startswith("--api-key=") else each for each in arguments]
    return ["…" if before == "--api-key" else each for before, each in zip(["", *shown], shown, strict=False)]


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:  # somebody has deleted it
        return str(error)


def _versions() -> list[str]:
    """Returns a line for each package that matters."""
    from importlib import metadata

    lines = []
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            lines.append(f"{name} {metadata.version(name)}")
    return lines


def _write(text: str) -> Path | None:
    """Write the report into the first folder that takes all of it; /dev/shm is memory, which no disk fills."""
    folders = (os.environ.get("TMPDIR"), "/tmp", "/var/tmp", os.path.expanduser("~"), os.curdir, "/dev/shm")
    for folder in folders:
        if not folder:
            continue
        name = None
        try:
            descriptor, name = tempfile.mkstemp(prefix="tfm-report-", suffix=".txt", dir=folder)
            with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return Path(name).absolute()
        except OSError:
            if name is not None:
                with suppress(OSError):
                    os.unlink(name)
    return None
