"""The processes of a distributed job: rank and size from torchrun's environment, and collective operations.

Only this module uses torch.distributed, and only if there are several processes. GPU tensors are sent by nccl, all
others by gloo.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from transformer_cli.errors import DistributedError, Interrupted, TfmError

if TYPE_CHECKING:
    import torch

TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")  # torchrun sets all four
TIMEOUT = timedelta(minutes=30)  # how long processes wait for each other, for example while one saves a checkpoint


@dataclass(frozen=True)
class World:
    """This process's place among the processes of a job. By default there is one process."""

    rank: int = 0
    """0 … size-1; only rank 0, the main process, prints and writes files"""
    size: int = 1
    local_rank: int = 0
    """the rank among the processes on this machine"""
    local_size: int = 1
    """the number of processes on this machine"""

    @staticmethod
    def from_environment() -> "World":
        """Read torchrun's environment variables; without them there is a single process."""
        given = [os.environ.get(name, "") for name in TORCHRUN_VARIABLES]
        return World(*map(int, given)) if all(given) else SINGLE_PROCESS

    @property
    def is_restarted(self) -> bool:
        """Whether torchrun has restarted the job after a process had failed."""
        return self.size > 1 and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0")

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @contextmanager
    def process_group(self, device: "torch.device") -> Iterator[None]:
        """Connect the processes during the block. The package logs in the main process only.

        Raises DistributedError if the other processes cannot be reached.
        """
        if self.size == 1:
            yield
            return
        import torch
        import torch.distributed as dist
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        if device.type == "cuda":
            torch.cuda.set_device(device)
        try:
            store, *_ = next(rendezvous("env://", timeout=TIMEOUT))
            if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # it has addresses of ended processes
                store = PrefixStore(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
                store=store,
                rank=self.rank,
                world_size=self.size,
                timeout=TIMEOUT,
            )
        except (RuntimeError, ValueError) as error:
            raise DistributedError(f"the other processes cannot be reached: {str(error).splitlines()[0]}") from None
        level = (package := logging.getLogger("transformer_cli")).level
        if not self.is_main:
            package.setLevel(logging.CRITICAL)
        stopped: Interrupted | None = None
        try:
            yield
        except Interrupted as error:
            stopped = error
        finally:
            package.setLevel(level)
        # After an error the process keeps its connection until it has printed the error and ended: leaving the group
        # would end the others at once, and then torchrun would kill this process, too.
        dist.destroy_process_group()
        if stopped is not None:
            raise stopped

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """Raise in all processes at the end of the block if it raised in one; no collective calls inside.

        A process that failed raises its own error. The others raise TfmError with the message of the lowest failed
        rank, for example `rank 1 has failed: data/: no dataset …`. Work of the main process alone goes into an `if`
        inside the block; the other processes wait for it at the end.
        """
        failure: Exception | None = None
        try:
            yield
        except DistributedError:
            raise
        except Exception as error:
            failure = error
        messages: list[str | None] = [None] * self.size  # the message of each process that failed
        if self.size > 1:
            import torch.distributed as dist

            try:
                with self._translate_errors():
                    dist.all_gather_object(messages, failure and (str(failure) or type(failure).__name__))
            except DistributedError:
                if failure is None:
                    raise
        if failure is not None:
            raise failure
        for rank, message in enumerate(messages):
            if message is not None:
                raise TfmError(f"rank {rank} has failed: {message}")

    def all_gather(self, *values: float) -> list[list[float]]:
        """Returns the values of each process, by rank: [[value, …], …]."""
        if self.size == 1:
            return [list(values)]
        import torch

        table = torch.zeros(self.size, len(values), dtype=torch.float64)
        table[self.rank] = torch.tensor(values, dtype=torch.float64)
        self.all_reduce([table])
        return table.tolist()

    def barrier(self) -> None:
        """Wait until all processes have reached this point."""
        self.all_gather(0)  # with nothing to sum, gloo would not wait

    def broadcast(self, tensors: Iterable["torch.Tensor"]) -> None:
        """Copy the main process's tensors into those of all processes; shapes are equal."""
        if self.size == 1:
            return
        import torch.distributed as dist

        with self._translate_errors():
            for tensor in tensors:
                dist.broadcast(tensor.detach(), src=0)

    def all_reduce(self, tensors: Sequence["torch.Tensor"]) -> None:
        """Replace tensors by their sums over all processes; shapes are equal, and all tensors are on one device.

        They are sent as one tensor, which takes as much memory again.
        """
        if self.size == 1:
            return
        import torch
        import torch.distributed as dist

        with self._translate_errors():
            flat = torch.cat([tensor.flatten() for tensor in tensors])
            dist.all_reduce(flat)
        for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn torch's error for a broken connection into DistributedError: another process has ended."""
        import torch.distributed as dist

        try:
            yield
        except RuntimeError as error:
            if not isinstance(error, dist.DistError) and "gloo" not in str(error):
                raise
            raise DistributedError("another process of this job has ended or died") from None


SINGLE_PROCESS = World()
