"""Tokenises sentence pairs chunk by chunk, in order: in this process, or in worker processes on several cores.

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
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import islice
from queue import SimpleQueue
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.data.words import Tokenizer
from transformer_cli.errors import ConfigError, DataError

Pair = tuple[str, str]
Texts = tuple[tuple[str, ...], ...]  # (source texts, target texts) of a chunk

CHUNK = 1_000  # pairs that a worker gets at once; it tokenises them in a tenth of a second
WAITING = 2  # chunks that are handed out per worker before the first result is needed
START = "import sys; sys.path[:] = sys.argv[1:]; from transformer_cli.data.workers import serve; serve()"


@dataclass(frozen=True)
class TokenizedSide:
    """One side of some sentences: the distinct tokens, and which of them is where.

    For example, "Ein Hund, ein Mann." and "Ein Hund", in lower case, are

        forms    ein  hund  ,  mann  .
        ids      0  1  2  0  3  4    0  1
        lengths  6                   2
        glued    -  x  -  -  x  x    -  x
    """

    forms: list[str]
    """the distinct tokens, in the order in which they first appear"""
    ids: NDArray[np.int32]
    """(tokens,): all sentences end to end; token i is forms[ids[i]]"""
    lengths: NDArray[np.int64]
    """(sentences,): how many tokens each sentence has"""
    glued: NDArray[np.bool_]
    """(tokens,): True if no space follows the token in the text: glued to the next one, or at the end of the text"""

    def sentences(self) -> Iterator[list[str]]:
        """Yield the tokens of each sentence."""
        words = [self.forms[index] for index in self.ids.tolist()]
        start = 0
        for length in self.lengths.tolist():
            yield words[start : start + length]
            start += length


@dataclass(frozen=True)
class TokenizedPairs:
    """A chunk of sentence pairs and their tokens."""

    texts: Texts
    sides: Sequence[TokenizedSide]
    """[source, target]"""

    def __len__(self) -> int:
        return len(self.texts[0])


Tokenize = Callable[[Iterable[Pair]], Iterator[TokenizedPairs]]


@contextmanager
def tokenizing(source: str, target: str, *, lowercase: bool, processes: int) -> Iterator[Tokenize]:
    """Yields a function from pairs to their tokens. Its chunks and their order are the same for any `processes`.

    source and target are languages. If `processes` is 1, this process does the work; otherwise that many workers do,
    and none of them is left at the end of the block.

    Raises ConfigError as Tokenizer does (with workers, at the first chunk), and DataError if a worker dies.
    """
    if processes == 1:
        tokenizers = _Tokenizers(source, target, lowercase)
        yield lambda pairs: (TokenizedPairs(texts, tokenizers.tokenize(texts)) for texts in _chunks(pairs))
        return
    workers = _Workers([_Worker(source, target, lowercase) for _ in range(processes)])
    try:
        yield workers.tokenize
    finally:
        workers.end()


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
        tokenizers = _Tokenizers(*_receive(requests))
        while True:
            sides = tokenizers.tokenize(_receive(requests))
            _send(answers, [(s.forms, s.ids.tobytes(), s.lengths.tobytes(), s.glued.tobytes()) for s in sides])
    except ConfigError as error:
        _send(answers, str(error))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the caller is gone: end at once, without writing what is left


class _Tokenizers:
    """The tokenisers of both sides."""

    def __init__(self, source: str, target: str, lowercase: bool) -> None:
        self._tokenizers = [Tokenizer(language, lowercase=lowercase) for language in (source, target)]

    def tokenize(self, texts: Texts) -> list[TokenizedSide]:
        """Tokenise both sides of a chunk; returns [source, target]."""
        return [_tokenize(*side) for side in zip(self._tokenizers, texts, strict=True)]


def _tokenize(tokenizer: Tokenizer, texts: Sequence[str]) -> TokenizedSide:
    known: dict[str, int] = {}
    ids: list[int] = []
    lengths: list[int] = []
    glued: list[bool] = []
    for text in texts:
        tokens = tokenizer.split(text)
        ids += [known.setdefault(word, len(known)) for word in tokens.words]
        lengths.append(len(tokens.words))
        glued += tokens.glued
    return TokenizedSide(
        list(known), np.array(ids, dtype=np.int32), np.array(lengths, dtype=np.int64), np.array(glued, dtype=np.bool_)
    )


class _Worker:
    """A worker process, as its caller sees it. However the caller ends, the worker's input ends with it."""

    def __init__(self, *settings: object) -> None:
        command = [sys.executable, "-c", START, *sys.path]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # NumPy would start one per core
        with _ctrl_c_held_back():
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._request(settings)

    def tokenize(self, texts: Texts) -> list[TokenizedSide]:
        """Like _Tokenizers.tokenize; raises DataError if the process is dead or dies."""
        self._request(texts)
        assert self._process.stdout
        try:
            answer = _receive(self._process.stdout)
        except EOFError:
            raise self._death() from None
        if isinstance(answer, str):
            raise ConfigError(answer)
        return [
            TokenizedSide(
                forms, np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int64), np.frombuffer(glued, np.bool_)
            )
            for forms, ids, lengths, glued in answer
        ]

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


class _Workers:
    """Gives each chunk to an idle worker. One thread waits for each worker; answers come in the order of the chunks."""

    def __init__(self, workers: Sequence[_Worker]) -> None:
        self._workers = workers
        self._threads = ThreadPoolExecutor(len(workers))
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in workers:
            self._idle.put(worker)

    def tokenize(self, pairs: Iterable[Pair]) -> Iterator[TokenizedPairs]:
        """See `tokenizing`."""
        begun: deque[tuple[Texts, Future[list[TokenizedSide]]]] = deque()
        for texts in _chunks(pairs):
            begun.append((texts, self._threads.submit(self._ask, texts)))
            if len(begun) == WAITING * len(self._workers):
                yield _finished(*begun.popleft())
        while begun:
            yield _finished(*begun.popleft())

    def end(self) -> None:
        """Kill all workers, even if they are at work."""
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def _ask(self, texts: Texts) -> list[TokenizedSide]:
        worker = self._idle.get()
        try:
            return worker.tokenize(texts)
        finally:
            self._idle.put(worker)


def _finished(texts: Texts, sides: "Future[list[TokenizedSide]]") -> TokenizedPairs:
    return TokenizedPairs(texts, sides.result())


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
