"""Gives tests an environment and a home of their own, by `isolate` before any other import."""

import atexit
import os
import pwd
import shutil
import sys
import tempfile
from pathlib import Path

from isolation import sitecustomize

ROOT = Path(__file__).resolve().parents[2]
KEPT = {"PATH", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}
KEPT_PREFIXES = ("PYTEST_", "COV_", "COVERAGE_", "PIP_", "ISOLATION_")
CACHES = "ISOLATION_CACHES"  # a folder of all processes of one call of pytest


def isolate() -> Path:
    """Replaces the environment and the home of this process and its children. Returns an empty folder.

    Keeps only a few variables. The checkout's data/, runs/ and exports/ and the user's own folders are refused.
    """
    if sitecustomize.FORBIDDEN not in os.environ:
        os.environ[sitecustomize.FORBIDDEN] = os.pathsep.join(_forbidden())
    folder = Path(tempfile.mkdtemp(prefix="tfm-tests-")).resolve()
    atexit.register(_remove, folder, os.getpid())
    os.environ.setdefault(CACHES, str(folder))
    for name in list(os.environ):
        if name not in KEPT and not name.startswith(KEPT_PREFIXES):
            del os.environ[name]
    for name in ("home", "work"):
        (folder / name).mkdir()
    os.environ.update(
        {
            sitecustomize.BREACHES: str(folder / "breaches.txt"),
            "HOME": str(folder / "home"),
            "LC_ALL": "C.UTF-8",
            "MPLCONFIGDIR": os.environ[CACHES],  # matplotlib takes seconds to list the fonts
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(sitecustomize.__file__).parent),
            "TERM": "xterm",
        }
    )
    sitecustomize.watch()
    return folder / "work"


def breaches() -> str:
    """Returns the breaches since the last call, one per line."""
    path = Path(sys._isolation_breaches)  # type: ignore[attr-defined]
    if not path.exists():
        return ""
    found = path.read_text(encoding="utf-8")
    path.unlink()
    return found


def _forbidden() -> list[str]:
    """Returns the folders with a user's work in the checkout, and those of programs in the user's home."""
    homes = {Path(pwd.getpwuid(os.getuid()).pw_dir), Path(os.environ.get("HOME") or "/nonexistent")}
    folders = {ROOT / name for name in ("data", "runs", "exports")}
    for home in homes:
        folders |= {home / name for name in (".cache", ".config", ".local/share", ".local/state", "Library")}
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        if os.environ.get(name):
            folders.add(Path(os.environ[name]))
    return sorted(str(folder) for folder in folders if folder.is_absolute() and not ROOT.is_relative_to(folder))


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork
        shutil.rmtree(folder, ignore_errors=True)
