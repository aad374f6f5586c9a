"""A figure beside its reference, and how to time two things fairly."""

import logging
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transformer_cli.errors import Interrupted, TfmError
from transformer_cli.system.progress import LineHandler

PAUSE_S = 0.5  # lets the threads of whatever ran before go to sleep


@dataclass(frozen=True)
class Figure:
    """Something measured, beside a reference measured in the same run."""

    section: str
    name: str
    unit: str
    ours: float
    reference: float | None = None

    @property
    def ratio(self) -> float | None:
        """ours / reference, whether a large or a small ratio is better."""
        return self.ours / self.reference if self.reference else None


class Unavailable(Exception):
    """A section cannot be measured here; its text says why and what to do."""


def say(text: str) -> None:
    """Print progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def as_program(main: Callable[[], None]) -> None:
    """Run a script that trains: training says on standard error how far it is, and what stops it ends in one line."""
    started, package = time.monotonic(), logging.getLogger("transformer_cli")
    package.handlers, package.level = [LineHandler()], logging.INFO
    try:
        main()
    except (TfmError, Interrupted, Unavailable) as stopped:
        sys.exit(str(stopped))
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing}; pip install -e '.[benchmark]'")
    say(f"{time.monotonic() - started:.0f} s")


def alternate(ways: Sequence[Callable[[], object]], *, rounds: int) -> list[float]:
    """Returns the median seconds of each way, as they take turns, so that a slow minute of the machine hits all."""
    seconds: list[list[float]] = [[] for _ in ways]
    for number in range(1, rounds + 1):
        for way, found in zip(ways, seconds, strict=True):
            time.sleep(PAUSE_S)
            started = time.perf_counter()
            way()
            found.append(time.perf_counter() - started)
        say(f"  round {number} of {rounds}: {' '.join(f'{found[-1]:.2f}' for found in seconds)} s")
    return [statistics.median(found) for found in seconds]
