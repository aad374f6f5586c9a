"""Documents: translated batch by batch in the server's queue, and kept for their download. Knows no HTTP."""

import secrets
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from transformer_cli.adapters.documents.files import describe_counts
from transformer_cli.adapters.documents.parsers import PARSERS
from transformer_cli.adapters.documents.translate import translate_file
from transformer_cli.adapters.documents.uploads import MAX_CHARS, check_upload, translated_name
from transformer_cli.adapters.serve.job_queue import TOKEN_COST, FunctionJob, JobQueue, ServerBusy
from transformer_cli.adapters.serve.languages import AUTO, MAX_DETECT_CHARS, Directions
from transformer_cli.adapters.serve.request_bodies import FileBody, Limits, refuse_over_limit
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.search.batches import batches_longest_first
from transformer_cli.search.protocols import BeforeStep, Engine, SearchRequest, SearchResult
from transformer_cli.text.vocabulary import N_SOS_EOS

KEPT_S = 600.0  # how long a translated document can be downloaded
MAX_KEPT_BYTES = 100 << 20  # of all of them


class KeptFiles(dict[str, tuple[float, bytes]]):
    """Files by names that nobody can guess: until when each is kept, and its content."""

    def refuse_if_full(self) -> None:
        """Drop what is too old. Raises ServerBusy."""
        for name in [name for name, (until, _) in self.items() if until < monotonic()]:
            del self[name]
        if sum(len(content) for _, content in self.values()) > MAX_KEPT_BYTES:
            raise ServerBusy("too many translated documents wait for their download; try again in ten minutes")

    def keep(self, name: str, content: bytes) -> str:
        """Keep a file. Returns its name: letters that nobody can guess, a dot, and the name given."""
        found = f"{secrets.token_urlsafe(24)}.{name}"
        self[found] = monotonic() + KEPT_S, content
        return found

    def content(self, name: str) -> bytes | None:
        until, content = self.get(name, (0.0, None))
        return content if until > monotonic() else None


@dataclass(frozen=True)
class _QueuedEngine:
    """An engine whose batches are jobs of the server's queue, so that they take turns with other requests."""

    engine: Engine
    queue: JobQueue
    cost: int
    batch_cost: int
    is_wanted: BeforeStep

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def translate(
        self, sentences: Sequence[SearchRequest], settings: TranslationSettings, *, before_step: BeforeStep
    ) -> Iterator[SearchResult]:
        tokens = self.batch_cost // TOKEN_COST // settings.rows_per_sentence
        for rows in batches_longest_first([each.ids for each in sentences], tokens):
            self.is_wanted()

            def search(before_step: BeforeStep, part: Sequence[int] = rows) -> list[SearchResult]:
                asked = [sentences[row] for row in part]
                return list(self.engine.translate(asked, settings, before_step=before_step))

            for places, found in self.queue.add(FunctionJob(search, cost=self.cost)).result():
                yield [rows[place] for place in places], found


def translate_document(
    body: FileBody, directions: Directions, queue: JobQueue, limits: Limits, is_wanted: BeforeStep
) -> tuple[str, bytes, dict[str, Any]]:
    """Returns the name and the content of the translated document, and what to tell about it. Raises DataError.

    is_wanted: raises an error when the client is gone.
    """
    name, content = body.file
    refuse_over_limit(len(content), limits.file_bytes, "bytes")
    file_format, detected = check_upload(name, content), ""
    if body.source == AUTO:
        blocks = PARSERS[file_format](content, ("", ""), TranslationSettings()).blocks
        detected = " ".join(block.text for block in blocks[:MAX_DETECT_CHARS])
    chosen, _, _ = directions.choose(body.source, body.target, detected)
    translator = copy(chosen.with_terms(body.glossary))
    cost = min(len(content), limits.characters)
    rows, positions = translator.settings.rows_per_sentence, translator.max_length or limits.line_tokens
    most = min(positions, limits.line_tokens + N_SOS_EOS, limits.batch_cost // TOKEN_COST // rows)
    translator.pipeline = replace(translator.pipeline, max_length=most)  # a longer sentence is cut
    translator.engine = _QueuedEngine(translator.engine, queue, cost, limits.batch_cost, is_wanted)  # type: ignore[assignment]
    found = translate_file(translator, content, file_format, max_chars=MAX_CHARS)
    to_check = [
        {"place": place.unit + place.part, "source": source, "translation": target, "check": what}
        for place, source, target, what in found.texts
        if what
    ]
    about = {"summary": describe_counts(found.counts, found.checks), "warnings": found.warnings, "to_check": to_check}
    return translated_name(name, translator.run.config.data.output_language), found.content, about
