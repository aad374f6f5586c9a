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
from transformer_cli.errors import DataError, TfmError
from transformer_cli.serve.questions import Limits
from transformer_cli.system import progress
from transformer_cli.translator import Options, Translation, Translator

SPLIT = "split the sentence"  # what a client can do about one that is too long
BATCH_LINES = 128  # lines that are translated together: about as many as Translator decodes at once


class Busy(TfmError):
    """Too much is waiting, or the server ends: what is asked is not computed now."""


class _Unwanted(Exception):
    """Nobody waits any more for what is being computed."""


@dataclass(eq=False)
class _Job:
    """What one request waits for."""

    future: "Future[Any]"
    n_left: int
    """how many lines of it no worker has taken yet, or how many a function counts for"""
    arrived: float


@dataclass(eq=False)
class _Call(_Job):
    """A function that a worker calls: what is not translation of lines."""

    function: Callable[[], Any]


@dataclass(eq=False)
class _Lines(_Job):
    """Lines to be translated; workers take them from the front."""

    translator: Translator
    lines: Sequence[str]
    options: Options
    settings: SearchSettings
    found: dict[int, Translation] = field(default_factory=dict)
    """the translations by the index of their line"""

    def goes_with(self, other: _Job) -> bool:
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


class Workers:
    """Threads that live as long as the server, and the queue that they take work from."""

    def __init__(self, n_workers: int, limits: Limits = Limits()) -> None:
        """n_workers: how many batches are translated at a time. They share torch's threads."""
        self._n_workers = n_workers
        self._limits = limits
        self._queue: deque[_Job] = deque()
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
        """Give up what waits and what is being computed: the futures raise Busy."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            abandoned = list(self._open)
        for future in abandoned:
            _end(future, Busy("the server ends before this is answered; try again later"))

    def translate(
        self, translator: Translator, lines: Sequence[str], options: Options, settings: SearchSettings
    ) -> "Future[list[Translation]]":
        """Have lines translated, one translation each. Cancel the future if nobody waits for it any more.

        Raises Busy. The future raises DataError, which names the line that is too long, or what decoding raises.
        """
        return self._add(_Lines(Future(), len(lines), monotonic(), translator, lines, options, settings))

    def call(self, function: Callable[[], Any], n_lines: int = 1) -> "Future[Any]":
        """Have a function called in a worker, which has its share of torch's threads. Raises Busy.

        n_lines: how many lines it counts for in the queue.
        """
        return self._add(_Call(Future(), n_lines, monotonic(), function))

    def _add(self, job: _Job) -> "Future[Any]":
        with self._changed:
            self._drop_cancelled()
            if self._n_waiting + job.n_left > self._limits.waiting or self._is_closing:
                raise Busy("too much is waiting to be translated; try again later")
            self._queue.append(job)
            self._n_waiting += job.n_left
            self._open.add(job.future)
            self._changed.notify()
        job.future.add_done_callback(self._open.discard)
        return job.future

    def _run(self) -> None:
        with SideBySide(self._n_workers) as side:
            for _ in side.run(self._work, range(self._n_workers)):
                pass

    def _work(self, _: int) -> None:
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
        slices: list[_Slice] = []
        room = BATCH_LINES
        for job in [
            each for each in self._queue if isinstance(each, _Lines) and (each is head or each.goes_with(head))
        ]:
            first = len(job.lines) - job.n_left
            part = job.lines[first : first + room]
            slices.append(_Slice(job, first, part))
            room -= len(part)
            job.n_left -= len(part)
            self._n_waiting -= len(part)
            self._queue.remove(job)
            if job.n_left:
                self._queue.append(job)
            if not room:
                break
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
            _end(call.future, call.function())
    except Exception as error:
        _end(call.future, error)


def _translate(slices: Sequence[_Slice], limits: Limits) -> None:
    """Translate slices together. What is wrong with one of them fails only the job that it belongs to."""
    read = {each: encoded for each in slices if (encoded := _read(each, limits)) is not None}
    if not read:
        return
    job = next(iter(read)).job
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
        return
    except Exception as error:
        if len(read) == 1:
            _end(job.future, error)
            return
        for each in read:
            _translate([each], limits)
        return
    found = iter(translations)
    for each in read:
        job = each.job
        job.found.update({index: next(found) for index in range(each.first, each.first + len(each.lines))})
        if len(job.found) == len(job.lines):  # two workers may see that; the second one's result is not taken
            _end(job.future, [job.found[index] for index in range(len(job.lines))])


def _read(part: _Slice, limits: Limits) -> list[Encoded] | None:
    """Returns what the encoder reads of each line; None if the job's future has ended, or ends now with an error."""
    job = part.job
    fitting = Fitting(job.translator.run.codecs.source, job.translator.max_length, job.options.on_error, SPLIT)
    read: list[Encoded] = []
    try:
        for line in part.lines:
            if job.future.done():
                return None
            encoded = fitting.line(line).read
            if len(encoded) > limits.tokens:
                raise DataError(f"{len(encoded)} tokens, but this server takes at most {limits.tokens}; {SPLIT}")
            read.append(encoded)
        return read
    except Exception as error:
        where = f"line {part.first + len(read) + 1}"
        _end(job.future, DataError(f"{where}: {error}") if isinstance(error, DataError) else error)
        return None


def _end(future: "Future[Any]", found: Any) -> None:
    """End a future with a result or an error, unless it has ended: its client may have gone."""
    with suppress(InvalidStateError):
        if isinstance(found, Exception):
            future.set_exception(found)
        else:
            future.set_result(found)
