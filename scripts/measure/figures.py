"""A figure and its reference, and fair timing of two things."""

import logging
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transformer_cli.errors import Interrupted, TfmError
from transformer_cli.system.progress import LineHandler

PAUSE_S = 0.5  # until the threads of the previous way are idle


@dataclass(frozen=True)
class Figure:
    """A measurement, and a reference measured in the same run."""

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
    """A section cannot be measured here; the message has the reason and the remedy."""


def say(text: str) -> None:
    """Prints progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def as_program(main: Callable[[], None]) -> None:
    """Runs a script that trains: prints progress to standard error, and an error as one line."""
    started, package = time.monotonic(), logging.getLogger("transformer_cli")
    package.handlers, package.level = [LineHandler()], logging.INFO
    try:
        main()
    except (TfmError, Interrupted, Unavailable) as stopped:
        sys.exit(str(stopped))
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing}; pip install -e '.[benchmark]'")
    say(f"{time.monotonic() - started:.0f} s")


def alternate(
    ways: Sequence[Callable[[], object]], *, rounds: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Returns the median seconds of each way; they take turns, so that a slow minute affects all."""
    seconds: list[list[float]] = [[] for _ in ways]
    for number in range(1, rounds + 1):
        for way, found in zip(ways, seconds, strict=True):
            time.sleep(PAUSE_S)
            started = clock()
            way()
            found.append(clock() - started)
        say(f"  round {number} of {rounds}: {' '.join(f'{found[-1]:.2f}' for found in seconds)} s")
    return [statistics.median(found) for found in seconds]
