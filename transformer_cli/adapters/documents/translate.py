"""Translates documents block by block."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from transformer_cli.adapters.documents.blocks import Block, Place
from transformer_cli.adapters.documents.files import FORMATS, TRANSLATED
from transformer_cli.adapters.documents.markup import parse_html
from transformer_cli.adapters.documents.parsed_file import MOSTLY_OTHER, OTHER_LANGUAGE
from transformer_cli.adapters.documents.parsers import PARSERS
from transformer_cli.adapters.documents.subtitles import is_speaker_name
from transformer_cli.adapters.terminology import annotations
from transformer_cli.adapters.terminology.conversions import Conversions, has_other_directives
from transformer_cli.errors import ArgumentError, DataError
from transformer_cli.pipeline import Translation, part_starts
from transformer_cli.text.alignment import Link, Span, shift_span, word_links
from transformer_cli.text.languages import is_other_language
from transformer_cli.text.line_encoder import bounded_sentence_spans
from transformer_cli.text.lines import is_too_long
from transformer_cli.text.sentences import join_translations
from transformer_cli.translate import Translator

log = logging.getLogger(__name__)


class TranslatedText(NamedTuple):
    """A text of a document and its translation: a row of a report."""

    place: Place
    source: str
    target: str
    to_check: list[str]
    """such as "a number is missing" """


class TranslatedFile(NamedTuple):
    """A translated document."""

    content: bytes
    counts: Counter[str]
    """of texts: TRANSLATED, and those that are kept, by reason"""
    texts: list[TranslatedText]
    warnings: Sequence[str]

    @property
    def checks(self) -> Counter[str]:
        """Remark on what to check → the number of texts that have it."""
        return Counter(what for text in self.texts for what in text.to_check)


def translate_html(translator: Translator, html: str) -> str:
    """Returns a page, or a fragment of one, with its text translated; see `api.Translator.translate_html`."""
    data = translator.run.config.data
    document = parse_html(html, (data.input_language, data.output_language))
    found, parts = _translate_blocks(translator, document.blocks)
    if document.is_mostly_other:
        log.warning(MOSTLY_OTHER.format(data.input_language))
    if n_too_long := sum(any(each.was_too_long for each in of_block) for of_block in parts):
        log.warning("%d of %d blocks of text were too long", n_too_long, len(parts))
    return document.render(found)


def translate_file(
    translator: Translator, content: bytes, file_format: str, *, max_chars: int | None = None
) -> TranslatedFile:
    """Returns a file with its text translated; see `api.Translator.translate_file`. max_chars: of text (None: any)."""
    if file_format not in FORMATS:
        raise ArgumentError(f"Translator.translate_file: file_format: {file_format!r} is none of {', '.join(FORMATS)}")
    data = translator.run.config.data
    languages = data.input_language, data.output_language
    parsed = PARSERS[file_format](content, languages, translator.settings)
    if max_chars is not None and (n := sum(len(each.text) for each in parsed.blocks)) > max_chars:
        raise DataError(f"{n:,} characters of text, where at most {max_chars:,} are taken; send the document in parts")
    warnings = list[str]()
    for named in parsed.languages:
        if any(map(is_other_language, named, languages)):
            source, target = (name[:40] or own for name, own in zip(named, languages, strict=True))
            warnings = [f"is marked as {source} → {target}, but the run translates {' → '.join(languages)}"]
    may_be_wrong = file_format in ("html", "epub")  # as many are
    if warnings and not (may_be_wrong or translator.settings.any_language):
        raise DataError(f"{warnings[0]}; use another run, or insist with any_language (--any-language)")
    warnings += parsed.warnings
    warnings += [MOSTLY_OTHER.format(languages[0])] * any(each.is_mostly_other for each in parsed.documents)
    found, parts = _translate_blocks(translator, parsed.blocks)
    lengths = Counter[str]()  # of units, in characters
    conversions = [document.conversions for document in parsed.documents for _ in document.blocks]
    targets = [each.restore(text) for each, (text, _) in zip(conversions, found, strict=True)]
    for block, target in zip(parsed.blocks, targets, strict=True):
        lengths[block.place.unit] += len(target)
    checks = map(partial(to_check_in_block, lengths=lengths), parsed.blocks, found, targets, parts, conversions)
    texts = [
        TranslatedText(block.place, each.restore(block.text), target, what)
        for block, each, target, what in zip(parsed.blocks, conversions, targets, checks, strict=True)
    ]
    n_other = sum(each.n_other_language for each in parsed.documents)
    counts = Counter({TRANSLATED: len(texts), OTHER_LANGUAGE: n_other}) + parsed.kept
    return TranslatedFile(parsed.render(found), counts, texts, warnings)


def to_check_in_block(
    block: Block,
    found: tuple[str, Sequence[Link]],
    target: str,
    parts: Sequence[Translation],
    conversions: Conversions,
    lengths: Mapping[str, int],
) -> list[str]:
    """Returns what a person ought to check in the translation of a block, in order; see `annotations.to_check`.

    found: the translation, with stand-ins, and its links. target: without stand-ins. parts: the translations of its
    parts. conversions: those of its document. lengths: of each unit's translation, in characters.
    """
    has_unplaced_element, has_empty_line = block.find_gaps(*found)
    checks = {
        **dict.fromkeys((what for part in parts for what in annotations.to_check(part)), True),
        "a template chooses parts of the sentence": block.has_branch,
        "the place of a tag is missing": has_unplaced_element,
        "a line or cue is empty": has_empty_line,
        "the order of placeholders may be wrong": conversions.loses_order(found[0]),
        "placeholders differ": has_other_directives(conversions.restore(block.text), target, block.place.flags),
        "a machine translation was replaced": block.place.replaced not in ("", target),
        "more characters than maxwidth": 0 < (block.place.max_chars or 0) < lengths[block.place.unit],
    }
    return [what for what, is_found in checks.items() if is_found]


def _translate_blocks(
    translator: Translator, blocks: Sequence[Block]
) -> tuple[list[tuple[str, Sequence[Link]]], list[list[Translation]]]:
    """Returns the translation of each block for `Document.render`, and the translations of its parts."""
    texts, language = [block.text for block in blocks], translator.run.config.data.input_language
    protected = translator.pipeline.protected_spans
    spans = [
        bounded_sentence_spans(text, language, protected, borders) if borders or is_too_long(text) else [(0, len(text))]
        for text, borders in zip(texts, (block.borders for block in blocks), strict=True)
    ]
    lines = [text[start:end] for text, cuts in zip(texts, spans, strict=True) for start, end in cuts]
    by_sentences = translator.with_options(split_sentences=True, return_scores=False)
    places = [each.place.unit + each.place.part for each, cuts in zip(blocks, spans, strict=True) for _ in cuts]
    found = by_sentences.translate_detailed(lines, places=places)
    if translator.settings.on_too_long == "copy":  # the whole line, including the part that was not read
        copied = zip(found, lines, strict=True)
        found = [replace(each, source=line, text=line) if is_too_long(line) else each for each, line in copied]
    found = [
        replace(each, text=each.source, unusual_length="", sentences=None)  # the model writes a sentence for it
        if is_speaker_name(each.source) and not is_speaker_name(each.text)
        else each
        for each in found
    ]
    remaining = iter(found)
    parts = [[next(remaining) for _ in cuts] for cuts in spans]
    return list(map(join_with_links, texts, spans, parts)), parts


def join_with_links(text: str, spans: Sequence[Span], translations: Sequence[Translation]) -> tuple[str, list[Link]]:
    """Returns the joined translations, and their links to the text. spans: the part of the text of each translation."""
    translated = join_translations(text, spans, [each.text for each in translations])
    units = [
        (origin + each.start, each)
        for (origin, _), translation in zip(spans, translations, strict=True)
        for each in ([translation] if translation.sentences is None else translation.sentences)
    ]
    number = 0, len(text[: spans[0][0]].rstrip()) if spans else 0  # of a list, before the first part
    links: list[Link] = [(number, number)] if number[1] else []
    for (start, each), first in zip(units, part_starts(translated, [each for _, each in units]), strict=True):
        fixed = [*each.placeholders, *((one, other) for one, other in each.terms if other)]
        found = word_links(each.source, each.source_tokens, each.text, each.tokens, each.alignment, fixed)
        links += ((shift_span(one, start), shift_span(other, first)) for one, other in found)
    return translated, links
