"""Speed beside other programs: training and decoding, each in a process of its own, while spinning programs run."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from measure import figures
from measure.figures import Figure, Unavailable, say
from transformer_cli.compute.threads import WAIT_VARIABLES

PROGRAMS = {"beside one program": 1, "beside one for each core": os.cpu_count() or 1}
WAYS = {"": True, ", as torch waits": False}  # whether the process begins as the command line does
SPIN = (sys.executable, "-c", "while True: pass")
STEADY = """\
import sys
from transformer_cli.compute.threads import bound_spinning
if sys.argv.pop(1) == "True":  # before torch is imported, as the command line does
    bound_spinning()
from measure.steady import main
main(sys.argv[1:])
"""


@dataclass(frozen=True)
class Work:
    """The name of some endless work, and the arguments with which measure/steady.py does it."""

    name: str
    arguments: tuple[str, ...]


def busy_speed(works: Sequence[Work], *, rounds: int = 5, seconds: float = 2.0) -> list[Figure]:
    """Measure target tokens/s beside other programs, with the quiet speed as reference.

    The reference of the quiet speed itself is the quiet speed as torch waits. Each way of waiting has a process of its
    own, because libgomp reads the environment when it is loaded. States and processes take turns; the median counts.
    Raises Unavailable if one of the processes ends.
    """
    found = []
    for work in works:
        say(f"busy: {work.name}; target tokens/s by ours, then as torch waits")
        speeds = _speeds(work, rounds, seconds)
        ours, theirs = (speeds[way, 0] for way in WAYS)
        found.append(Figure("busy", f"{work.name}: quiet", "target tokens/s", ours, theirs))
        for way in WAYS:
            for state, programs in PROGRAMS.items():
                name = f"{work.name}: {state}{way}"
                found.append(Figure("busy", name, "target tokens/s", speeds[way, programs], speeds[way, 0]))
    return found


def _speeds(work: Work, rounds: int, seconds: float) -> dict[tuple[str, int], float]:
    """Returns (way, how many other programs) → target tokens/s."""
    found: dict[tuple[str, int], list[float]] = {}
    with ExitStack() as processes:
        workers = {way: processes.enter_context(_steady(work, bounded)) for way, bounded in WAYS.items()}
        for number in range(1, rounds + 1):
            for programs in sorted({0, *PROGRAMS.values()}):
                with _spinning(programs):
                    for way, worker in workers.items():
                        time.sleep(figures.PAUSE_S)
                        found.setdefault((way, programs), []).append(_speed(worker, seconds))
            say(f"  round {number} of {rounds}: {' '.join(f'{each[-1]:,.0f}' for each in found.values())}")
    return {key: median(each) for key, each in found.items()}


@contextmanager
def _steady(work: Work, bounded: bool) -> Iterator["subprocess.Popen[str]"]:
    """Yield a process that has warmed up and waits for requests. Only the command line's way sets a WAIT_VARIABLE."""
    paths = [str(Path(__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    inherited = {name: value for name, value in os.environ.items() if name not in WAIT_VARIABLES}
    with subprocess.Popen(
        (sys.executable, "-c", STEADY, str(bounded), *work.arguments),
        env={**inherited, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(filter(None, paths))},
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
