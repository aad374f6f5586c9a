"""Worker processes: Python processes that read requests from their standard input and write answers to their output.

A worker is not forked, because the caller may run threads (torch does), and a fork of a process with threads may hang.
`multiprocessing` is not used either: without fork it runs the caller's script again in every worker. loky does
neither; docs/decisions/libraries.md says why it is not used. Knows nothing of what is asked.
"""

import marshal
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from transformer_cli.errors import ConfigError

START = (
    "import sys; from importlib import import_module; sys.path[:] = sys.argv[2:]; import_module(sys.argv[1]).serve()"
)


def answer_requests(open_: Callable[[Any], Callable[[Any], Any]]) -> None:
    """Run a worker: read what `open_` needs, then one request after another, until the input ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # keeps whatever a library prints out of the answers
    try:
        answer = open_(_receive(requests))
        while True:
            _send(answers, answer(_receive(requests)))
    except ConfigError as error:
        _send(answers, str(error))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the caller is gone: end at once, without writing what is left


def start(module: str, settings: Any) -> "subprocess.Popen[bytes]":
    """Start a worker, which calls `serve` of the module. However its caller ends, its input ends with it, and so it.

    settings: what `answer_requests` reads first. The worker has a session of its own, so that a terminal does not send
    it Ctrl-C too.
    """
    worker = subprocess.Popen(
        [sys.executable, "-c", START, module, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # NumPy would start one per core
        start_new_session=True,
    )
    _request(worker, settings)
    return worker


def end(worker: "subprocess.Popen[bytes]") -> None:
    """End a worker that was killed or is at rest, and close its pipes."""
    with suppress(BrokenPipeError), worker:  # from data that could not be sent
        pass


def ask(worker: "subprocess.Popen[bytes]", value: Any) -> Any:
    """Returns a worker's answer. Raises EOFError if it is dead or dies."""
    _request(worker, value)
    assert worker.stdout
    return _receive(worker.stdout)


def _request(worker: "subprocess.Popen[bytes]", value: Any) -> None:
    assert worker.stdin
    with suppress(BrokenPipeError):  # the worker has ended; its answer, or the lack of one, says why
        _send(worker.stdin, value)


def _send(file: IO[bytes], value: Any) -> None:
    """Write `value` as marshal encodes it, after its length in 8 bytes. Raises BrokenPipeError if nobody reads."""
    content = marshal.dumps(value)
    file.write(len(content).to_bytes(8, "little") + content)
    file.flush()


def _receive(file: IO[bytes]) -> Any:
    """Read a value that `_send` wrote. Raises EOFError if the sender is gone."""
    length = int.from_bytes(file.read(8), "little")
    content = file.read(length)
    if not length or len(content) < length:
        raise EOFError
    return marshal.loads(content)
