"""Worker processes: Python processes that read requests from their standard input and write answers to their output.

A worker is not forked, because the caller may run threads (torch does), and a fork of a process with threads may hang.
`multiprocessing` is not used either: without fork it runs the caller's script again in every worker. loky does
neither; docs/decisions/libraries.md says why it is not used. Knows nothing of what is asked.
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
    """Run a worker: read the settings of a function, then one request after another, until the input ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # keeps whatever a library prints out of the answers
    try:
        answer = getattr(importlib.import_module(module), name)(_receive(requests))
        while True:
            _send(answers, answer(_receive(requests)))
    except ConfigError as error:
        _send(answers, str(error))
    except EOFError:
        os._exit(0)  # the caller is gone: end at once, without writing what is left


@contextmanager
def worker_processes(
    open_: Callable[[Any], Callable[[Any], Any]], settings: Any, n_workers: int = 1
) -> Iterator[Callable[[Any], Any]]:
    """Have workers during the block.

    open_: a function of a module, which each worker calls once, with the settings; what it returns answers requests.
    marshal must know the settings, the requests and the answers, and no answer is text. Yields a function that asks an
    idle worker and returns its answer; as many threads as there are workers may call it at a time. It raises EOFError,
    which says how, if the worker is dead or dies, and ConfigError if it could not begin with these settings.

    A worker has a session of its own, so that a terminal does not send it Ctrl-C too. However its caller ends, its
    input ends with it, and so it.
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

    def ask(value: Any) -> Any:
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
        yield ask
    finally:
        for worker in workers:
            worker.kill()  # even if it is at work: nothing is lost by that
            with suppress(BrokenPipeError), worker:  # from data that could not be sent
                pass


def _send(file: IO[bytes] | None, value: Any) -> None:
    """Write `value` as marshal encodes it, after its length in 8 bytes. If nobody reads, what is read next says so."""
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
