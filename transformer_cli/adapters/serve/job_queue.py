"""A queue of jobs, and the threads (workers) that compute them in batches. Knows translators and lines, but no HTTP.

Each request is a job. docs/decisions/serving.md says what a job costs, and in which order jobs are computed.
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
from transformer_cli.search.protocols import BeforeStep
from transformer_cli.text.line_encoder import InputLine
from transformer_cli.translate import PART_KEY_STEP, PIECE_KEY_STEP, Translator

SPLIT_REMEDY = "split the sentence"  # for a client whose sentence is too long
TOKEN_COST = 4  # characters per token in usual text


class ServerBusy(TfmError):
    """The request is refused for now: the queue is full, or the server is shutting down."""


@dataclass(eq=False, kw_only=True)
class Job:
    """The work for one request. Cancel its future if the client is gone."""

    n_lines: int = 1
    """how many waiting lines it counts as until it is done"""
    cost: int = Limits.short_job_cost
    """its whole cost, estimated on arrival"""
    future: "Future[Any]" = field(default_factory=Future, init=False)
    arrived: float = field(default_factory=monotonic, init=False)
    is_available: bool = field(default=True, init=False)
    """whether a free worker may take a part of it"""


@dataclass(eq=False)
class FunctionJob(Job):
    """A function that a worker calls, with its share of torch's threads."""

    function: Callable[[BeforeStep], Any]
    """gets a callback for `Translator.with_callback`, which stops the search when the job is cancelled"""


class _Part(NamedTuple):
    """Part `number` of line `row` of a job; a line that is too long has several."""

    row: int
    number: int
    line: InputLine
    cost: int


@dataclass(eq=False)
class TranslationJob(Job):
    """One line or more to translate. One worker at a time takes parts of it, in order.

    The future has a translation of each line, or raises DataError, which names a line that is too long, or an error of
    the search.
    """

    translator: Translator
    lines: Sequence[str]
    keys: Sequence[int]
    """each line's number in its request, from 0; for sentences, see PART_KEY_STEP"""
    are_sentences: bool = False
    """whether the lines are sentences: too long ones are split instead of refused"""
    n_glossary_characters: int = 0
    """the characters of the request's terms, which are part of its cost"""
    input_lines: list[InputLine] = field(default_factory=list, init=False)
    """the lines that are encoded so far"""
    parts: deque[_Part] = field(default_factory=deque, init=False)
    """the parts of these lines that no worker has taken yet"""
    translations: dict[tuple[int, int], Translation] = field(default_factory=dict, init=False)
    """by row and number of the part"""

    def __post_init__(self) -> None:
        self.n_lines = len(self.lines)
        self.cost = self.n_glossary_characters + sum(map(self._cost, self.lines))

    def _cost(self, text: str, n_tokens: int = 0) -> int:
        return 1 + max(len(text), TOKEN_COST * n_tokens) * self.translator.settings.rows_per_sentence

    def can_batch_with(self, other: "TranslationJob") -> bool:
        """Whether both can share a batch; not if they sample, since samples depend on a line's number in a request."""
        one, two = self.translator, other.translator
        return one.engine is two.engine and one.settings == two.settings and not one.settings.sample

    def next_part(self, max_cost: float, limits: Limits) -> _Part | None:
        """Returns the next part if it costs at most `max_cost`. Raises DataError, or an error of encoding a line."""
        while not self.parts and len(self.input_lines) < len(self.lines):
            if self._cost(self.lines[len(self.input_lines)]) > max_cost:
                return None
            self._encode_line(limits)
        return self.parts.popleft() if self.parts and self.parts[0].cost <= max_cost else None

    def _encode_line(self, limits: Limits) -> None:
        index, encoder = len(self.input_lines), self.translator.pipeline.line_encoder(SPLIT_REMEDY)
        by_hypotheses = limits.batch_cost // TOKEN_COST // self.translator.settings.rows_per_sentence
        text, max_tokens = self.lines[index], max(1, min(limits.line_tokens, by_hypotheses))
        try:
            line = encoder.split_to_fit(text, max_tokens) if self.are_sentences else encoder.encode(text)
            if (n_tokens := max((len(unit.encoded) for unit in line.units), default=0)) > max_tokens:
                raise DataError(f"{n_tokens} tokens, but this server takes at most {max_tokens}; {SPLIT_REMEDY}")
        except DataError as error:
            raise DataError(f"line {self.keys[index] % PART_KEY_STEP + 1}: {error}") from None
        for n, unit in enumerate(line.units or [line]):  # an empty line is its own translation
            self.parts.append(_Part(index, n, unit, self._cost(unit.sentence, len(unit.encoded))))
        self.input_lines.append(line)

    @property
    def has_more(self) -> bool:
        """Whether some parts are not taken yet."""
        return bool(self.parts) or len(self.input_lines) < len(self.lines)

    def result(self) -> list[Translation] | None:
        """Returns the translation of each line, or None while some are missing."""
        n_parts = [max(1, len(line.units)) for line in self.input_lines]
        if self.has_more or len(self.translations) < sum(n_parts):
            return None
        parts = [[self.translations[row, number] for number in range(n)] for row, n in enumerate(n_parts)]
        lines = zip(self.input_lines, parts, strict=True)
        return [join_parts(line, own) if line.parts else own[0] for line, own in lines]


class JobQueue:
    """The server's jobs, and the worker threads that compute them."""

    def __init__(self, n_workers: int, limits: Limits = Limits()) -> None:
        """n_workers: how many batches are computed at a time. They share torch's threads."""
        self._n_workers = n_workers
        self._limits = limits
        self._jobs: dict[Future[Any], Job] = {}  # unfinished ones, in order of arrival
        self._n_busy = 0  # workers that are computing
        self._long_batch_ended = -math.inf  # when the last batch of a long job ended; infinite while one runs
        self._last_batch_shared = False  # whether the last batch had parts of several jobs
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="translate")

    @property
    def n_waiting_lines(self) -> int:
        """The lines of all unfinished jobs."""
        with self._changed:
            return sum(job.n_lines for job in self._jobs.values())

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Finish all jobs, then end the threads."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def add(self, job: Job) -> "Future[Any]":
        """Add a job. Returns its future. Raises ServerBusy."""
        with self._changed:
            limits, cost = self._limits, job.cost + sum(each.cost for each in self._jobs.values())
            is_costly = cost > limits.waiting_cost and self._jobs  # into an empty queue, any job may come
            if self.n_waiting_lines + job.n_lines > limits.waiting_lines or is_costly or self._is_closing:
                raise ServerBusy("too much is waiting to be translated; try again later")
            self._jobs[job.future] = job
            self._changed.notify()
        job.future.add_done_callback(self._remove)  # not the job: in a cycle, it would wait for the garbage collector
        return job.future

    def _remove(self, future: "Future[Any]") -> None:
        """Remove the job of a future that is done or cancelled."""
        with self._changed:
            self._jobs.pop(future, None)

    def _finish(self, job: Job, outcome: Any) -> None:
        """Set a job's result or error, unless its client is gone."""
        self._remove(job.future)  # before the answer, since the same client may then send another request
        with suppress(InvalidStateError):
            if isinstance(outcome, Exception):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)

    def _run(self) -> None:
        with WorkerPool(self._n_workers) as pool:
            list(pool.run(self._work, range(self._n_workers)))

    def _work(self, _: int) -> None:
        """Run a worker: compute batches until the server ends."""
        while (first := self._next_job()) is not None:
            batch = self._form_batch(first) if isinstance(first, TranslationJob) else []
            jobs: list[Job] = list(dict.fromkeys(job for job, _ in batch)) or [first]
            before_step = partial(_stop_if_cancelled, jobs)
            try:
                if isinstance(first, FunctionJob):
                    outcomes: dict[Job, Any] = {first: first.function(before_step)}
                else:
                    outcomes = _translate(batch, before_step)
            except Exception as error:
                outcomes = dict.fromkeys(jobs, error)
            with self._changed:
                self._n_busy -= 1
                if first.cost > self._limits.short_job_cost:
                    self._long_batch_ended = monotonic()
            for job, outcome in outcomes.items():
                self._finish(job, outcome)

    def _next_job(self) -> Job | None:
        """Returns the job from which a worker takes parts next; None at the end.

        If several clients send requests, waits a moment for more, which are then translated in one batch.
        """
        with self._changed:
            while True:
                waiting = [job for job in self._jobs.values() if job.is_available]
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
            job = self._choose_job(waiting)
            job.is_available = False
            self._long_batch_ended = math.inf if job.cost > self._limits.short_job_cost else self._long_batch_ended
            self._n_busy += 1
            if len(waiting) > 1:
                self._changed.notify()
            return job

    def _choose_job(self, waiting: Sequence[Job]) -> Job:
        """Returns the next job; of long ones, the one with the longest wait divided by the square of its cost.

        So a job that costs 10,000 comes before one that costs 100,000 and has waited up to a hundred times as long.
        """
        now, short = monotonic(), next((job for job in waiting if job.cost <= self._limits.short_job_cost), None)
        if short and now - self._long_batch_ended < self._limits.long_job_delay_s:
            return short
        long = (job for job in waiting if job.cost > self._limits.short_job_cost)
        return max(long, key=lambda job: (1 + now - job.arrived) / job.cost**2, default=waiting[0])

    def _form_batch(self, first: TranslationJob) -> list[tuple[TranslationJob, _Part]]:
        """Take parts of a job, then of others that cost no more. Returns [] if the job was cancelled or has failed."""
        with self._changed:
            max_cost = max(first.cost, self._limits.short_job_cost)
            available = [job for job in self._jobs.values() if isinstance(job, TranslationJob) and job.is_available]
            others = [job for job in available if job.cost <= max_cost and job.can_batch_with(first)]
            for job in others:
                job.is_available = False
        batch = list[tuple[TranslationJob, _Part]]()
        left, limits, most = math.inf, self._limits, self._limits.batch_lines
        for job in (first, *others):
            try:
                while len(batch) < most and not job.future.done() and (part := job.next_part(left, limits)):
                    batch.append((job, part))
                    left = min(left, limits.batch_cost) - part.cost
            except Exception as error:
                self._finish(job, error)
            if job.has_more:
                with self._changed:
                    job.is_available = True
                    self._changed.notify()
        self._last_batch_shared = len({job for job, _ in batch}) > 1
        return batch


def _translate(batch: Sequence[tuple[TranslationJob, _Part]], before_step: BeforeStep) -> dict[Job, Any]:
    """Translate a batch. Returns the results of the jobs that are now done.

    before_step: called before each step of the search; stops it by raising an error.
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
    results = {job: job.result() for job, _ in batch}  # two workers may see the end; the second result is ignored
    return {job: result for job, result in results.items() if result is not None}


def _stop_if_cancelled(jobs: Sequence[Job]) -> None:
    """Raises CancelledError if all jobs of a batch are done or cancelled."""
    if all(job.future.done() for job in jobs):
        raise CancelledError
