"""How the processes of a job find one another again after a restart, in a store that remembers the former attempts.

torchrun keeps its store when it starts dead processes again, and what they have written stays there: above all the
addresses at which they could be reached. So each attempt writes under a name of its own, on which its processes agree
here. Knows nothing of torch.distributed: a store is whatever sets and gets.
"""

import secrets
import time
from datetime import timedelta
from typing import Protocol

PAUSE_S = 0.05  # between two looks at who has asked


class Store(Protocol):
    """The part of torch's Store that is used here; what it holds is bytes under names."""

    def set(self, key: str, value: str, /) -> None:
        """Keep a value, in the place of an older one."""

    def get(self, key: str, /) -> bytes:
        """Wait until there is a value, and return it. Raises RuntimeError if that takes too long."""

    def check(self, keys: list[str], /) -> bool:
        """Whether there are values under all of these names."""


def agree(store: Store, *, rank: int, size: int, patience: timedelta) -> str:
    """Returns a name that all `size` processes of this attempt get, and that no other attempt has had.

    A process that is not the first asks with a number that nobody has used before, and waits for the answer to that
    number. The first one answers whatever it finds, also what a process of a former attempt has asked, until each of
    the others has its answer. For example, rank 1 has died after it asked with 17, and asks again with 23:

        asks 1: 17  →  answer 17: c0ffee          nobody reads that
        asks 1: 23  →  answer 23: c0ffee  →  c0ffee has 1

    Raises RuntimeError if that takes longer than `patience`.
    """
    if rank != 0:
        number = secrets.token_hex(8)
        store.set(f"asks {rank}", number)
        name = store.get(f"answer {number}").decode()
        store.set(f"{name} has {rank}", "")
        return name
    name = secrets.token_hex(8)
    deadline = time.monotonic() + patience.total_seconds()
    waiting = list(range(1, size))
    while waiting := [other for other in waiting if not store.check([f"{name} has {other}"])]:
        for other in waiting:
            if store.check([f"asks {other}"]):
                store.set(f"answer {store.get(f'asks {other}').decode()}", name)
        if time.monotonic() > deadline:
            raise RuntimeError(f"rank {waiting[0]} has not come within {patience}")
        time.sleep(PAUSE_S)
    return name
