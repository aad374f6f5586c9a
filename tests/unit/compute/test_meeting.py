"""The processes of an attempt agree on a name of its own, whatever former attempts have left in the store."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from transformer_cli.compute.world import agree

PATIENCE = timedelta(seconds=30)


class Memory:
    """A store within a process."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self._values[key] = value.encode()
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._values, PATIENCE.total_seconds()):
                raise RuntimeError(f"nothing under {key}")
            return self._values[key]

    def check(self, keys: list[str]) -> bool:
        with self._changed:
            return self._values.keys() >= set(keys)


def attempt(store: Memory, size: int) -> list[str]:
    """The names that the processes of an attempt get, by rank."""
    with ThreadPoolExecutor(size) as pool:
        names = [pool.submit(agree, store, rank=rank, size=size, patience=PATIENCE) for rank in range(size)]
        return [name.result() for name in names]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_each_attempt_has_one_name_which_no_other_has(size: int) -> None:
    store = Memory()
    names = [attempt(store, size) for _ in range(5)]
    assert all(set(found) == {found[0]} for found in names)
    assert len({found[0] for found in names}) == 5


def test_a_process_that_died_before_it_was_answered_holds_up_nobody() -> None:
    store = Memory()
    former = attempt(store, 3)[0]
    store.set("asks 2", "a number of the dead")
    names = attempt(store, 3)
    assert set(names) == {names[0]}
    assert names[0] != former


def test_a_process_that_never_comes_is_named() -> None:
    store = Memory()
    store.set("asks 1", "a number of the dead")
    with pytest.raises(RuntimeError, match=r"^rank 1 has not come within 0:00:00\.1"):
        agree(store, rank=0, size=3, patience=timedelta(seconds=0.1))
