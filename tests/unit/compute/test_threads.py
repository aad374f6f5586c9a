"""How many threads compute: never set for others."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from transformer_cli.compute.threads import SideBySide


@pytest.fixture(autouse=True)
def _own_number() -> Iterator[None]:
    """Four threads of torch; afterwards one again, as in all tests."""
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(1)


def test_side_by_side_gives_workers_the_number_of_threads_asked_for() -> None:
    for workers, threads in ((1, 1), (2, 1), (2, 3)):
        with SideBySide(workers, threads=threads) as side_by_side:
            assert _numbers_of_workers(side_by_side) == {threads}
            assert _numbers_elsewhere() == (4, 4)
            assert threading.get_ident() not in side_by_side.run_all(lambda _: threading.get_ident(), range(3))


@pytest.mark.parametrize(("workers", "share"), [(2, 2), (3, 1), (4, 1), (6, 1)])
def test_side_by_side_shares_threads_and_nobody_else_notices(workers: int, share: int) -> None:
    with SideBySide(workers) as side_by_side:
        assert _numbers_of_workers(side_by_side) == {share}
        assert _numbers_elsewhere() == (4, 4)
        torch.set_num_threads(5)
        assert _numbers_of_workers(side_by_side) == {share}
        assert _numbers_elsewhere() == (5, 5)
    assert _numbers_elsewhere() == (5, 5)


@pytest.mark.parametrize("workers", [1, 2])
def test_side_by_side_results_come_in_order_and_items_as_needed(workers: int) -> None:
    taken = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    with SideBySide(workers) as side_by_side:
        results = side_by_side.run(lambda item: item * item, items())
        assert taken == []
        assert [next(results) for _ in range(10)] == [item * item for item in range(10)]
        assert len(taken) <= 10 + 2 * workers
        assert list(results) == [item * item for item in range(10, 100)]


def test_side_by_side_of_one_worker_is_the_calling_thread() -> None:
    with SideBySide(1) as side_by_side:
        assert list(side_by_side.run(_where, [0])) == [(threading.get_ident(), 4)]


@pytest.mark.parametrize("workers", [1, 2])
def test_side_by_side_error_comes_in_its_items_place(workers: int) -> None:
    done = []

    def work(item: int) -> int:
        if item == 3:
            raise ValueError("item 3")
        done.append(item)
        return item

    with SideBySide(workers) as side_by_side:
        results = side_by_side.run(work, range(100))
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="item 3"):
            next(results)
        assert len(done) < 3 + 2 * workers
        assert list(side_by_side.run(work, [7, 8])) == [7, 8]


def test_side_by_side_left_early_is_no_longer_running() -> None:
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

    with SideBySide(2) as side_by_side:
        results = side_by_side.run(work, range(10))
        next(results)
        results.close()
        assert running == 0


def _where(_: object) -> tuple[int, int]:
    return threading.get_ident(), torch.get_num_threads()


def _numbers_of_workers(side_by_side: SideBySide) -> set[int]:
    """torch's number of threads in each worker; all of them are asked, because each waits for the others."""
    all_ask = threading.Barrier(side_by_side.workers)

    def ask(_: int) -> tuple[int, int]:
        all_ask.wait()
        return _where(_)

    found = dict(side_by_side.run(ask, range(side_by_side.workers)))
    assert len(found) == side_by_side.workers
    return set(found.values())


def _numbers_elsewhere() -> tuple[int, int]:
    """torch's number of threads in this thread, and in one that has just been started."""
    with ThreadPoolExecutor(1) as fresh:
        return torch.get_num_threads(), fresh.submit(torch.get_num_threads).result()
