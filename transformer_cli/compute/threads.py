"""How many CPU threads compute, and how they wait for each other. Knows nothing of what is computed.

The number of threads belongs to the process and is set here alone, once. Imports torch only where it is used, because
libgomp, torch's OpenMP library on Linux, reads the environment when it is loaded: how threads wait is decided before.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WAIT_VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
SPIN_COUNT = 20_000  # turns of a loop; libgomp's own number is 300,000

_starting = threading.Lock()  # held by whoever changes the process's number of threads for a moment


def bound_spinning() -> None:
    """Let a thread that waits for the others sleep after a short while. Call it before torch is imported.

    An operation that is cut between threads ends when the last of them does, and libgomp lets the others spin until
    then, for milliseconds. Beside another busy program the last one may not even be running, because the others spin in
    its place. To sleep at once costs more on a quiet machine: docs/benchmarks.md has the figures. Sets GOMP_SPINCOUNT
    in this process's environment, unless the user has set it or OMP_WAIT_POLICY.
    """
    if not any(name in os.environ for name in WAIT_VARIABLES):
        os.environ["GOMP_SPINCOUNT"] = str(SPIN_COUNT)


def set_num_threads(count: int | None) -> None:
    """Let this process compute with so many threads (None: with as many as torch has chosen)."""
    if count is not None:
        import torch

        torch.set_num_threads(count)


class SideBySide:
    """Workers, each a thread that takes one item at a time, for work that is too small to be cut between threads.

    They share torch's threads: where torch has 5 of them, each of 2 workers computes with 2. They are started at once
    and live until `close`, the end of a `with` block or garbage collection. Several of these may live at the same time.
    The number of threads of the process, and of every other thread, stays what it is. (One thing to know: a thread
    that calls torch for the first time within the millisecond in which workers start takes a worker's share for good.)
    """

    def __init__(self, workers: int) -> None:
        """workers: how many items are worked on at a time; 1: in the thread that calls `run`, with its threads."""
        assert workers > 0
        self.workers = workers
        self._pool = None if workers == 1 else _started(workers)

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
        """function's results, in the order of the items, which are taken as they are needed.

        Raises what function raises, at the place of its item. However it ends, nothing of it is still running then.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(function, item))
                if len(waiting) == 2 * self.workers:  # as many wait as are worked on, so that no worker is idle
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.shutdown()

    def __enter__(self) -> "SideBySide":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _started(workers: int) -> ThreadPoolExecutor:
    """So many threads, all running, each with its share of torch's threads."""
    with _starting, ThreadPoolExecutor(1) as fresh:  # a new thread has the process's number, whatever the caller's is
        return fresh.submit(_start, workers).result()


def _start(workers: int) -> ThreadPoolExecutor:
    """As `_started`, in a thread that nothing else uses.

    torch.set_num_threads(n) says n for the calling thread and for all that have not yet asked torch how many threads
    they have. So each worker asks, then sets its own; in the end the process gets its number back:

        process 4 → worker 1 asks (4), sets 2: process 2 → worker 2 asks (2), sets 2 → process 4 again
    """
    import torch

    total = torch.get_num_threads()
    all_run = threading.Barrier(workers)

    def take_share() -> None:
        torch.get_num_threads()
        torch.set_num_threads(max(1, total // workers))

    pool = ThreadPoolExecutor(workers, "side by side", initializer=take_share)
    try:
        for started in [pool.submit(all_run.wait) for _ in range(workers)]:  # each waits in a thread of its own
            started.result()
    finally:
        torch.set_num_threads(total)
    return pool
