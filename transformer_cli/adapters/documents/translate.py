"""Translates documents block by block."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from transformer_cli.adapters.corpora.po import FUZZY_FLAG
from transformer_cli.adapters.documents.blocks import Block
from transformer_cli.adapters.documents.files import FORMATS, MISSING_NUMBER, MISSING_TAG, MISSING_TERM, TRANSLATED
from transformer_cli.adapters.documents.markup import parse_html
from transformer_cli.adapters.documents.po import parse_po
from transformer_cli.adapters.terminology.annotations import missing_numbers
from transformer_cli.errors import ArgumentError
from transformer_cli.pipeline import Translation, part_starts
from transformer_cli.text.alignment import Link, Span, shift_span, word_links
from transformer_cli.text.line_encoder import bounded_sentence_spans
from transformer_cli.text.lines import is_too_long
from transformer_cli.text.sentences import join_translations
from transformer_cli.translate import Translator

log = logging.getLogger(__name__)


def translate_html(translator: Translator, html: str) -> str:
    """Returns a page, or a fragment of one, with its text translated; see `api.Translator.translate_html`."""
    data = translator.run.config.data
    document = parse_html(html, (data.source, data.output_language))
    found, _ = _translate_blocks(translator, document.blocks)
    return document.render(found)


def translate_file(translator: Translator, content: bytes, file_format: str) -> tuple[bytes, Counter[str]]:
    """Returns a file with its text translated, and counts; see `api.Translator.translate_file`."""
    if file_format not in FORMATS:
        raise ArgumentError(f"Translator.translate_file: file_format: {file_format!r} is none of {', '.join(FORMATS)}")
    data = translator.run.config.data
    parse = FORMATS[file_format].parse
    if file_format == "po" and translator.settings.fuzzy:
        parse = partial(parse_po, mark=FUZZY_FLAG)
    parsed = parse(content, (data.source, data.output_language))
    found, counts = _translate_blocks(translator, parsed.blocks)
    translated = zip(parsed.blocks, found, strict=True)
    counts[MISSING_TAG] = sum(block.has_unplaced_element(*each) for block, each in translated)
    return parsed.render(found), counts + parsed.kept


def _translate_blocks(
    translator: Translator, blocks: Sequence[Block]
) -> tuple[list[tuple[str, Sequence[Link]]], Counter[str]]:
    """Returns the translation of each block for `Document.render`, and the counts of `translate_file`."""
    texts, language = [block.text for block in blocks], translator.run.config.data.source
    protected = translator.pipeline.protected_spans
    spans = [
        bounded_sentence_spans(text, language, protected) if is_too_long(text) else [(0, len(text))] for text in texts
    ]
    lines = [text[start:end] for text, cuts in zip(texts, spans, strict=True) for start, end in cuts]
    by_sentences = translator.with_options(split_sentences=True, return_scores=False)
    found = by_sentences.translate_detailed(lines, name="blocks of text, one per line")
    if translator.settings.on_too_long == "copy":  # the whole line, including the part that was not read
        copied = zip(found, lines, strict=True)
        found = [replace(each, source=line, text=line) if is_too_long(line) else each for each, line in copied]
    remaining = iter(found)
    parts = [[next(remaining) for _ in cuts] for cuts in spans]
    if n_too_long := sum(any(each.was_too_long for each in of_block) for of_block in parts):
        log.warning("%d of %d blocks of text were too long", n_too_long, len(texts))
    counts = Counter({TRANSLATED: len(texts)})
    counts[MISSING_NUMBER] = sum(bool(missing_numbers(each.source, each.text)) for each in found)
    counts[MISSING_TERM] = sum(not span for each in found for _, span in each.terms)
    return list(map(join_with_links, texts, spans, parts)), counts


def join_with_links(text: str, spans: Sequence[Span], translations: Sequence[Translation]) -> tuple[str, list[Link]]:
    """Returns the translation of a text, and its links to the text, in the order of the translation.

    spans: the part of the text of each translation.
    """
    translated = join_translations(text, spans, [each.text for each in translations])
    units = [
        (origin + each.start, each)
        for (origin, _), translation in zip(spans, translations, strict=True)
        for each in ([translation] if translation.sentences is None else translation.sentences)
    ]
    links: list[Link] = []
    for (start, each), first in zip(units, part_starts(translated, [each for _, each in units]), strict=True):
        fixed = [*each.placeholders, *((one, other) for one, other in each.terms if other)]
        found = word_links(each.source, each.source_tokens, each.text, each.tokens, each.alignment, fixed)
        links += ((shift_span(one, start), shift_span(other, first)) for one, other in found)
    return translated, links
