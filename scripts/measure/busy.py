"""Speed beside other programs: training and decoding, each in a process of its own, while spinning programs run."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from measure import figures
from measure.figures import Figure, Unavailable, say

PROGRAMS = {"beside one program": 1, "beside one for each core": os.cpu_count() or 1}
SPIN = (sys.executable, "-c", "while True: pass")


@dataclass(frozen=True)
class Work:
    """The name of some endless work, and the arguments with which measure/steady.py does it."""

    name: str
    arguments: tuple[str, ...]


def busy_speed(works: Sequence[Work], *, rounds: int = 5, seconds: float = 2.0) -> list[Figure]:
    """Measure target tokens/s beside other programs, with the quiet speed as reference.

    States take turns; the median of the rounds counts. Raises Unavailable if the process that works ends.
    """
    found = []
    for work in works:
        say(f"busy: {work.name}; target tokens/s quiet, then {', '.join(PROGRAMS)}")
        speeds = _speeds(work, rounds, seconds)
        found += [
            Figure("busy", f"{work.name}: {state}", "target tokens/s", speeds[programs], speeds[0])
            for state, programs in PROGRAMS.items()
        ]
    return found


def _speeds(work: Work, rounds: int, seconds: float) -> dict[int, float]:
    """Returns how many other programs → target tokens/s."""
    found: dict[int, list[float]] = {}
    with _steady(work) as worker:
        for number in range(1, rounds + 1):
            for programs in sorted({0, *PROGRAMS.values()}):
                with _spinning(programs):
                    time.sleep(figures.PAUSE_S)
                    found.setdefault(programs, []).append(_speed(worker, seconds))
            say(f"  round {number} of {rounds}: {' '.join(f'{each[-1]:,.0f}' for each in found.values())}")
    return {key: median(each) for key, each in found.items()}


@contextmanager
def _steady(work: Work) -> Iterator["subprocess.Popen[str]"]:
    """Yield a process that has warmed up and waits for requests."""
    paths = [str(Path(__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    with subprocess.Popen(
        (sys.executable, "-m", "measure.steady", *work.arguments),
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            _answer(process)
            yield process
        finally:
            process.kill()


@contextmanager
def _spinning(programs: int) -> Iterator[None]:
    """Run this many other programs that never rest, at normal priority, during the block."""
    spinning = [subprocess.Popen(SPIN) for _ in range(programs)]
    try:
        yield
    finally:
        for program in spinning:
            program.kill()
            program.wait()


def _speed(worker: "subprocess.Popen[str]", seconds: float) -> float:
    """Let the worker work for about this many seconds. Returns its target tokens/s."""
    assert worker.stdin is not None
    worker.stdin.write(f"{seconds}\n")
    worker.stdin.flush()
    return float(_answer(worker))


def _answer(worker: "subprocess.Popen[str]") -> str:
    assert worker.stdout is not None
    answer = worker.stdout.readline()
    if not answer:
        raise Unavailable(f"a process that was to be measured has ended, with exit code {worker.wait()}")
    return answer
