"""Threads that translate what requests are waiting for, together. Knows translators and lines, but no HTTP.

Each request is a job, which costs its characters × the hypotheses of each sentence. The next job is the one whose time
comes first: that is when it arrived, and a second later for every PACE that it costs. So a short request passes long
ones that came shortly before it, and nobody waits for ever. A free worker takes lines of that job, and of the next ones
that want the same of the same run, until the batch costs BATCH_COST:

    jobs   A: costs 40,000, arrives at 0 s, its time is 4.0 s     B: costs 50, arrives at 1 s, its time is 1.005 s
    worker 1 takes 8,192 of A at 0 s; worker 2 takes the next 8,192 of A; who is ready first takes B and the rest of A
"""

import threading
from bisect import insort
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from transformer_cli.adapters.serve.questions import Limits
from transformer_cli.compute.threads import SideBySide
from transformer_cli.errors import DataError, TfmError
from transformer_cli.pipeline import Translation
from transformer_cli.search.interface import BeforeStep
from transformer_cli.text.long_lines import Line
from transformer_cli.translate import PARTS, Translator

SPLIT = "split the sentence"  # what a client can do about one that is too long
BATCH_LINES = 128  # lines that are translated together: about as many as Translator decodes at once
BATCH_COST = 1 << 13  # of lines that are translated together, in characters × hypotheses: 0.2 s of a small model
PACE = 10_000  # of a job's cost: for so much, its time comes a second later


class Busy(TfmError):
    """Too much is waiting, or the server ends: what is asked is not computed now."""


@dataclass(eq=False)
class Job:
    """What workers do for a request. Cancel the future if nobody waits for it any more."""

    n_left: int = field(init=False)
    """how many lines no worker has taken yet, or how many a call counts for"""
    cost_left: int = field(default=0, init=False)
    """what those cost"""
    time: float = field(init=False)
    """when its turn comes, unless workers are free before"""
    future: "Future[Any]" = field(default_factory=Future, init=False)
    arrived: float = field(default_factory=monotonic, init=False)


@dataclass(eq=False)
class Call(Job):
    """A function that a worker calls, which has its share of torch's threads."""

    function: Callable[[BeforeStep], Any]
    """gets what ends a search that nobody waits for any more, for `Translator.calling`"""
    n_lines: int = 1
    """how many lines it counts for in the queue"""

    def __post_init__(self) -> None:
        self.n_left, self.time = self.n_lines, self.arrived


@dataclass(eq=False)
class Lines(Job):
    """Lines to be translated, at least one; workers take them from the front.

    The future has one translation of each, or raises DataError, which names the line that is too long, or what decoding
    raises.
    """

    translator: Translator
    lines: Sequence[str]
    keys: Sequence[int]
    """the number of each line in its request, from 0, and of sentences as PARTS says"""
    are_sentences: bool = False
    """whether lines have been split, so that a sentence that is too long is cut further"""
    n_in_glossary: int = 0
    """the characters of its own terms, which the first line costs, too"""
    costs: list[int] = field(init=False)
    """of each line, its characters × the hypotheses that its search keeps"""
    found: dict[int, Translation] = field(default_factory=dict, init=False)
    """the translations by the index of their line"""

    def __post_init__(self) -> None:
        self.costs = [1 + len(line) * self.translator.settings.rows_of_each for line in self.lines]
        self.costs[0] += self.n_in_glossary
        self.n_left, self.cost_left = len(self.lines), sum(self.costs)
        self.time = self.arrived + self.cost_left / PACE

    def goes_with(self, other: "Lines") -> bool:
        """Whether both can be translated together. Samples depend on a line's number, which is that in its request."""
        one, two = self.translator, other.translator
        return self is other or (one.engine is two.engine and one.settings == two.settings and not one.settings.sample)


_Slice = tuple[Lines, range]  # lines of a job, by their indices, that a worker has taken
_Found = list[tuple["Future[Any]", Any]]
"""Futures, each with what it is to end with"""
_Work = tuple[list["Future[Any]"], Callable[[BeforeStep], _Found], int, int]
"""Who waits, what is computed for them, how many lines that is, and what they cost"""


class Workers:
    """Threads that live as long as the server, and the queue that they take work from."""

    def __init__(self, n_workers: int, limits: Limits = Limits()) -> None:
        """n_workers: how many batches are translated at a time. They share torch's threads."""
        self._n_workers = n_workers
        self._limits = limits
        self._queue: list[Job] = []  # the one whose time comes first is the first
        self.n_waiting = 0  # lines that have not been translated yet, in the queue or by a worker
        self._cost_waiting = 0  # what these cost
        self._n_busy = 0  # workers that compute
        self._were_several = False  # whether the newest batch was of several jobs
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="translate")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the threads when all that waits has been done."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def add(self, job: Job) -> "Future[Any]":
        """Have a job done. Returns its future. Raises Busy."""
        with self._changed:
            limits, cost = self._limits, self._cost_waiting + job.cost_left
            is_costly = cost > limits.waiting_cost and self.n_waiting  # alone, a wide beam is taken, too
            if self.n_waiting + job.n_left > limits.waiting or is_costly or self._is_closing:
                raise Busy("too much is waiting to be translated; try again later")
            insort(self._queue, job, key=lambda each: each.time)
            self._count(job.n_left, job.cost_left)
            self._changed.notify()
        job.future.add_done_callback(lambda _: self._forget(job))
        return job.future

    def _forget(self, job: Job) -> None:
        """Take a job off the queue that is cancelled, or has failed with an earlier slice."""
        with self._changed:
            if job in self._queue:
                self._queue.remove(job)
                self._count(-job.n_left, -job.cost_left)

    def _count(self, n_lines: int, cost: int) -> None:
        self.n_waiting += n_lines
        self._cost_waiting += cost

    def _run(self) -> None:
        with SideBySide(self._n_workers) as side:
            for _ in side.run(self._work, range(self._n_workers)):
                pass

    def _work(self, _: int) -> None:
        """A worker: take what waits until the server ends."""
        while (work := self._next()) is not None:
            futures, compute, n_lines, cost = work
            try:
                found = compute(partial(_check_wanted, futures))
            except Exception as error:
                found = [(future, error) for future in futures]
            with self._changed:  # before any answer, behind which the same client may ask again
                self._n_busy -= 1
                self._count(-n_lines, -cost)
            for future, outcome in found:
                _end(future, outcome)

    def _next(self) -> _Work | None:
        """Returns what a worker computes next; None at the end.

        Where others ask too, it waits a moment, so that what they ask is translated together.
        """
        with self._changed:
            while True:
                if not self._queue:
                    if self._is_closing:
                        return None
                    self._changed.wait()
                    continue
                window = self._limits.window_seconds if self._n_busy or self._were_several else 0.0
                left = min(job.arrived for job in self._queue) + window - monotonic()
                is_full = sum(job.n_left for job in self._queue) >= BATCH_LINES
                if left <= 0 or is_full or self._is_closing:
                    break
                self._changed.wait(left)
            work = self._take()
            self._n_busy += 1
            self._were_several = len(work[0]) > 1
            if self._queue:
                self._changed.notify()
            return work

    def _take(self) -> _Work:
        """Take a call or a batch off the queue, which is not empty."""
        head = self._queue[0]
        if isinstance(head, Call):
            del self._queue[0]
            return [head.future], lambda check: [(head.future, head.function(check))], head.n_left, 0
        assert isinstance(head, Lines)
        slices: list[_Slice] = []
        n_lines = cost = 0
        for job in self._queue:
            if isinstance(job, Lines) and job.goes_with(head):
                first = index = len(job.lines) - job.n_left
                while index < len(job.lines) and n_lines < BATCH_LINES and (not n_lines or cost < BATCH_COST):
                    n_lines, cost, index = n_lines + 1, cost + job.costs[index], index + 1
                if index == first:
                    break
                slices.append((job, range(first, index)))
        for job, indices in slices:
            job.n_left -= len(indices)
            job.cost_left -= sum(job.costs[index] for index in indices)
        self._queue = [job for job in self._queue if job.n_left]
        return [job.future for job, _ in slices], partial(_translate, slices, self._limits), n_lines, cost


def _check_wanted(futures: "Sequence[Future[Any]]") -> None:
    """End a search between two of its steps when nobody waits for any of its results. Raises CancelledError."""
    if all(future.done() for future in futures):
        raise CancelledError


def _translate(slices: Sequence[_Slice], limits: Limits, check: BeforeStep) -> _Found:
    """Translate slices together. Returns the jobs that are done; a line that is too long fails only its own job.

    check: is called before each step of the search, and ends it by raising.
    """
    read = [(job, indices, found) for job, indices in slices if (found := _read(job, indices, limits)) is not None]
    if not read:
        return []
    job, _, _ = read[0]
    translations = iter(
        job.translator.calling(check).translate_lines(
            [line for _, _, lines in read for line in lines],
            keys=[job.keys[index] for job, indices, _ in read for index in indices],
        )
    )
    done: _Found = []
    for job, indices, _ in read:
        job.found.update({index: next(translations) for index in indices})
        if len(job.found) == len(job.lines):  # two workers may see that; the second one's result is not taken
            done.append((job.future, [job.found[index] for index in range(len(job.lines))]))
    return done


def _read(job: Lines, indices: range, limits: Limits) -> list[Line] | None:
    """Returns what the encoder reads of each line; None if the job's future has ended, or ends now with an error."""
    long_lines = job.translator.pipeline.long_lines(SPLIT)
    most = max(1, min(limits.tokens, limits.hypotheses // job.translator.settings.rows_of_each))
    read: list[Line] = []
    for index in indices:
        if job.future.done():
            return None
        try:
            text = job.lines[index]
            line = long_lines.cut(text, most) if job.are_sentences else long_lines.line(text)
            if (n_tokens := max(len(unit.read) for unit in line.units)) > most:
                raise DataError(f"{n_tokens} tokens, but this server takes at most {most}; {SPLIT}")
        except DataError as error:
            _end(job.future, DataError(f"line {job.keys[index] % PARTS + 1}: {error}"))
            return None
        read.append(line)
    return read


def _end(future: "Future[Any]", found: Any) -> None:
    """End a future with a result or an error, unless it has ended: its client may have gone."""
    with suppress(InvalidStateError):
        if isinstance(found, Exception):
            future.set_exception(found)
        else:
            future.set_result(found)
