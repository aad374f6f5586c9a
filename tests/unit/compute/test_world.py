"""What torchrun says about a process; what a process that is alone does not do; errors that all of them raise."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest import mock

import pytest
import torch
from torch._C._distributed_c10d import HashStore

from transformer_cli.compute.world import SINGLE_PROCESS, TORCHRUN_VARIABLES, World
from transformer_cli.errors import ConfigError, DataError, DistributedError, Interrupted, TfmError

CPU = torch.device("cpu")


@contextmanager
def environment(*values: str | None, restarts: str | None = None) -> Iterator[None]:
    """During the block these are the variables of torchrun, and no others."""
    given = zip((*TORCHRUN_VARIABLES, "TORCHELASTIC_RESTART_COUNT"), (*values, restarts), strict=True)
    with mock.patch.dict(os.environ, {name: value for name, value in given if value is not None}, clear=True):
        yield


@pytest.mark.parametrize(
    ("values", "world"),
    [
        (("3", "4", "1", "2"), World(rank=3, size=4, local_rank=1, local_size=2)),
        (("0", "1", "0", "1"), SINGLE_PROCESS),
        ((None, None, None, None), SINGLE_PROCESS),
        ((None, None, "1", None), SINGLE_PROCESS),  # somebody else's variable of the same name
        (("1", "2", None, None), SINGLE_PROCESS),
    ],
)
def test_from_environment_reads_torchrun_variables(values: tuple[str | None, ...], world: World) -> None:
    with environment(*values):
        assert World.from_environment() == world


def test_single_process_collectives_change_nothing() -> None:
    gradient = torch.ones(2)
    with SINGLE_PROCESS.process_group(CPU), SINGLE_PROCESS.fail_together():
        assert not torch.distributed.is_initialized()
        SINGLE_PROCESS.all_reduce([gradient])
        assert gradient.equal(torch.ones(2))
        assert SINGLE_PROCESS.all_gather(1.5, 2) == [[1.5, 2.0]]
    assert SINGLE_PROCESS.is_main


NO_DATA, NO_SEED = DataError("data/: no dataset"), ConfigError("a seed differs")


@pytest.mark.parametrize(
    ("raised", "ends"),
    [
        ([None, None], [None, None]),
        ([NO_SEED, None], [NO_SEED, "rank 0 has failed: a seed differs"]),
        ([FileNotFoundError(2, "No file", "data"), None], [..., "rank 0 has failed: [Errno 2] No file: 'data'"]),
        ([None, NO_DATA], ["rank 1 has failed: data/: no dataset", NO_DATA]),
        ([NO_SEED, NO_DATA], [NO_SEED, NO_DATA]),
        ([None, ValueError(), None], ["rank 1 has failed: ValueError", ..., "rank 1 has failed: ValueError"]),
        ([None, NO_DATA, NO_SEED], ["rank 1 has failed: data/: no dataset", NO_DATA, NO_SEED]),
    ],
)
def test_fail_together_raises_everywhere_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, raised: list[Exception | None], ends: list[Any]
) -> None:
    """ends: for each rank the very error that it raises, the words of a TfmError, … for its own, or None."""

    def gather(words: list[str | None], own: str | None) -> None:
        words[:] = [None if error is None else str(error) or type(error).__name__ for error in raised]
        assert own in words

    monkeypatch.setattr("torch.distributed.all_gather_object", gather)
    for rank, (own, end) in enumerate(zip(raised, ends, strict=True)):
        found = None
        try:
            with World(rank, len(raised)).fail_together():
                if own is not None:
                    raise own
        except Exception as error:
            found = error
        if isinstance(end, str):
            assert (type(found), str(found)) == (TfmError, end)
        else:
            assert found is (own if end is ... else end)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[…/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4321"),
        torch.distributed.DistBackendError("NCCL error: remote process exited or there was a network error"),
    ],
)
def test_all_reduce_broken_connection_raises_distributed_error(error: RuntimeError) -> None:
    with mock.patch("torch.distributed.all_reduce", side_effect=error), pytest.raises(DistributedError) as raised:
        World(1, 2).all_reduce([torch.ones(1)])
    assert str(raised.value) == "another process of this job has ended or died"


def test_all_reduce_takes_tensors_of_any_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[torch.Tensor] = []

    def double(flat: torch.Tensor) -> None:  # as if another process had the same
        sent.append(flat.clone())
        flat.mul_(2)

    monkeypatch.setattr("torch.distributed.all_reduce", double)
    matrix, vector = torch.arange(6.0).view(2, 3).t(), torch.tensor([7.0])  # not contiguous
    World(1, 2).all_reduce([matrix, vector])
    assert matrix.equal(torch.tensor([[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]))
    assert vector.item() == 14.0
    assert [flat.tolist() for flat in sent] == [[0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 7.0]]  # once


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is called instead of torch's process groups."""
    found: list[str] = []
    store = HashStore()
    module = import_module("torch.distributed.rendezvous")
    monkeypatch.setattr(module, "rendezvous", lambda *_, **__: iter([(store, 0, 2)]))
    monkeypatch.setattr("torch.distributed.init_process_group", lambda backend, **_: found.append(backend))
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: found.append("destroyed"))
    return found


@pytest.mark.parametrize("rank", [0, 1])
def test_process_group_only_main_process_logs(calls: list[str], caplog: pytest.LogCaptureFixture, rank: int) -> None:
    log = logging.getLogger("transformer_cli.training.trainer")
    with caplog.at_level(logging.INFO, "transformer_cli"):
        with World(rank, 2).process_group(CPU):
            log.warning("inside")
        log.info("after")
    assert caplog.messages == (["inside", "after"] if rank == 0 else ["after"])
    assert calls == ["gloo", "destroyed"]


@pytest.mark.parametrize("error", [DistributedError("…"), NO_SEED, ValueError("ours")])
def test_process_group_after_error_does_not_wait(calls: list[str], error: Exception) -> None:
    with pytest.raises(type(error)), World(0, 2).process_group(CPU):
        raise error
    assert calls == ["gloo"]


def test_process_group_after_interrupt_is_destroyed(calls: list[str]) -> None:
    with pytest.raises(Interrupted), World(0, 2).process_group(CPU):
        raise Interrupted("stopped", 15)
    assert calls == ["gloo", "destroyed"]
