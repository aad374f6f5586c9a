"""The processes of an attempt agree on a name of its own, whatever former attempts have left in the store."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch._C._distributed_c10d import HashStore

from transformer_cli.compute.world import agree

PATIENCE = timedelta(seconds=30)


def attempt(store: HashStore, size: int) -> list[str]:
    """The names that the processes of an attempt get, by rank."""
    with ThreadPoolExecutor(size) as pool:
        names = [pool.submit(agree, store, rank=rank, size=size, patience=PATIENCE) for rank in range(size)]
        return [name.result() for name in names]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_each_attempt_has_one_name_which_no_other_has(size: int) -> None:
    store = HashStore()
    names = [attempt(store, size) for _ in range(5)]
    assert all(set(found) == {found[0]} for found in names)
    assert len({found[0] for found in names}) == 5


def test_a_process_that_died_before_it_was_answered_holds_up_nobody() -> None:
    store = HashStore()
    former = attempt(store, 3)[0]
    store.set("asks 2", "a number of the dead")
    names = attempt(store, 3)
    assert set(names) == {names[0]}
    assert names[0] != former


def test_a_process_that_never_comes_is_named() -> None:
    store = HashStore()
    store.set("asks 1", "a number of the dead")
    with pytest.raises(RuntimeError, match=r"^rank 1 has not come within 0:00:00\.1"):
        agree(store, rank=0, size=3, patience=timedelta(seconds=0.1))
