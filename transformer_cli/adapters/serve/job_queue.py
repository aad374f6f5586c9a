"""Threads that translate what requests are waiting for, together. Knows translators and lines, but no HTTP.

Each request is a job, which costs its characters × the hypotheses of its search. Jobs that cost at most SHORT come
before longer ones, whenever those came; but once TURN_SECONDS have passed since the last batch of a long job, one has
its turn, so that none waits for ever. A free worker takes what stands first in the next job, and then in others that
want the same of the same run and are as short, until the batch costs BATCH_COST. Of a line that has been read, the
tokens count, too.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from transformer_cli.adapters.serve.request_bodies import Limits
from transformer_cli.compute.threads import WorkerPool
from transformer_cli.errors import DataError, TfmError
from transformer_cli.pipeline import Translation, join_parts
from transformer_cli.search.interface import BeforeStep
from transformer_cli.text.line_encoder import InputLine
from transformer_cli.translate import PART_KEY_STEP, PIECE_KEY_STEP, Translator

SPLIT_REMEDY = "split the sentence"  # what a client can do about one that is too long
MAX_BATCH_LINES = 128  # lines that are translated together: about as many as Translator decodes at once
MAX_BATCH_COST = 1 << 12  # of what is translated together, in characters × hypotheses: at most 0.2 s of a small model
TOKEN_COST = 4  # characters that a token costs: as many as it has in usual text
SHORT_JOB_COST = MAX_BATCH_COST  # of a job's cost: such jobs come before longer ones, in the order in which they came
LONG_JOB_DELAY_S = 0.25  # from the end of a batch of a long job until another one comes before short jobs


class ServerBusy(TfmError):
    """Too much is waiting, or the server ends: what is asked is not computed now."""


@dataclass(eq=False, kw_only=True)
class Job:
    """What workers do for a request. Cancel the future if nobody waits for it any more."""

    n_lines: int = 1
    """how many lines it counts for until it is done"""
    cost: int = SHORT_JOB_COST
    """what all of it costs, as far as that is known when it comes"""
    future: "Future[Any]" = field(default_factory=Future, init=False)
    arrived: float = field(default_factory=monotonic, init=False)
    is_available: bool = field(default=True, init=False)
    """whether a free worker may take something of it"""


@dataclass(eq=False)
class FunctionJob(Job):
    """A function that a worker calls, which has its share of torch's threads."""

    function: Callable[[BeforeStep], Any]
    """gets what ends a search that nobody waits for any more, for `Translator.calling`"""


class _Part(NamedTuple):
    """One of the parts that a line is read as: which one of which line of its job, and what it costs."""

    row: int
    number: int
    line: InputLine
    cost: int


@dataclass(eq=False)
class TranslationJob(Job):
    """Lines to be translated, at least one; one worker at a time takes some of them, from the front.

    The future has one translation of each, or raises DataError, which names the line that is too long, or what decoding
    raises.
    """

    translator: Translator
    lines: Sequence[str]
    keys: Sequence[int]
    """the number of each line in its request, from 0, and of sentences as PART_KEY_STEP says"""
    are_sentences: bool = False
    """whether lines have been split, so that a sentence that is too long is cut further"""
    n_glossary_characters: int = 0
    """the characters of its own terms, which cost something, too"""
    input_lines: list[InputLine] = field(default_factory=list, init=False)
    """the lines that have been read, which are the first ones"""
    parts: deque[_Part] = field(default_factory=deque, init=False)
    """of these, what no worker has taken yet"""
    translations: dict[tuple[int, int], Translation] = field(default_factory=dict, init=False)
    """the translations by the index of their line and the number of their part"""

    def __post_init__(self) -> None:
        self.n_lines = len(self.lines)
        self.cost = self.n_glossary_characters + sum(map(self._cost, self.lines))

    def _cost(self, text: str, n_tokens: int = 0) -> int:
        return 1 + max(len(text), TOKEN_COST * n_tokens) * self.translator.settings.rows_per_sentence

    def can_batch_with(self, other: "TranslationJob") -> bool:
        """Whether both can be translated together. Samples depend on a line's number, which is that in its request."""
        one, two = self.translator, other.translator
        return one.engine is two.engine and one.settings == two.settings and not one.settings.sample

    def next_part(self, max_cost: float, limits: Limits) -> _Part | None:
        """Returns what comes next, if it costs at most so much. Raises DataError, or what reading a line raises."""
        while not self.parts and len(self.input_lines) < len(self.lines):
            if self._cost(self.lines[len(self.input_lines)]) > max_cost:
                return None
            self._encode_line(limits)
        return self.parts.popleft() if self.parts and self.parts[0].cost <= max_cost else None

    def _encode_line(self, limits: Limits) -> None:
        index, encoder = len(self.input_lines), self.translator.pipeline.line_encoder(SPLIT_REMEDY)
        max_tokens = max(
            1, min(limits.line_tokens, limits.hypothesis_tokens // self.translator.settings.rows_per_sentence)
        )
        try:
            line = (
                encoder.split_to_fit(self.lines[index], max_tokens)
                if self.are_sentences
                else encoder.encode(self.lines[index])
            )
            if (n_tokens := max((len(unit.encoded) for unit in line.units), default=0)) > max_tokens:
                raise DataError(f"{n_tokens} tokens, but this server takes at most {max_tokens}; {SPLIT_REMEDY}")
        except DataError as error:
            raise DataError(f"line {self.keys[index] % PART_KEY_STEP + 1}: {error}") from None
        for n, unit in enumerate(line.units or [line]):  # of nothing, one that is its own translation
            self.parts.append(_Part(index, n, unit, self._cost(unit.sentence, len(unit.encoded))))
        self.input_lines.append(line)

    @property
    def has_more(self) -> bool:
        """Whether there is more to take."""
        return bool(self.parts) or len(self.input_lines) < len(self.lines)

    def result(self) -> list[Translation] | None:
        """Returns the translation of each line; None as long as one is not there."""
        if self.has_more or len(self.translations) < sum(max(1, len(line.units)) for line in self.input_lines):
            return None
        parts = [
            [self.translations[n, k] for k in range(max(1, len(line.units)))] for n, line in enumerate(self.input_lines)
        ]
        return [
            join_parts(line, own) if line.parts else own[0] for line, own in zip(self.input_lines, parts, strict=True)
        ]


_Batch = list[tuple[TranslationJob, _Part]]


class JobQueue:
    """Threads that live as long as the server, and the jobs that they work on."""

    def __init__(self, n_workers: int, limits: Limits = Limits()) -> None:
        """n_workers: how many batches are translated at a time. They share torch's threads."""
        self._n_workers = n_workers
        self._limits = limits
        self._jobs: dict[Job, None] = {}  # that are not done, in the order in which they came
        self._n_busy = 0  # workers that compute
        self._long_batch_ended = -math.inf  # when the last batch of a long job ended; infinite while there is one
        self._last_batch_shared = False  # whether the newest batch was of several jobs
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="translate")

    @property
    def n_waiting_lines(self) -> int:
        """The lines of all jobs that are not done."""
        with self._changed:
            return sum(job.n_lines for job in self._jobs)

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
            limits, cost = self._limits, job.cost + sum(each.cost for each in self._jobs)
            is_costly = cost > limits.waiting_cost and self._jobs  # alone, a wide beam is taken, too
            if self.n_waiting_lines + job.n_lines > limits.waiting_lines or is_costly or self._is_closing:
                raise ServerBusy("too much is waiting to be translated; try again later")
            self._jobs[job] = None
            self._changed.notify()
        job.future.add_done_callback(lambda _: self._remove(job))
        return job.future

    def _remove(self, job: Job) -> None:
        """Take a job off the list that is done, or that nobody waits for."""
        with self._changed:
            self._jobs.pop(job, None)

    def _finish(self, job: Job, outcome: Any) -> None:
        """End a job with a result or an error, unless its client has gone."""
        self._remove(job)  # before the answer, behind which the same client may ask again
        with suppress(InvalidStateError):
            if isinstance(outcome, Exception):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)

    def _run(self) -> None:
        with WorkerPool(self._n_workers) as side:
            for _ in side.run(self._work, range(self._n_workers)):
                pass

    def _work(self, _: int) -> None:
        """A worker: compute what waits until the server ends."""
        while (first := self._next_job()) is not None:
            batch = self._form_batch(first) if isinstance(first, TranslationJob) else []
            jobs: list[Job] = list(dict.fromkeys(job for job, _ in batch)) or [first]
            before_step = partial(_stop_if_cancelled, jobs)
            try:
                found = (
                    {first: first.function(before_step)}
                    if isinstance(first, FunctionJob)
                    else _translate(batch, before_step)
                )
            except Exception as error:
                found = dict[Job, Any].fromkeys(jobs, error)
            with self._changed:
                self._n_busy -= 1
                self._long_batch_ended = monotonic() if first.cost > SHORT_JOB_COST else self._long_batch_ended
            for job, outcome in found.items():
                self._finish(job, outcome)

    def _next_job(self) -> Job | None:
        """Returns the job of which a worker takes something next; None at the end.

        Where others ask too, it waits a moment, so that what they ask is translated together.
        """
        with self._changed:
            while True:
                waiting = [job for job in self._jobs if job.is_available]
                if not waiting:
                    if self._is_closing:
                        return None
                    self._changed.wait()
                    continue
                window = self._limits.batching_delay_s if self._n_busy or self._last_batch_shared else 0.0
                left = min(job.arrived for job in waiting) + window - monotonic()
                if left <= 0 or self._is_closing:
                    break
                self._changed.wait(left)
            job = self._choose(waiting)
            job.is_available = False
            self._long_batch_ended = math.inf if job.cost > SHORT_JOB_COST else self._long_batch_ended
            self._n_busy += 1
            self._changed.notify()
            return job

    def _choose(self, waiting: Sequence[Job]) -> Job:
        """Returns the next job: of long ones, the one that has waited longest for the square of what it costs.

        A job of 10,000 so comes before one of 100,000 that has waited up to a hundred times as long.
        """
        now, short = monotonic(), next((job for job in waiting if job.cost <= SHORT_JOB_COST), None)
        if short and now - self._long_batch_ended < LONG_JOB_DELAY_S:
            return short
        long = (job for job in waiting if job.cost > SHORT_JOB_COST)
        return max(long, key=lambda job: (1 + now - job.arrived) / job.cost**2, default=waiting[0])

    def _form_batch(self, first: TranslationJob) -> _Batch:
        """Take parts of a job, then of those that are as short: at least one part, if any is wanted."""
        with self._changed:
            most = max(first.cost, SHORT_JOB_COST)
            others = [
                job for job in self._jobs if isinstance(job, TranslationJob) and job.is_available and job.cost <= most
            ]
            together = [first, *(job for job in others if job.can_batch_with(first))]
            for job in together:
                job.is_available = False
        batch: _Batch = []
        left = math.inf
        for job in together:
            try:
                while (
                    len(batch) < MAX_BATCH_LINES
                    and not job.future.done()
                    and (part := job.next_part(left, self._limits))
                ):
                    batch.append((job, part))
                    left = min(left, MAX_BATCH_COST) - part.cost
            except Exception as error:
                self._finish(job, error)
            if job.has_more:
                with self._changed:
                    job.is_available = True
                    self._changed.notify()
        self._last_batch_shared = len({job for job, _ in batch}) > 1
        return batch


def _translate(batch: _Batch, before_step: BeforeStep) -> dict[Job, Any]:
    """Translate parts together. Returns the results of the jobs that are done.

    before_step: called before each step of the search, and ends it by raising.
    """
    if not batch:
        return {}
    first, _ = batch[0]
    translations = first.translator.with_callback(before_step).translate_lines(
        [part.line for _, part in batch],
        keys=[job.keys[part.row] + part.number * PIECE_KEY_STEP for job, part in batch],
    )
    for (job, part), translation in zip(batch, translations, strict=True):
        job.translations[part.row, part.number] = translation
    results = {job: job.result() for job, _ in batch}  # two workers may see the end; the second one's is not taken
    return {job: result for job, result in results.items() if result is not None}


def _stop_if_cancelled(jobs: Sequence[Job]) -> None:
    """End a search between two of its steps when nobody waits for any of its results. Raises CancelledError."""
    if all(job.future.done() for job in jobs):
        raise CancelledError
