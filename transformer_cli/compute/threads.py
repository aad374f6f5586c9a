"""How CPU threads wait for each other, and work that they share. Knows nothing of what is computed.

torch is imported only where it is used: libgomp, torch's OpenMP library on Linux, reads the environment when it is
loaded, so `bound_spinning` has to run before that.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WAIT_VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
SPIN_COUNT = 20_000  # turns of the waiting loop; libgomp's default is 300,000

_starting = threading.Lock()  # held by whoever changes the process's number of threads for a moment


def bound_spinning() -> None:
    """Let a thread that waits for the others sleep after a short while. Call this before torch is imported.

    An operation that is split between threads ends when the last thread ends, and libgomp lets the other threads spin
    until then, for milliseconds. Beside another busy program the last thread may not even be running, because the
    spinning threads occupy its core. Sleeping at once would be slower on a quiet machine: docs/benchmarks.md has the
    figures. Sets GOMP_SPINCOUNT in this process's environment, unless the user has set it or OMP_WAIT_POLICY.
    """
    if not any(name in os.environ for name in WAIT_VARIABLES):
        os.environ["GOMP_SPINCOUNT"] = str(SPIN_COUNT)


class SideBySide:
    """Worker threads that take one item at a time, for work that is too small to be split between torch's threads.

    The workers share torch's threads: if torch has 5 of them, each of 2 workers computes with 2. They start at once
    and live until `close`, the end of a `with` block or garbage collection. Several objects of this class may live at
    the same time. torch's number of threads in the process, and in every other thread, stays as it is. (One exception:
    a thread that calls torch for the first time within the millisecond in which workers start keeps a worker's number.)
    """

    def __init__(self, workers: int) -> None:
        """workers: how many items are worked on at a time; with 1, `run` works in its caller's thread."""
        assert workers > 0
        self.workers = workers
        self._pool = None if workers == 1 else _started(workers)

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
        """Yield function's results in the order of the items. Items are taken from the iterable as they are needed.

        Raises what function raises, when its item's turn comes. However this ends, no worker is still running then.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(function, item))
                if len(waiting) == 2 * self.workers:  # one more item waits for each worker, so that none is idle
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

    def __exit__(self, *_: object) -> None:
        self.close()


def _started(workers: int) -> ThreadPoolExecutor:
    """Returns a pool of running threads, each with its share of torch's threads.

    torch.set_num_threads(n) sets the number of the calling thread, and of all threads that have not queried their
    number yet. So each worker queries its number before it sets it; in the end the process gets its number back:

        process 4 → worker 1 queries (4), sets 2: process 2 → worker 2 queries (2), sets 2 → process 4 again

    The process's number is that of a thread that nothing else uses, whatever the caller's own is.
    """
    import torch

    def start() -> ThreadPoolExecutor:
        total = torch.get_num_threads()
        all_run = threading.Barrier(workers)

        def take_share() -> None:
            torch.get_num_threads()
            torch.set_num_threads(max(1, total // workers))

        pool = ThreadPoolExecutor(workers, "side by side", initializer=take_share)
        try:
            for started in [pool.submit(all_run.wait) for _ in range(workers)]:  # each one blocks a thread of its own
                started.result()
        finally:
            torch.set_num_threads(total)
        return pool

    with _starting, ThreadPoolExecutor(1) as fresh:
        return fresh.submit(start).result()
