"""The job queue: batches of several jobs, the order of jobs, limits, and cancelled jobs."""

import gc
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

import pytest

from transformer_cli import Translation, Translator
from transformer_cli.adapters.serve import job_queue
from transformer_cli.adapters.serve.job_queue import FunctionJob, JobQueue, ServerBusy, TranslationJob
from transformer_cli.adapters.serve.request_bodies import Limits
from transformer_cli.errors import DataError
from transformer_cli.model.transformer import Transformer
from transformer_cli.text.line_encoder import InputLine, LineEncoder

LINES = ["Der kleine Hund läuft im Park.", "Das Kind singt.", "", "Die alte Frau wartet am Strand."]


@contextmanager
def started(n_workers: int = 1, **limits: Any) -> Iterator[JobQueue]:
    found = JobQueue(n_workers, Limits(**limits))
    found.start()
    try:
        yield found
    finally:
        found.close()


@contextmanager
def busy_workers(queue: JobQueue, n_workers: int = 1) -> Iterator[None]:
    """Keep every worker busy during the block."""
    begun, go_on = threading.Barrier(n_workers + 1), threading.Event()

    def hold() -> None:
        begun.wait()
        go_on.wait()

    for _ in range(n_workers):
        queue.add(FunctionJob(lambda before_step: hold()))
    begun.wait()
    try:
        yield
    finally:
        go_on.set()


def test_queue_finished_job_needs_no_garbage_collector(translator: Translator) -> None:
    gc.disable()
    try:
        with started() as queue:
            job = TranslationJob(translator, LINES, range(4))
            seen = weakref.ref(job)
            queue.add(job).result()
            del job
        assert seen() is None  # it may hold a glossary of 40,000 words
    finally:
        gc.enable()


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The lines of each batch, in order."""
    seen: list[list[str]] = []
    translate = Translator.translate_lines

    def noted(self: Translator, lines: Sequence[InputLine], *arguments: Any, **named: Any) -> list[Translation]:
        seen.append([line.sentence for line in lines])
        return translate(self, lines, *arguments, **named)

    monkeypatch.setattr(Translator, "translate_lines", noted)
    return seen


def submit(queue: JobQueue, translator: Translator, lines: Sequence[str]) -> "Future[list[Translation]]":
    return queue.add(TranslationJob(translator, lines, range(len(lines))))


def texts(translations: Sequence[Translation]) -> list[str]:
    return [translation.text for translation in translations]


def test_queue_with_several_clients_waits_to_fill_a_batch(translator: Translator, batches: list[list[str]]) -> None:
    with started(2, batching_delay_s=1.0) as queue:
        with busy_workers(queue):  # the other worker is busy
            futures = [submit(queue, translator, [line]) for line in LINES]
            wait(futures)
        assert [sorted(batch) for batch in batches] == [sorted(LINES)]


def test_queue_with_one_client_does_not_wait(translator: Translator, batches: list[list[str]]) -> None:
    with started(batching_delay_s=60.0) as queue:
        for line in LINES:
            submit(queue, translator, [line]).result()
    assert batches == [[line] for line in LINES]


def test_queue_short_job_passes_a_long_one(translator: Translator, batches: list[list[str]]) -> None:
    long = [f"Satz {n}" for n in range(20)]
    with started(batch_lines=4, short_job_cost=100) as queue, busy_workers(queue):
        first = submit(queue, translator, long)
        other = submit(queue, translator, LINES[:1])
    assert (len(first.result()), len(other.result())) == (20, 1)
    assert batches[:2] == [LINES[:1], long[:4]]


def test_queue_short_job_passes_long_ones_that_came_before(translator: Translator, batches: list[list[str]]) -> None:
    long = [[f"Satz {job} {n}" for n in range(8)] for job in range(3)]
    # the delay begins with the end of the job of `busy_workers`, which is long
    with started(batch_lines=2, short_job_cost=40, long_job_delay_s=60.0) as queue, busy_workers(queue):
        jobs = [TranslationJob(translator, lines, range(8)) for lines in long]
        for job in jobs:
            job.arrived -= 1000.0
        futures = [queue.add(job) for job in jobs]
        futures.append(submit(queue, translator, LINES[:1]))
    wait(futures)
    assert batches[:5] == [LINES[:1], long[0][:2], long[0][2:4], long[0][4:6], long[0][6:8]]


def test_queue_long_job_gets_its_turn_before_short_ones(translator: Translator, batches: list[list[str]]) -> None:
    with started(batch_lines=1, short_job_cost=10, long_job_delay_s=0.0) as queue, busy_workers(queue):
        futures = [submit(queue, translator, lines) for lines in (["Der Hund.", "Das Kind."], ["Ja"], ["Ja"])]
    wait(futures)
    assert batches[:2] == [["Der Hund."], ["Das Kind."]]


def test_queue_slow_batches_delay_a_short_job_by_one_batch(
    translator: Translator, batches: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "monotonic", lambda: time.monotonic() + 1000.0 * len(batches))
    long = ["Der kleine Hund."] * 4
    limits = {"batch_lines": 1, "short_job_cost": 10, "long_job_delay_s": 500}
    with started(**limits, batching_delay_s=0.0) as queue, busy_workers(queue):
        futures = [submit(queue, translator, lines) for lines in (long, ["Ja"], ["Nein"], ["Hund 1"])]
    wait(futures)
    assert batches[:5] == [["Ja"], long[:1], ["Nein"], long[:1], ["Hund 1"]]


def test_queue_orders_long_jobs_by_wait_over_squared_cost(translator: Translator, batches: list[list[str]]) -> None:
    with started(batch_lines=1, short_job_cost=10, long_job_delay_s=500.0) as queue, busy_workers(queue):
        texts = ("Hund 1", "Ja", "Hund " * 10, "Hund " * 4, "Kind " * 4)
        jobs = [TranslationJob(translator, [text], [0]) for text in texts]
        for job, waited in zip(jobs, (0, 0, 99, 9, 19), strict=True):  # 100 s for 51² = 2,601, 10, 20 s for 21² = 441
            job.arrived -= waited
        futures = [queue.add(job) for job in jobs]
    wait(futures)
    assert batches == [["Hund 1"], ["Ja"], ["Kind " * 4], ["Hund " * 10], ["Hund " * 4]]


@pytest.mark.parametrize(("beam_size", "limits"), [(1, {"batch_cost": 40, "line_tokens": 6}), (2, {"batch_cost": 52})])
def test_batch_counts_encoded_tokens_and_takes_parts_of_a_line(
    translator: Translator, batches: list[list[str]], beam_size: int, limits: dict[str, int]
) -> None:
    translator = translator.with_options(beam_size=beam_size)
    line = ", ".join(["a b c d e"] * 5)
    with started(**limits) as queue, busy_workers(queue):
        future = queue.add(TranslationJob(translator, [line], [0], are_sentences=True))
        assert queue.n_waiting_lines == 2
    assert future.result()[0].text == " ".join(translator.translate(["a b c d e,"] * 4 + ["a b c d e"]))
    assert batches == [["a b c d e,"]] * 4 + [["a b c d e"]]  # 6 tokens × hypotheses cost 24 or 48
    assert queue.n_waiting_lines == 0


def test_batch_cost_is_limited(translator: Translator, batches: list[list[str]]) -> None:
    wide = translator.with_options(beam_size=4)
    with started(batch_cost=8) as queue, busy_workers(queue):
        futures = [submit(queue, each, ["Ja", "Nein"] * 2) for each in (translator, wide)]
    wait(futures)
    assert batches == [["Ja"], ["Nein"]] * 4  # 5 + 5; 17 and 17: one token counts as four characters


def test_queue_limits_count_running_jobs_by_hypotheses(translator: Translator) -> None:
    wide = translator.with_options(beam_size=4)
    with started(waiting_cost=40 + Limits.short_job_cost) as queue:  # which a call costs
        with busy_workers(queue):
            assert queue.n_waiting_lines == 1
            one, other = (submit(queue, each, ["Hund"]) for each in (translator, wide))  # 5 + 17
            assert queue.n_waiting_lines == 3
            with pytest.raises(ServerBusy):
                submit(queue, wide, ["Hund 1"])  # 25
            assert queue.n_waiting_lines == 3
        assert len(one.result()) == len(other.result()) == 1
        alone = submit(queue, translator.with_options(beam_size=10), ["Hund"])  # 41, but nothing waits
        assert len(alone.result()) == 1
    assert queue.n_waiting_lines == 0


def test_batch_has_only_jobs_with_the_same_settings(translator: Translator, batches: list[list[str]]) -> None:
    alike, wider, sampled = (translator.with_options(**named) for named in ({}, {"beam_size": 2}, {"sample": True}))
    with started() as queue, busy_workers(queue):
        asked = {"eins": translator, "drei": wider, "vier": sampled, "fünf": sampled, "sechs": alike}
        futures = [submit(queue, each, [line]) for line, each in asked.items()]
    wait(futures)
    assert sorted(batches) == [["drei"], ["eins", "sechs"], ["fünf"], ["vier"]]


def test_queue_too_long_line_fails_only_its_job(translator: Translator) -> None:
    with started() as queue, busy_workers(queue):
        wrong = submit(queue, translator, ["gut", "Hund " * 20])
        right = submit(queue, translator, LINES)
    with pytest.raises(DataError, match=r"line 2: 20 tokens, .*; split the sentence$"):
        wrong.result()
    assert texts(right.result()) == translator.translate(LINES)


@pytest.mark.parametrize("is_call", [False, True])
def test_queue_cancelled_search_stops_between_steps(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, is_call: bool
) -> None:
    n_steps = 0
    next_logits = Transformer.next_logits
    futures: list[Future[Any]] = []

    def counted(self: Transformer, *arguments: Any) -> Any:
        nonlocal n_steps
        n_steps += 1
        if n_steps == 2:
            futures[0].cancel()
        return next_logits(self, *arguments)

    monkeypatch.setattr(Transformer, "next_logits", counted)
    with started() as queue, busy_workers(queue):
        call = FunctionJob(lambda before_step: translator.with_callback(before_step).translate(LINES))
        futures.append(queue.add(call) if is_call else submit(queue, translator, LINES))
    assert n_steps == 2


def test_queue_error_while_encoding_fails_only_its_job(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    read = LineEncoder.encode

    def failing(self: LineEncoder, sentence: str) -> InputLine:
        if sentence == "kaputt":
            raise MemoryError
        return read(self, sentence)

    monkeypatch.setattr(LineEncoder, "encode", failing)
    with started() as queue:
        with pytest.raises(MemoryError):
            submit(queue, translator, ["kaputt", "Hund"]).result()
        assert texts(submit(queue, translator, LINES).result()) == translator.translate(LINES)
        assert queue.n_waiting_lines == 0


def test_queue_forgets_cancelled_and_failed_jobs(translator: Translator) -> None:
    with started(batch_lines=2, waiting_lines=5) as queue:
        with busy_workers(queue):
            for _ in range(3):
                gone = [submit(queue, translator, LINES[:2]) for _ in range(2)]
                assert all(each.cancel() for each in gone)
            failing = submit(queue, translator, ["Hund " * 20, *LINES[:3]])
        with pytest.raises(DataError, match="line 1"):
            failing.result()
        all_lines = submit(queue, translator, LINES)
        assert texts(all_lines.result()) == translator.translate(LINES)
