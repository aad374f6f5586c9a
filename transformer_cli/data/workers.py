"""Cuts sentence pairs into tokens chunk by chunk, in order: in this process, or in worker processes on several cores.

A worker is a Python process that reads chunks of text from its standard input and writes their tokens to its standard
output. It is not forked, because the caller may run threads (torch does), and a fork of a process with threads may
hang. `multiprocessing` is not used either: without fork it runs the caller's script again in every worker. loky does
neither; docs/design.md says why it is not used. What cuts the text is spaCy's tokenisers or SentencePiece's pieces.
Knows nothing of vocabularies or files.
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
from typing import IO, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from transformer_cli.data.subwords import Pieces
from transformer_cli.data.words import Tokenizer
from transformer_cli.errors import ConfigError, DataError

Pair = tuple[str, str]
Texts = tuple[tuple[str, ...], ...]  # (source texts, target texts) of a chunk


@dataclass(frozen=True)
class CutSide:
    """One side of some sentences, as the ids of its tokens."""

    ids: NDArray[np.int32]
    """(tokens,): all sentences end to end"""
    lengths: NDArray[np.int64]
    """(sentences,): how many tokens each sentence has"""

    def pack(self) -> tuple[Any, ...]:
        """Returns what `unpack_subwords` reads, in types that marshal knows."""
        return self.ids.tobytes(), self.lengths.tobytes()


@dataclass(frozen=True)
class TokenizedSide(CutSide):
    """One side of some sentences: the distinct tokens, and which of them is where.

    For example, "Ein Hund, ein Mann." and "Ein Hund", in lower case, are

        forms    ein  hund  ,  mann  .
        ids      0  1  2  0  3  4    0  1
        lengths  6                   2
        glued    -  x  -  -  x  x    -  x
    """

    forms: list[str]
    """the distinct tokens, in the order in which they first appear; token i is forms[ids[i]]"""
    glued: NDArray[np.bool_]
    """(tokens,): True if no space follows the token in the text: glued to the next one, or at the end of the text"""

    def sentences(self) -> Iterator[list[str]]:
        """Yield the tokens of each sentence."""
        words = [self.forms[index] for index in self.ids.tolist()]
        start = 0
        for length in self.lengths.tolist():
            yield words[start : start + length]
            start += length

    def pack(self) -> tuple[Any, ...]:
        """Returns what `unpack_words` reads, in types that marshal knows."""
        return *super().pack(), self.forms, self.glued.tobytes()


SideT = TypeVar("SideT", bound=CutSide, covariant=True)


@dataclass(frozen=True)
class Chunk(Generic[SideT]):
    """Some sentence pairs and their tokens."""

    texts: Texts
    sides: Sequence[SideT]
    """[source, target]"""

    def __len__(self) -> int:
        return len(self.texts[0])


class WordCutter:
    """The spaCy tokenisers of both sides."""

    def __init__(self, source: str, target: str, lowercase: bool) -> None:
        """source and target are languages. Raises ConfigError as Tokenizer does."""
        self._tokenizers = [Tokenizer(language, lowercase=lowercase) for language in (source, target)]

    def cut(self, texts: Texts) -> list[TokenizedSide]:
        """Tokenise both sides of a chunk; returns [source, target]."""
        return [_tokenize(*side) for side in zip(self._tokenizers, texts, strict=True)]


class SubwordCutter:
    """The pieces of both sides."""

    def __init__(self, source: bytes, target: bytes, lowercase: bool) -> None:
        """source and target are models of SentencePiece."""
        self._lowercase = lowercase
        self._pieces = [Pieces(model) for model in (source, target)]

    def cut(self, texts: Texts) -> list[CutSide]:
        """Cut both sides of a chunk into pieces; returns [source, target]."""
        return [self._cut(*side) for side in zip(self._pieces, texts, strict=True)]

    def _cut(self, pieces: Pieces, texts: Sequence[str]) -> CutSide:
        lines = [pieces.encode(text.lower() if self._lowercase else text) for text in texts]
        ids = [index for line in lines for index in line]
        return CutSide(np.array(ids, dtype=np.int32), np.array([len(line) for line in lines], dtype=np.int64))


def unpack_words(ids: bytes, lengths: bytes, forms: list[str], glued: bytes) -> TokenizedSide:
    """The inverse of `TokenizedSide.pack`."""
    side = unpack_subwords(ids, lengths)
    return TokenizedSide(side.ids, side.lengths, forms, np.frombuffer(glued, np.bool_))


def unpack_subwords(ids: bytes, lengths: bytes) -> CutSide:
    """The inverse of `CutSide.pack`."""
    return CutSide(np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int64))


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
        np.array(ids, dtype=np.int32), np.array(lengths, dtype=np.int64), list(known), np.array(glued, dtype=np.bool_)
    )


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
