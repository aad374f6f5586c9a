"""Worker processes, which read requests from standard input and write answers to standard output.

Workers are not forked, because torch runs threads, and a fork of a process with threads may hang. `multiprocessing`
without fork would run the caller's script again in every worker. docs/decisions/libraries.md says why loky is not used.
Knows nothing of what the requests mean.
"""

import importlib
import marshal
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import IO, Any

from transformer_cli.errors import ConfigError

WORKER_CODE = (
    "import sys; sys.path[:] = sys.argv[3:]; from transformer_cli.system.workers import run_worker; "
    "run_worker(*sys.argv[1:3])"
)


def run_worker(module: str, name: str) -> None:
    """Run a worker: read the settings, then answer one request after another until the input ends.

    module, name: the function that takes the settings and returns a function from a request to its answer.
    """
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # keep what libraries print out of the answers
    try:
        answer = getattr(importlib.import_module(module), name)(_receive(requests))
        while True:
            _send(answers, answer(_receive(requests)))
    except ConfigError as error:
        _send(answers, str(error))
    except EOFError:
        os._exit(0)  # the caller is gone: end at once, without flushing


@contextmanager
def worker_processes(
    open_: Callable[[Any], Callable[[Any], Any]], settings: Any, n_workers: int = 1
) -> Iterator[Callable[[Any], Any]]:
    """Run worker processes during the block. Yields a function that sends a request to an idle worker.

    open_: a module's function, which each worker calls once with the settings; it returns a function from a request to
    its answer, not a str. marshal must be able to encode settings, requests and answers. Up to `n_workers` threads may
    send requests at a time. Sending raises EOFError with the reason if the worker dies, and ConfigError if `open_` has
    raised it.

    A worker has its own session, so that the terminal does not send it Ctrl-C. It ends when its caller ends, because
    its input then ends.
    """
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER_CODE, open_.__module__, open_.__name__, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # NumPy would start one per core
            start_new_session=True,
        )
        for _ in range(n_workers)
    ]
    idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
    for worker in workers:
        _send(worker.stdin, settings)
        idle.put(worker)

    def send(value: Any) -> Any:
        worker = idle.get()
        try:
            _send(worker.stdin, value)
            answer = _receive(worker.stdout)
        except EOFError:
            code = worker.wait()
            raise EOFError(f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}") from None
        finally:
            idle.put(worker)
        if isinstance(answer, str):
            raise ConfigError(answer)
        return answer

    try:
        yield send
    finally:
        for worker in workers:
            worker.kill()
            with suppress(BrokenPipeError), worker:  # unsent data is still in the buffer
                pass


def _send(file: IO[bytes] | None, value: Any) -> None:
    """Write the length of the marshalled value in 8 bytes, then the value. A dead reader is noticed by `_receive`."""
    assert file
    content = marshal.dumps(value)
    with suppress(BrokenPipeError):
        file.write(len(content).to_bytes(8, "little") + content)
        file.flush()


def _receive(file: IO[bytes] | None) -> Any:
    """Read a value that `_send` wrote. Raises EOFError if the sender is gone."""
    assert file
    length = int.from_bytes(file.read(8), "little")
    content = file.read(length)
    if not length or len(content) < length:
        raise EOFError
    return marshal.loads(content)
