"""A request to translate: its texts split into lines and sentences, and the answer from translations. Knows no HTTP."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from typing import Any

from transformer_cli.adapters.documents.blocks import Block, Document
from transformer_cli.adapters.documents.markup import parse_html
from transformer_cli.adapters.documents.translate import join_with_links
from transformer_cli.adapters.serve.job_queue import SPLIT_REMEDY, JobQueue, TranslationJob
from transformer_cli.adapters.serve.languages import AUTO, Directions
from transformer_cli.adapters.serve.request_bodies import Limits, TranslateBody, refuse_over_limit
from transformer_cli.adapters.terminology.annotations import annotations
from transformer_cli.errors import DataError
from transformer_cli.pipeline import Translation
from transformer_cli.search.protocols import BeforeStep, never_stop
from transformer_cli.text.alignment import Span, shift_span
from transformer_cli.text.line_encoder import FindSpans, bounded_sentence_spans
from transformer_cli.text.lines import TOO_LONG, is_too_long
from transformer_cli.text.sentences import join_translations
from transformer_cli.translate import PART_KEY_STEP, Translator

_TranslatedLine = tuple[str, Sequence[Span], Sequence[Translation]]
"""a line, the spans of its sentences, and their translations"""


@dataclass(frozen=True)
class ParsedRequest:
    """A request to translate. A text has lines, or blocks if it is HTML; a line or block has sentences."""

    body: TranslateBody
    documents: Sequence[Document]
    """the parsed texts, if they are HTML; otherwise empty"""
    lines_of: Sequence[Sequence[str]]
    """the lines of each text"""
    spans_of: Sequence[Sequence[Span]]
    """the spans of the sentences in each line, for all texts together"""
    translator: Translator
    source: str
    """the code of the texts' language"""
    confidence: float
    """the probability of that language, in percent"""

    @property
    def sentences(self) -> list[str]:
        """The sentences of all texts."""
        lines = chain.from_iterable(self.lines_of)
        return [line[start:end] for line, spans in zip(lines, self.spans_of, strict=True) for start, end in spans]

    def answer(self, translations: Sequence[Translation]) -> dict[str, Any]:
        """Returns the answer in LibreTranslate's format. translations: one for each sentence."""
        spans_of, found = iter(self.spans_of), iter(translations)
        texts = [
            [(line, spans, [next(found) for _ in spans]) for line, spans in zip(lines, spans_of, strict=False)]
            for lines in self.lines_of
        ]
        answer: dict[str, list[Any]] = {"translatedText": [self._render(n, text) for n, text in enumerate(texts)]}
        if (most := self.body.alternatives) is not None:
            n_found = [max((len(one.alternatives) for *_, found in text for one in found), default=0) for text in texts]
            answer["alternatives"] = [
                [self._render(n, text, k + 1) for k in range(min(most, n_found[n]))] for n, text in enumerate(texts)
            ]
        if self.body.source == AUTO:
            answer["detectedLanguage"] = [{"confidence": self.confidence, "language": self.source}] * len(texts)
        if self.body.sentences:
            answer["sentences"] = [
                [
                    {"line": n, "start": start, "end": end, "source": one.source, "translation": one.text}
                    | annotations(one)
                    for n, (_, spans, found) in enumerate(text)
                    for (start, end), one in zip(spans, found, strict=True)
                ]
                for text in texts
            ]
        return answer if isinstance(self.body.q, list) else {key: values[0] for key, values in answer.items()}

    def _render(self, number: int, lines: Sequence[_TranslatedLine], k: int = 0) -> str:
        """Returns a text's best translation (k = 0) or k-th alternative; a sentence with fewer keeps its best one."""
        chosen = [
            (line, spans, [([one, *one.alternatives][k:] or [one])[0] for one in found]) for line, spans, found in lines
        ]
        if self.documents:
            return self.documents[number].render([join_with_links(*each) for each in chosen])
        return "\n".join(join_translations(line, spans, [one.text for one in found]) for line, spans, found in chosen)


def parse(
    body: TranslateBody, directions: Directions, limits: Limits, before_step: BeforeStep = never_stop
) -> ParsedRequest:
    """Returns the parsed request. Raises DataError, in LibreTranslate's words and order where possible.

    before_step: called often; stops by raising an error. Parsing also stops where a limit is exceeded.
    """

    def parse_all(languages: tuple[str, str] = ("", "")) -> list[Document]:
        found, n_before = list[Document](), 0

        def check(n_blocks: int) -> None:
            before_step()
            refuse_over_limit(n_before + n_blocks, limits.lines, "lines")

        for text in texts:
            found.append(parse_html(text, languages, check))
            n_before += len(found[-1].blocks)
        return found

    texts, most = body.texts, body.alternatives or 0
    if not 0 <= most <= limits.alternatives:
        bound = ">= 0" if most < 0 else f"<= {limits.alternatives}"
        raise DataError(f"Invalid request: alternatives parameter must be {bound}")
    refuse_over_limit(body.n_characters, limits.characters, "characters")
    is_html = body.format == "html"
    if is_html and body.source == AUTO:  # parsing with languages changes lang attributes, so detect first
        detected_in = [block.text for document in parse_all() for block in document.blocks]
    else:
        detected_in = texts
    translator, source, confidence = directions.choose(body.source, body.target, " ".join(detected_in))
    languages = (source, translator.run.config.data.output_language)
    documents = parse_all(languages) if is_html else []
    lines_of = [[block.text for block in each.blocks] for each in documents] or [text.split("\n") for text in texts]
    lines = list(chain.from_iterable(lines_of))
    refuse_over_limit(len(lines), limits.lines, "lines")
    if body.format not in (None, "", "text", "html"):
        raise DataError(f"{body.format[:50]} format is not supported")
    numbered = translator.pipeline.hook.with_list_numbers(lines)
    starts = [line.index(number) + len(number) for line, number in numbered]
    spans_of, n_sentences = list[list[Span]](), 0
    if body.split:
        protected = translator.pipeline.protected_spans
        blocks = [block for each in documents for block in each.blocks]
        for spans in _sentence_spans(lines, starts, source, protected, blocks):
            before_step()
            spans_of.append(spans)
            n_sentences += len(spans)
            refuse_over_limit(n_sentences, limits.sentences, "sentences")
    else:
        spans_of = [[(start, len(line.removesuffix("\r")))] for line, start in zip(lines, starts, strict=True)]
    return ParsedRequest(body, documents, lines_of, spans_of, translator.with_terms(body.glossary), source, confidence)


def submit(parsed: ParsedRequest, queue: JobQueue) -> "Future[list[Translation]]":
    """Queue the sentences of a request, of which there is at least one. Raises ServerBusy."""
    body, translator = parsed.body, parsed.translator
    n_best, settings = 1 + (body.alternatives or 0), translator.settings
    beam_size = settings.beam_size if settings.sample else max(settings.beam_size, n_best)
    if parsed.documents or n_best != settings.n_best:
        options = {"return_attention": bool(parsed.documents), "n_best": n_best, "beam_size": beam_size}
        translator = translator.with_options(**options)
    keys = [row + n * PART_KEY_STEP for row, spans in enumerate(parsed.spans_of) for n in range(len(spans))]
    return queue.add(TranslationJob(translator, parsed.sentences, keys, body.split, body.n_glossary_characters))


def _sentence_spans(
    lines: Sequence[str], starts: Sequence[int], language: str, protected: FindSpans, blocks: Sequence[Block]
) -> Iterator[list[Span]]:
    """Yield the spans of the sentences in each line. Raises DataError if a line, or a block's word, is too long.

    starts: where the text of each line begins, after the number of a list. blocks: of the lines; empty for plain text.
    """
    for number, (line, start) in enumerate(zip(lines, starts, strict=True), start=1):
        is_refused = is_too_long(line) and not blocks
        borders = [border - start for border in (blocks[number - 1].borders if blocks else ()) if border > start]
        found = [] if is_refused else bounded_sentence_spans(line[start:], language, protected, borders)
        spans = [shift_span(each, start) for each in found]
        if is_refused or any(is_too_long(line[start:end]) for start, end in spans):
            raise DataError(f"line {number}: {TOO_LONG}; {'insert a line break' if is_refused else SPLIT_REMEDY}")
        yield spans
