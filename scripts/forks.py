"""`tfm` in forks of this process, which has imported it: they begin at once, and can be killed. Linux only."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

from disturb import Disturbance, disturbed
from transformer_cli.commands.app import main
from transformer_cli.datasets import word_corpus

PATIENCE_S = 900.0  # for a process that is not killed


def start(arguments: Sequence[str], place: Path, strike: Callable[[Disturbance], None] | None = None) -> int:
    """Start `tfm` in a folder, where `log` gets what it prints. Returns its process id. strike: see Disturbance."""
    sys.stdout.flush()  # or the fork would print it again
    sys.stderr.flush()
    if child := os.fork():
        return child
    code: object = 70
    try:
        os.chdir(place)
        log = os.open(place / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        few = mock.patch.object(word_corpus, "FEW", 50)  # so that `tfm prepare` has two workers
        two_workers = mock.patch.object(word_corpus, "available_cores", return_value=2)
        with few, two_workers, disturbed(Disturbance(place, strike)) if strike else nullcontext():
            main(arguments)
    except SystemExit as ending:
        code = ending.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code if isinstance(code, int) else 71)


def end_of(process: int, *, within_s: float) -> int | None:
    """Wait for a process that `start` began. Returns its exit code (a signal: negative).

    None: it still runs then, or has been stopped.
    """
    until = time.monotonic() + within_s
    while True:
        done, status = os.waitpid(process, os.WNOHANG | os.WUNTRACED)
        if done and os.WIFSTOPPED(status):
            return None
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.0005)


def run(arguments: Sequence[str], place: Path, strike: Callable[[Disturbance], None] | None = None) -> int:
    """Run `tfm` to its end. Returns its exit code (a signal: negative)."""
    process = start(arguments, place, strike)
    code = end_of(process, within_s=PATIENCE_S)
    if code is None:
        kill(process)
        raise TimeoutError(f"{arguments}: no end after {PATIENCE_S:.0f} s; see {place / 'log'}")
    return code


def kill(process: int) -> list[int]:
    """Kill a process that `start` began. Returns the processes that it had started."""
    os.kill(process, signal.SIGSTOP)  # so that it starts none while we look
    started = [number for number, (parent, _) in _processes().items() if parent == process]
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return started


def is_left(process: int, *, within_s: float = 60.0) -> bool:
    """Whether a process that nobody ends is still there after some time: its start may take it."""
    until = time.monotonic() + within_s
    while _processes().get(process, (0, "Z"))[1] != "Z":
        if time.monotonic() > until:
            return True
        time.sleep(0.05)
    return False


def _processes() -> dict[int, tuple[int, str]]:
    """Process → its parent and its state (Z: it has ended)."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, *_ = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (OSError, ValueError):
            continue  # it has just ended
        found[int(path.parent.name)] = (int(parent), state)
    return found


def last_line(place: Path) -> str:
    """The last line of the log."""
    return ((place / "log").read_text(encoding="utf-8", errors="replace").splitlines() or [""])[-1]
