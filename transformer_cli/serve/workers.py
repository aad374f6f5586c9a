"""Threads that translate what requests are waiting for, together. Knows translators and lines, but no HTTP.

Each request is a job in one queue. A free worker takes lines of the job at its head, and fills its batch with lines of
the other jobs that want the same of the same run; what is left of a long job goes to the end of the queue, so nobody
waits for all of it:

    queue  A: 300 lines, B: 1 line, C: 2 lines      a batch takes 128 lines
    worker 1 takes 128 of A; queue B, C, A: 172     worker 2 takes B, C and 125 of A; queue A: 47
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from transformer_cli.compute.threads import SideBySide
from transformer_cli.data.codec import Encoded
from transformer_cli.data.fitting import Fitting
from transformer_cli.decoding.decoder import before_each_step
from transformer_cli.decoding.settings import SearchSettings
from transformer_cli.errors import DataError
from transformer_cli.serve.questions import Limits
from transformer_cli.system import progress
from transformer_cli.translator import Options, Translation, Translator

SPLIT = "split the sentence"  # what a client can do about one that is too long
BATCH_LINES = 128  # lines that are translated together: about as many as Translator decodes at once


class Busy(Exception):
    """So much is waiting that nothing more is accepted."""


class Ending(Exception):
    """The server had to end before this was computed."""


class _Unwanted(Exception):
    """Nobody waits any more for what is being computed."""


@dataclass(eq=False)
class _Lines:
    """Lines of one request, of which the first `taken` are being translated, or have been."""

    translator: Translator
    lines: Sequence[str]
    options: Options
    settings: SearchSettings
    future: "Future[list[Translation]]"
    arrived: float
    taken: int = 0
    done: dict[int, Translation] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def n_left(self) -> int:
        return len(self.lines) - self.taken

    def take(self, most: int) -> "_Slice":
        first, self.taken = self.taken, min(self.taken + most, len(self.lines))
        return _Slice(self, first, self.lines[first : self.taken])

    def goes_with(self, other: "_Lines | _Call") -> bool:
        """Whether both can be translated together. Samples depend on a line's number, which is that in its request."""
        return (
            isinstance(other, _Lines)
            and self.translator is other.translator
            and self.options == other.options
            and self.settings == other.settings
            and not self.settings.decoding.sample
        )


@dataclass(frozen=True, eq=False)
class _Slice:
    """Some lines of a job that a worker has taken."""

    job: _Lines
    first: int
    lines: Sequence[str]


@dataclass(eq=False)
class _Call:
    """A function that a worker calls: what is not translation of lines."""

    function: Callable[[], Any]
    future: "Future[Any]"
    arrived: float
    n_left: int
    """as many lines as it counts for"""


class Workers:
    """Threads that live as long as the server, and the queue that they take work from."""

    def __init__(self, n_workers: int, limits: Limits = Limits()) -> None:
        """n_workers: how many batches are translated at a time. They share torch's threads."""
        self._n_workers = n_workers
        self._limits = limits
        self._queue: deque[_Lines | _Call] = deque()
        self._n_waiting = 0
        self._is_closing = False
        self._open: set[Future[Any]] = set()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="translate")

    def start(self) -> None:
        """Start the threads."""
        self._thread.start()

    def close(self) -> None:
        """End the threads when all that waits has been done."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def abandon(self) -> None:
        """Give up what waits and what is being computed: the futures raise Ending."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            abandoned = list(self._open)
        for future in abandoned:
            _fail(future, Ending())

    def translate(
        self, translator: Translator, lines: Sequence[str], options: Options, settings: SearchSettings
    ) -> "Future[list[Translation]]":
        """Have lines translated, one translation each. Cancel the future if nobody waits for it any more.

        Raises Busy. The future raises DataError, which names the line that is too long, or what decoding raises.
        """
        future: Future[list[Translation]] = Future()
        self._add(_Lines(translator, lines, options, settings, future, monotonic()))
        return future

    def call(self, function: Callable[[], Any], n_lines: int = 1) -> "Future[Any]":
        """Have a function called in a worker, which has its share of torch's threads. Raises Busy.

        n_lines: how many lines it counts for in the queue.
        """
        future: Future[Any] = Future()
        self._add(_Call(function, future, monotonic(), n_lines))
        return future

    def _add(self, job: _Lines | _Call) -> None:
        if not job.n_left:
            job.future.set_result([])
            return
        with self._changed:
            self._drop_cancelled()
            if self._n_waiting + job.n_left > self._limits.waiting or self._is_closing:
                raise Busy
            self._queue.append(job)
            self._n_waiting += job.n_left
            self._open.add(job.future)
            self._changed.notify()
        job.future.add_done_callback(self._open.discard)

    def _run(self) -> None:
        with SideBySide(self._n_workers) as side:
            for _ in side.run(lambda _: self._work(), range(self._n_workers)):
                pass

    def _work(self) -> None:
        """A worker: take what waits until the server ends."""
        with progress.hidden():
            while (work := self._next()) is not None:
                if isinstance(work, _Call):
                    _call(work)
                else:
                    _translate(work, self._limits)

    def _next(self) -> "list[_Slice] | _Call | None":
        """Returns the slices that are translated together, or a call; None at the end."""
        with self._changed:
            while True:
                self._drop_cancelled()
                if not self._queue:
                    if self._is_closing:
                        return None
                    self._changed.wait()
                    continue
                left = self._queue[0].arrived + self._limits.window_seconds - monotonic()
                if left <= 0 or self._n_waiting >= BATCH_LINES or self._is_closing:
                    break
                self._changed.wait(left)
            taken = self._take()
            if self._queue:
                self._changed.notify()
            return taken

    def _take(self) -> "list[_Slice] | _Call":
        """Take a batch off the queue, which is not empty."""
        head = self._queue[0]
        if isinstance(head, _Call):
            self._queue.popleft()
            self._n_waiting -= head.n_left
            return head
        slices = []
        n_lines = 0
        for job in [each for each in self._queue if each is head or head.goes_with(each)]:
            assert isinstance(job, _Lines)
            slices.append(job.take(BATCH_LINES - n_lines))
            n_lines += len(slices[-1].lines)
            self._queue.remove(job)
            if job.n_left:
                self._queue.append(job)
            if n_lines == BATCH_LINES:
                break
        self._n_waiting -= n_lines
        return slices

    def _drop_cancelled(self) -> None:
        """Forget the jobs whose futures are cancelled, or have failed with an earlier slice."""
        if any(job.future.done() for job in self._queue):
            self._queue = deque(job for job in self._queue if not job.future.done())
            self._n_waiting = sum(job.n_left for job in self._queue)


@contextmanager
def _while_wanted(futures: "Sequence[Future[Any]]") -> Iterator[None]:
    """End a search during the block, between two of its steps, when none of these futures is waited for any more."""

    def look() -> None:
        if all(future.done() for future in futures):
            raise _Unwanted

    token = before_each_step.set(look)
    try:
        yield
    finally:
        before_each_step.reset(token)


def _call(call: _Call) -> None:
    try:
        with _while_wanted([call.future]):
            result = call.function()
    except Exception as error:
        _fail(call.future, error)
    else:
        _succeed(call.future, result)


def _translate(slices: Sequence[_Slice], limits: Limits) -> None:
    """Translate slices together. What is wrong with one of them fails only the job that it belongs to."""
    read = {each: encoded for each in slices if (encoded := _read(each, limits)) is not None}
    if not read:
        return
    job, *others = (each.job for each in read)
    try:
        with _while_wanted([each.job.future for each in read]):
            translations = job.translator.translate_encoded(
                [line for each in read for line in each.lines],
                [line for lines in read.values() for line in lines],
                job.options,
                job.settings,
                first_line=slices[0].first + 1,  # it matters only for samples, which come from one slice
            )
    except _Unwanted:
        pass
    except Exception as error:
        if not others:
            _fail(job.future, error)
            return
        for each in read:
            _translate([each], limits)
    else:
        found = iter(translations)
        for each in read:
            _finish(each, [next(found) for _ in each.lines])


def _read(part: _Slice, limits: Limits) -> list[Encoded] | None:
    """Returns what the encoder reads of each line; None if the job's future has ended, or ends now with an error."""
    job = part.job
    fitting = Fitting(job.translator.run.codecs.source, job.translator.max_length, job.options.on_error, SPLIT)
    read = []
    for number, line in enumerate(part.lines, start=part.first + 1):
        if job.future.done():
            return None
        try:
            encoded = fitting.line(line).read
            if len(encoded) > limits.tokens:
                raise DataError(f"{len(encoded)} tokens, but this server takes at most {limits.tokens}; {SPLIT}")
        except DataError as error:
            _fail(job.future, DataError(f"line {number}: {error}"))
            return None
        except Exception as error:
            _fail(job.future, error)
            return None
        read.append(encoded)
    return read


def _finish(part: _Slice, translations: Sequence[Translation]) -> None:
    """Keep a slice's translations; the last slice of a job ends its future."""
    job = part.job
    with job.lock:
        job.done.update(enumerate(translations, start=part.first))
        is_whole = len(job.done) == len(job.lines)
    if is_whole:
        _succeed(job.future, [job.done[index] for index in range(len(job.lines))])


def _succeed(future: "Future[Any]", result: Any) -> None:
    with suppress(InvalidStateError):  # cancelled: the client has gone
        future.set_result(result)


def _fail(future: "Future[Any]", error: Exception) -> None:
    with suppress(InvalidStateError):
        future.set_exception(error)
