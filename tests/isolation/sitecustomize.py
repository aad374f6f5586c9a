"""Refuses what no test may touch, in this process and in each Python that it starts; nor does a test wait for the disk.

Knows nothing of pytest.

Python imports a module of this name by itself where it is on the path. An audit hook (PEP 578) sees every file that is
opened and every folder that is listed or changed; what lies in a forbidden folder is written down and raised.
"""

import os
import sys

FORBIDDEN = "ISOLATION_FORBIDDEN"  # folders, joined by os.pathsep
BREACHES = "ISOLATION_BREACHES"  # a file with one line for each breach
OF_OS = ("chmod", "link", "listdir", "mkdir", "remove", "rename", "rmdir", "scandir", "symlink", "truncate", "utime")
EVENTS = frozenset({"open", *(f"os.{name}" for name in OF_OS)})


class Breach(AssertionError):
    """A test has reached for a folder of the checkout or of the user."""


def watch() -> None:
    """From now on, forbidden folders are refused. A second call in one process only names another file of breaches."""
    is_watching = hasattr(sys, "_isolation_breaches")
    sys._isolation_breaches = os.environ[BREACHES]  # type: ignore[attr-defined]
    if is_watching:
        return
    folders = tuple(f"{folder}/" for folder in os.environ[FORBIDDEN].split(os.pathsep))

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event not in EVENTS:
            return
        for path in arguments[:2]:
            if not isinstance(path, str | bytes | os.PathLike):
                continue
            if not os.path.isabs(path) and not _is_of_the_working_folder(event, arguments):
                continue
            whole = os.path.abspath(os.fsdecode(path)) + "/"
            if whole.startswith(folders):
                line = f"{event} {whole[:-1]}"
                written = os.open(sys._isolation_breaches, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)  # type: ignore[attr-defined]
                os.write(written, f"{line}\n".encode())
                os.close(written)
                raise Breach(line)

    sys.addaudithook(look)
    os.fsync = lambda fd: None  # no test cuts the power, and a disk takes milliseconds for each file


def _is_of_the_working_folder(event: str, arguments: tuple[object, ...]) -> bool:
    """Whether a relative name belongs to the working folder, and not to a folder's descriptor, as rmtree uses them."""
    if event == "open":
        return arguments[1] is not None  # None: os.open, whose descriptor the event does not tell
    return event in ("os.listdir", "os.scandir", "os.truncate") or arguments[-1] == -1


if FORBIDDEN in os.environ:
    watch()
