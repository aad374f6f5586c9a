"""A pool of worker threads that divide torch's threads among them. Does not import torch by itself."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_start_lock = threading.Lock()  # held while the process's number of threads is changed


class WorkerPool(AbstractContextManager["WorkerPool"]):
    """Worker threads that process one item each, for items too small to be split among torch's threads.

    | n_workers | threads_each | who computes, if torch has 5 threads    | used for                           |
    |-----------|--------------|-----------------------------------------|------------------------------------|
    | 1         | None         | the caller, with all 5                  | GPUs (INLINE_POOL)                 |
    | n > 1     | None         | n workers, with 5 // n each, at least 1 | searches of several batches        |
    | 1         | 1            | one worker; the caller keeps its 5      | shards that share one generator    |
    | n > 1     | 1            | n workers, with one thread each         | shards, and groups of a validation |

    Workers live until the end of a `with` block, or until garbage collection. Several pools may exist at the same time.
    Other threads keep their number of torch threads. Exception: a thread that calls torch for the first time during the
    millisecond in which workers start. If torch is not loaded, workers are ordinary threads.
    """

    def __init__(self, n_workers: int, *, threads_each: int | None = None) -> None:
        """n_workers: items processed at a time. threads_each: torch threads of each worker (None: see the table)."""
        assert n_workers > 0
        self.n_workers = n_workers
        self._pool = None if n_workers == 1 and threads_each is None else _start_pool(n_workers, threads_each)

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
        """Yield function's results in the order of the items, which are taken from the iterable as they are needed.

        If function raises, its error comes in place of the item's result. When this ends, no worker is running.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(function, item))
                if len(waiting) == 2 * self.n_workers:  # so many that no worker is ever idle
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)

    def run_all(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """`run`, as a list."""
        return list(self.run(function, items))

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()


INLINE_POOL = WorkerPool(1)
"""runs in the calling thread, with all of torch's threads"""


def _start_pool(n_workers: int, threads_each: int | None) -> ThreadPoolExecutor:
    """Returns a pool of running threads with threads_each torch threads each (None: an equal share of the process's).

    torch.set_num_threads(n) sets the number of the calling thread, and of all threads that have not yet queried theirs.
    So each worker queries its number before it sets it, and in the end the process's number is restored:

        process 4 → worker 1 queries (4), sets 2: process 2 → worker 2 queries (2), sets 2 → process 4 again

    The process's number is read in a new thread, since the caller may have a number of its own.
    """
    if sys.modules.get("torch") is None:
        return ThreadPoolExecutor(n_workers, "worker")
    import torch

    def start() -> ThreadPoolExecutor:
        total = torch.get_num_threads()
        share = max(1, total // n_workers) if threads_each is None else threads_each
        all_run = threading.Barrier(n_workers)

        def take_share() -> None:
            torch.get_num_threads()
            torch.set_num_threads(share)

        pool = ThreadPoolExecutor(n_workers, "worker", initializer=take_share)
        try:
            for started in [pool.submit(all_run.wait) for _ in range(n_workers)]:  # each blocks one thread
                started.result()
        finally:
            torch.set_num_threads(total)
        return pool

    with _start_lock, ThreadPoolExecutor(1) as fresh:
        return fresh.submit(start).result()


def count_threads() -> int:
    """Returns torch's number of threads; if torch is not loaded, OMP_NUM_THREADS or the number of cores."""
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) else available_cores()


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
