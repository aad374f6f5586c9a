"""Cuts sentence pairs into tokens chunk by chunk, in order: in this process, or in worker processes on several cores.

A worker is a Python process that reads chunks of text from its standard input and writes their tokens to its standard
output. It is not forked, because the caller may run threads (torch does), and a fork of a process with threads may
hang. `multiprocessing` is not used either: without fork it runs the caller's script again in every worker. loky does
neither; docs/design.md says why it is not used. Knows nothing of vocabularies or files.
"""

import marshal
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import entry_points
from itertools import islice
from queue import SimpleQueue
from typing import IO, Any, Generic, Protocol

from transformer_cli.data.chunks import (
    Chunk,
    CutSide,
    Pair,
    SideT,
    SubwordCutter,
    Texts,
    TokenizedSide,
    WordCutter,
    unpack_subwords,
    unpack_words,
)
from transformer_cli.errors import ConfigError, DataError

CHUNK = 1_000  # pairs that a worker gets at once; it tokenises them in a tenth of a second
WAITING = 2  # chunks that are handed out per worker before the first result is needed
START = "import sys; sys.path[:] = sys.argv[1:]; from transformer_cli.data.workers import serve; serve()"


class Cut(Protocol[SideT]):
    """A function from pairs to chunks of them, in order, with their tokens."""

    def __call__(self, pairs: Iterable[Pair]) -> Iterator[Chunk[SideT]]: ...


@contextmanager
def tokenizing(source: str, target: str, *, lowercase: bool, processes: int) -> Iterator[Cut[TokenizedSide]]:
    """Yields a function from pairs to their words. Its chunks and their order are the same for any `processes`.

    source and target are languages. If `processes` is 1, this process does the work; otherwise that many workers do,
    and none of them is left at the end of the block.

    Raises ConfigError as Tokenizer does (with workers, at the first chunk), and DataError if a worker dies.
    """
    with _cutting(unpack_words, ("words", source, target, lowercase), processes) as cut:
        yield cut


@contextmanager
def segmenting(source: bytes, target: bytes, *, lowercase: bool, processes: int) -> Iterator[Cut[CutSide]]:
    """Like `tokenizing`, for pieces of words. source and target are models of SentencePiece."""
    with _cutting(unpack_subwords, ("subwords", source, target, lowercase), processes) as cut:
        yield cut


@contextmanager
def _cutting(unpack: Callable[..., SideT], settings: tuple[Any, ...], processes: int) -> Iterator[Cut[SideT]]:
    if processes == 1:
        cutter = _cutter(*settings)
        yield lambda pairs: (Chunk(texts, cutter.cut(texts)) for texts in _chunks(pairs))
        return
    workers = _Workers([_Worker(unpack, settings) for _ in range(processes)])
    try:
        yield workers.cut
    finally:
        workers.end()


def _cutter(kind: str, source: Any, target: Any, lowercase: bool) -> Any:
    return (WordCutter if kind == "words" else SubwordCutter)(source, target, lowercase)


def available_cores() -> int:
    """Returns how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve() -> None:
    """Run a worker: read the settings, then one chunk after another, until the input ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # keeps whatever a library prints out of the answers
    if not entry_points(group="spacy_factories"):  # a plug-in for spaCy may need torch
        sys.modules["torch"] = None  # type: ignore[assignment]  # spaCy would import it: seconds, 200 MB
    try:
        cutter = _cutter(*_receive(requests))
        while True:
            _send(answers, [side.pack() for side in cutter.cut(_receive(requests))])
    except ConfigError as error:
        _send(answers, str(error))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the caller is gone: end at once, without writing what is left


class _Worker(Generic[SideT]):
    """A worker process, as its caller sees it. However the caller ends, the worker's input ends with it."""

    def __init__(self, unpack: Callable[..., SideT], settings: tuple[Any, ...]) -> None:
        self._unpack = unpack
        command = [sys.executable, "-c", START, *sys.path]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # NumPy would start one per core
        with _ctrl_c_held_back():
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._request(settings)

    def cut(self, texts: Texts) -> list[SideT]:
        """Both sides of a chunk, [source, target]; raises DataError if the process is dead or dies."""
        self._request(texts)
        assert self._process.stdout
        try:
            answer = _receive(self._process.stdout)
        except EOFError:
            raise self._death() from None
        if isinstance(answer, str):
            raise ConfigError(answer)
        return [self._unpack(*side) for side in answer]

    def kill(self) -> None:
        """End the process at once; nothing is lost by that."""
        self._process.kill()

    def close(self) -> None:
        """Wait for the end of the process."""
        with suppress(BrokenPipeError):  # from data that could not be sent
            self._process.__exit__(None, None, None)

    def _request(self, value: Any) -> None:
        assert self._process.stdin
        with suppress(BrokenPipeError):  # the worker has ended; its answer, or the lack of one, says why
            _send(self._process.stdin, value)

    def _death(self) -> DataError:
        code = self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return DataError(
            f"a process that tokenised {how}; if memory ran out, run it again on fewer cores, for example with "
            "`taskset --cpu-list 0 tfm prepare`"
        )


class _Workers(Generic[SideT]):
    """Gives each chunk to an idle worker. One thread waits for each worker; answers come in the order of the chunks."""

    def __init__(self, workers: Sequence[_Worker[SideT]]) -> None:
        self._workers = workers
        self._threads = ThreadPoolExecutor(len(workers))
        self._idle: SimpleQueue[_Worker[SideT]] = SimpleQueue()
        for worker in workers:
            self._idle.put(worker)

    def cut(self, pairs: Iterable[Pair]) -> Iterator[Chunk[SideT]]:
        """See `tokenizing`."""

        def finished(texts: Texts, sides: "Future[list[SideT]]") -> Chunk[SideT]:
            return Chunk(texts, sides.result())

        begun: deque[tuple[Texts, Future[list[SideT]]]] = deque()
        for texts in _chunks(pairs):
            begun.append((texts, self._threads.submit(self._ask, texts)))
            if len(begun) == WAITING * len(self._workers):
                yield finished(*begun.popleft())
        while begun:
            yield finished(*begun.popleft())

    def end(self) -> None:
        """Kill all workers, even if they are at work."""
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def _ask(self, texts: Texts) -> list[SideT]:
        worker = self._idle.get()
        try:
            return worker.cut(texts)
        finally:
            self._idle.put(worker)


def _chunks(pairs: Iterable[Pair]) -> Iterator[Texts]:
    pairs = iter(pairs)
    while chunk := list(islice(pairs, CHUNK)):
        yield tuple(zip(*chunk, strict=True))


def _send(file: IO[bytes], value: Any) -> None:
    """Write `value` as marshal encodes it, after its length in 8 bytes. Raises BrokenPipeError if nobody reads."""
    content = marshal.dumps(value)
    file.write(len(content).to_bytes(8, "little"))
    file.write(content)
    file.flush()


def _receive(file: IO[bytes]) -> Any:
    """Read a value that `_send` wrote. Raises EOFError if the sender is gone."""
    length = int.from_bytes(file.read(8), "little")
    content = file.read(length)
    if not length or len(content) < length:
        raise EOFError
    return marshal.loads(content)


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Processes started in this block ignore Ctrl-C, which a terminal sends to all processes: we end them ourselves."""
    if os.name != "posix":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
