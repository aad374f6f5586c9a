"""Refuses access to folders that no test may touch, in this process and in each Python that it starts; skips fsync.

Knows nothing of pytest.

Python imports a module of this name automatically if it is on the path. An audit hook (PEP 578) sees every file that is
opened and every folder that is listed or changed; access to a forbidden folder is recorded and raises an error.
"""

import os
import sys

FORBIDDEN = "ISOLATION_FORBIDDEN"  # folders, joined by os.pathsep
BREACHES = "ISOLATION_BREACHES"  # a file with one line for each breach
OF_OS = ("chmod", "link", "listdir", "mkdir", "remove", "rename", "rmdir", "scandir", "symlink", "truncate", "utime")
EVENTS = frozenset({"open", *(f"os.{name}" for name in OF_OS)})


class Breach(AssertionError):
    """A test accessed a folder of the checkout or of the user."""


def watch() -> None:
    """Starts refusing forbidden folders. A second call only changes the file in which breaches are recorded."""
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
    """Whether a relative name is in the working folder, not below a folder's descriptor, as rmtree uses them."""
    if event == "open":
        return arguments[1] is not None  # None: os.open, whose descriptor the event does not tell
    return event in ("os.listdir", "os.scandir", "os.truncate") or arguments[-1] == -1


if FORBIDDEN in os.environ:
    watch()
