"""Threads that translate what requests are waiting for, together. Knows translators and lines, but no HTTP.

Each request is a job. A line of it costs its characters × the hypotheses of its search; once it has been read, it
consists of one or more parts, whose tokens count as TOKEN_COST characters each. Jobs that cost at most SHORT, as much
as a batch, come before longer ones, whenever those came; but once TURN_SECONDS have passed since the last batch of a
long job, one has its turn, so that nobody waits for ever. A free worker takes parts of the next job until the batch
costs BATCH_COST, then parts of others that want the same of the same run, if they are as short:

    jobs   A: costs 40,000, came first     B: costs 50, came while both workers computed parts of A
    who is ready first takes B alone; who is ready next takes 4,096 of A, and so on
"""

import math
import threading
from bisect import insort
from collections import deque
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
from transformer_cli.pipeline import Translation, joined
from transformer_cli.search.interface import BeforeStep
from transformer_cli.text.long_lines import Line
from transformer_cli.translate import PARTS, PIECES, Translator

SPLIT = "split the sentence"  # what a client can do about one that is too long
BATCH_LINES = 128  # lines that are translated together: about as many as Translator decodes at once
BATCH_COST = 1 << 12  # of what is translated together, in characters × hypotheses: at most 0.2 s of a small model
TOKEN_COST = 4  # characters that a token costs: as many as it has in usual text
SHORT = BATCH_COST  # of a job's cost: such jobs come before longer ones, in the order in which they came
TURN_SECONDS = 0.25  # from the end of a batch of a long job until another one comes before short jobs


class Busy(TfmError):
    """Too much is waiting, or the server ends: what is asked is not computed now."""


@dataclass(eq=False)
class Job:
    """What workers do for a request. Cancel the future if nobody waits for it any more."""

    n_left: int = field(init=False)
    """how many lines no worker has taken yet, or how many a call counts for"""
    cost_left: int = field(init=False)
    """what those cost"""
    cost: int = field(init=False)
    """what all of it costs, as far as that was known when it came"""
    future: "Future[Any]" = field(default_factory=Future, init=False)
    arrived: float = field(default_factory=monotonic, init=False)


@dataclass(eq=False)
class Call(Job):
    """A function that a worker calls, which has its share of torch's threads."""

    function: Callable[[BeforeStep], Any]
    """gets what ends a search that nobody waits for any more, for `Translator.calling`"""
    n_lines: int = 1
    """how many lines it counts for in the queue"""
    n_characters: int = SHORT
    """how many it works on"""

    def __post_init__(self) -> None:
        self.n_left, self.cost = self.n_lines, self.n_characters
        self.cost_left = self.cost


@dataclass(frozen=True)
class _Part:
    """A line that has not been read yet, or one of the parts that it is read as."""

    index: int
    """of the line in its job"""
    cost: int
    number: int = 0
    """of the part in its line"""
    line: Line | None = None
    """what is translated; None if it has not been read"""
    is_last: bool = True
    """whether it is the last part of its line"""


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
    parts: deque[_Part] = field(default_factory=deque, init=False)
    """what no worker has taken yet"""
    n_parts: int = field(init=False)
    """how many parts its lines have, as far as they have been read; a line that has not counts as one"""
    read: dict[int, Line] = field(default_factory=dict, init=False)
    """the lines that have been read, by their index"""
    found: dict[tuple[int, int], Translation] = field(default_factory=dict, init=False)
    """the translations by the index of their line and the number of their part"""

    def __post_init__(self) -> None:
        self.parts.extend(_Part(index, self.cost_of(line, index)) for index, line in enumerate(self.lines))
        self.n_left, self.cost = len(self.lines), sum(part.cost for part in self.parts)
        self.n_parts, self.cost_left = self.n_left, self.cost

    def cost_of(self, text: str, index: int, number: int = 0, n_tokens: int = 0) -> int:
        """Returns what a line costs, or a part of one, whose tokens are known."""
        own = max(len(text), TOKEN_COST * n_tokens) * self.translator.settings.rows_of_each
        return 1 + own + (0 if index or number else self.n_in_glossary)

    def goes_with(self, other: "Lines") -> bool:
        """Whether both can be translated together. Samples depend on a line's number, which is that in its request."""
        one, two = self.translator, other.translator
        return self is other or (one.engine is two.engine and one.settings == two.settings and not one.settings.sample)

    def result(self) -> list[Translation]:
        """Returns the translation of each line, when those of all parts are there."""
        lines = [self.read[index] for index in range(len(self.lines))]
        parts = [[self.found[index, n] for n in range(max(1, len(each.units)))] for index, each in enumerate(lines)]
        return [joined(line, own) if line.parts else own[0] for line, own in zip(lines, parts, strict=True)]


_Taken = list[tuple[Lines, _Part]]
_Found = list[tuple["Future[Any]", Any]]
"""Futures, each with what it is to end with"""
_Work = tuple[list["Future[Any]"], Callable[[BeforeStep], _Found], int, int, bool]
"""Who waits, what is computed for them, how many lines that is, what they cost, and whether the job is long"""


class Workers:
    """Threads that live as long as the server, and the queue that they take work from."""

    def __init__(self, n_workers: int, limits: Limits = Limits()) -> None:
        """n_workers: how many batches are translated at a time. They share torch's threads."""
        self._n_workers = n_workers
        self._limits = limits
        self._queue: list[Job] = []  # in the order in which they came
        self.n_waiting = 0  # lines that have not been translated yet, in the queue or by a worker
        self._cost_waiting = 0  # what these cost
        self._n_busy = 0  # workers that compute
        self._turn = -math.inf  # when the last batch of a long job ended; infinite while there is one
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
            self._queue.append(job)
            self._count(job.n_left, job.cost_left)
            self._changed.notify()
        job.future.add_done_callback(lambda _: self._forget(job))
        return job.future

    def _forget(self, job: Job) -> None:
        """Take a job off the queue that is cancelled, or has failed with an earlier part."""
        with self._changed:
            if job in self._queue:
                self._queue.remove(job)
                self._count(-job.n_left, -job.cost_left)
            if isinstance(job, Lines):
                job.parts.clear()

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
            futures, compute, n_lines, cost, is_long = work
            try:
                found = compute(partial(_check_wanted, futures))
            except Exception as error:
                found = [(future, error) for future in futures]
            with self._changed:  # before any answer, behind which the same client may ask again
                self._n_busy -= 1
                self._turn = monotonic() if is_long else self._turn
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
            head = self._head()
            is_long = head.cost > SHORT
            self._turn = math.inf if is_long else self._turn
            if isinstance(head, Call):
                self._queue.remove(head)
            self._n_busy += 1
            if self._queue:
                self._changed.notify()
        if isinstance(head, Call):
            return (
                [head.future],
                lambda check: [(head.future, head.function(check))],
                head.n_left,
                head.cost_left,
                is_long,
            )
        assert isinstance(head, Lines)
        taken = self._take(head)
        futures = [*dict.fromkeys(job.future for job, _ in taken)]
        self._were_several = len(futures) > 1
        n_lines, cost = sum(part.is_last for _, part in taken), sum(part.cost for _, part in taken)
        return futures, partial(_translate, taken), n_lines, cost, is_long

    def _head(self) -> Job:
        """Returns the next job: of long ones, the one that has waited longest for what it costs."""
        now, short = monotonic(), next((job for job in self._queue if job.cost <= SHORT), None)
        if short and now - self._turn < TURN_SECONDS:
            return short
        long = (job for job in self._queue if job.cost > SHORT)
        return max(long, key=lambda job: (1 + now - job.arrived) / job.cost, default=self._queue[0])

    def _take(self, head: Lines) -> _Taken:
        """Take parts of a job off the queue, then of those that are as short: at least one part, if any is wanted."""
        with self._changed:
            others = [job for job in self._queue if isinstance(job, Lines) and job is not head]
            shorter = [job for job in others if job.cost <= max(head.cost, SHORT) and job.goes_with(head)]
        taken: _Taken = []
        cost = 0
        for job in [head, *shorter]:
            while len(taken) < BATCH_LINES and (part := self._pop(job, BATCH_COST - cost if taken else math.inf)):
                if part.line is None:
                    self._put_back(job, part, _read(job, part.index, self._limits))
                else:
                    taken.append((job, part))
                    cost += part.cost
            if taken and job.parts:
                break
        return taken

    def _pop(self, job: Lines, most: float) -> _Part | None:
        """Take the next part of a job off the queue, unless there is none, or it costs more than that."""
        with self._changed:
            if not job.parts or job.parts[0].cost > most:
                return None
            part = job.parts.popleft()
            job.n_left, job.cost_left = job.n_left - part.is_last, job.cost_left - part.cost
            if not job.parts:
                self._queue.remove(job)
            return part

    def _put_back(self, job: Lines, line: _Part, parts: Sequence[_Part]) -> None:
        """Put the parts of a line that has been read in the place of the line, unless nobody waits for the job now."""
        with self._changed:
            if job.future.done():
                self._count(-1, -line.cost)
                return
            cost = sum(part.cost for part in parts)
            if not job.parts:
                insort(self._queue, job, key=lambda each: each.arrived)
            job.parts.extendleft(reversed(parts))
            job.n_left, job.cost_left, job.n_parts = job.n_left + 1, job.cost_left + cost, job.n_parts + len(parts) - 1
            self._count(0, cost - line.cost)
            self._changed.notify()


def _check_wanted(futures: "Sequence[Future[Any]]") -> None:
    """End a search between two of its steps when nobody waits for any of its results. Raises CancelledError."""
    if all(future.done() for future in futures):
        raise CancelledError


def _translate(taken: _Taken, check: BeforeStep) -> _Found:
    """Translate parts together. Returns the jobs that are done.

    check: is called before each step of the search, and ends it by raising.
    """
    if not taken:
        return []
    first, _ = taken[0]
    translations = first.translator.calling(check).translate_lines(
        [part.line for _, part in taken if part.line],
        keys=[job.keys[part.index] + part.number * PIECES for job, part in taken],
    )
    for (job, part), translation in zip(taken, translations, strict=True):
        job.found[part.index, part.number] = translation
    jobs = dict.fromkeys(job for job, _ in taken)  # two workers may see the end; the second one's result is not taken
    return [(job.future, job.result()) for job in jobs if len(job.found) == job.n_parts]


def _read(job: Lines, index: int, limits: Limits) -> list[_Part]:
    """Returns the parts that a line is read as; none if the job's future ends now with an error."""
    text, long_lines = job.lines[index], job.translator.pipeline.long_lines(SPLIT)
    most = max(1, min(limits.tokens, limits.hypotheses // job.translator.settings.rows_of_each))
    try:
        line = long_lines.cut(text, most) if job.are_sentences else long_lines.line(text)
        if (n_tokens := max((len(unit.read) for unit in line.units), default=0)) > most:
            raise DataError(f"{n_tokens} tokens, but this server takes at most {most}; {SPLIT}")
    except Exception as error:
        is_wrong = isinstance(error, DataError)
        _end(job.future, DataError(f"line {job.keys[index] % PARTS + 1}: {error}") if is_wrong else error)
        return []
    job.read[index] = line
    units = line.units or [line]  # of nothing, one that is its own translation
    costs = [job.cost_of(unit.sentence, index, n, len(unit.read)) for n, unit in enumerate(units)]
    return [
        _Part(index, cost, n, unit, n == len(units) - 1)
        for n, (unit, cost) in enumerate(zip(units, costs, strict=True))
    ]


def _end(future: "Future[Any]", found: Any) -> None:
    """End a future with a result or an error, unless it has ended: its client may have gone."""
    with suppress(InvalidStateError):
        if isinstance(found, Exception):
            future.set_exception(found)
        else:
            future.set_result(found)
