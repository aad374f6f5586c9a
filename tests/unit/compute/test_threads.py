"""How many threads compute: never set for others."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from transformer_cli.compute.threads import WorkerPool


@pytest.fixture(autouse=True)
def _own_number() -> Iterator[None]:
    """Four threads of torch; afterwards one again, as in all tests."""
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(1)


def test_worker_pool_threads_each_sets_threads_of_workers() -> None:
    for workers, threads in ((1, 1), (2, 1), (2, 3)):
        with WorkerPool(workers, threads_each=threads) as pool:
            assert _numbers_of_workers(pool) == {threads}
            assert _numbers_elsewhere() == (4, 4)
            assert threading.get_ident() not in pool.run_all(lambda _: threading.get_ident(), range(3))


@pytest.mark.parametrize(("workers", "share"), [(2, 2), (3, 1), (4, 1), (6, 1)])
def test_worker_pool_shares_threads_and_leaves_others_unchanged(workers: int, share: int) -> None:
    with WorkerPool(workers) as pool:
        assert _numbers_of_workers(pool) == {share}
        assert _numbers_elsewhere() == (4, 4)
        torch.set_num_threads(5)
        assert _numbers_of_workers(pool) == {share}
        assert _numbers_elsewhere() == (5, 5)
    assert _numbers_elsewhere() == (5, 5)


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_pool_yields_in_order_and_takes_items_as_needed(workers: int) -> None:
    taken = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    with WorkerPool(workers) as pool:
        results = pool.run(lambda item: item * item, items())
        assert taken == []
        assert [next(results) for _ in range(10)] == [item * item for item in range(10)]
        assert len(taken) <= 10 + 2 * workers
        assert list(results) == [item * item for item in range(10, 100)]


def test_worker_pool_of_1_runs_in_calling_thread() -> None:
    with WorkerPool(1) as pool:
        assert list(pool.run(_where, [0])) == [(threading.get_ident(), 4)]


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_pool_raises_an_items_error_at_its_turn(workers: int) -> None:
    done = []

    def work(item: int) -> int:
        if item == 3:
            raise ValueError("item 3")
        done.append(item)
        return item

    with WorkerPool(workers) as pool:
        results = pool.run(work, range(100))
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="item 3"):
            next(results)
        assert len(done) < 3 + 2 * workers
        assert list(pool.run(work, [7, 8])) == [7, 8]


def test_worker_pool_left_early_stops_workers() -> None:
    running = 0
    count = threading.Lock()
    both_run = threading.Barrier(2)

    def work(item: int) -> None:
        nonlocal running
        with count:
            running += 1
        if item < 2:
            both_run.wait()
        with count:
            running -= 1

    with WorkerPool(2) as pool:
        results = pool.run(work, range(10))
        next(results)
        results.close()
        assert running == 0


def _where(_: object) -> tuple[int, int]:
    return threading.get_ident(), torch.get_num_threads()


def _numbers_of_workers(pool: WorkerPool) -> set[int]:
    """torch's number of threads in each worker; all of them are asked, because each waits for the others."""
    all_ask = threading.Barrier(pool.n_workers)

    def ask(_: int) -> tuple[int, int]:
        all_ask.wait()
        return _where(_)

    found = dict(pool.run(ask, range(pool.n_workers)))
    assert len(found) == pool.n_workers
    return set(found.values())


def _numbers_elsewhere() -> tuple[int, int]:
    """torch's number of threads in this thread, and in one that has just been started."""
    with ThreadPoolExecutor(1) as fresh:
        return torch.get_num_threads(), fresh.submit(torch.get_num_threads).result()
