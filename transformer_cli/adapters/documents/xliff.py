"""Parses XLIFF 1.2, 2.0 and 2.1 (.xlf, .sdlxliff, .mqxliff): segments without a translation become blocks and targets.

Segments that people have translated, approved or locked stay. Each inline element of a segment appears once in the
target, in a valid order. The state of the target says that it is machine translation. A <segment> of XLIFF 2 has what a
<trans-unit> of XLIFF 1 has.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from transformer_cli.adapters.corpora.xliff_state import (
    MT_SEGMENT,
    XLIFF_1,
    XLIFF_2,
    XliffVersion,
    is_untouched_suggestion,
    is_untranslated_copy,
    xliff_version,
)
from transformer_cli.adapters.documents.blocks import Builder, Inline, InlineKind, Place, nested_pairs
from transformer_cli.adapters.documents.markup import message_builder
from transformer_cli.adapters.documents.parsed_file import NO_LETTER, LanguagePair, ParsedFile
from transformer_cli.adapters.documents.xmltext import (
    XmlEvent,
    decode_xml,
    escape_like,
    set_attributes,
    tag_name,
    xml_events,
)
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import DataError
from transformer_cli.text.lines import has_letter

_PREFIXES = {
    **{f"urn:oasis:names:tc:xliff:document:{version}": "" for version in ("1.1", "1.2", "2.0", "2.1", "2.2")},
    "http://sdl.com/FileTypes/SdlXliff/1.0": "sdl:",
    "MQXliff": "mq:",
    "http://www.memsource.com/mxlf/2.0": "m:",
    "urn:oasis:names:tc:xliff:sizerestriction:2.0": "slr:",
    "http://www.w3.org/XML/1998/namespace": "xml:",
}
_SPANNING = ("g", "pc", "mrk")  # inline elements around text
_STARTS, _ENDS = ("bpt", "bx", "sc", "sm"), ("ept", "ex", "ec", "em")

_TEXT_PART = re.compile(  # opens, closes: codes of Phrase, such as {b>bold<b}
    r"(?P<line>\r\n?|\n|&#(?:10|x0{0,5}[Aa]);)|(?P<tab>\t|&#(?:0{0,5}|x0{0,5})9;)"
    r"|\{(?P<opens>\w{1,9})(?:>|&gt;)|&lt;(?P<closes>\w{1,9})\}|&[^;&]{1,12};|[^&{\r\n\t]+|[&{]"
)
_LINE_BREAK = re.compile(r"(?:xlf:)?lb|LINE_BREAK(?:_\d{1,5})?|<br\b[^<>]*>")  # as a value of a code, or its text
_NAMESPACE = re.compile(r"\s(xmlns(?::[\w.-]{1,50})?)\s*=\s*[\"']([^\"'<]*)")

_Range = tuple[int, int]
"""The indices of the start and end event of an element"""


def parse_xliff(
    content: bytes, languages: LanguagePair, settings: TranslationSettings = TranslationSettings()
) -> ParsedFile:
    """Parse the segments of a file. Raises DataError for other versions."""
    text, encode = decode_xml(content)
    build, kept = message_builder(text, escape_like(text), languages, settings), Counter[str]()
    version, unit = XLIFF_1, list[XmlEvent]()
    of_unit = dict[str, str]()  # a unit's attributes, by the names that they have in XLIFF 1
    without_target = list[tuple[int, str]]()  # elements that name the source language only, and their indices
    translates, spaces, named = ["yes"], [""], list[LanguagePair]()  # of the open elements; languages
    for event in xml_events(text, _PREFIXES):
        if len(translates) == 1 and event.kind == "start":
            if event.name != "xliff":
                raise DataError("not XLIFF 1.2, 2.0 or 2.1; export it in one of these versions")
            version = xliff_version(event.attributes)
        if event.kind == "start":
            translate = event.attributes.get("translate", "")
            translates.append(translate if translate in ("yes", "no") else translates[-1])
            spaces.append(event.attributes.get("xml:space", spaces[-1]))
            if event.name == "unit":
                limit = event.attributes.get("slr:sizeRestriction", "").rpartition(",")[2]  # of "least,most"
                of_unit = {"id": event.attributes.get("id", ""), "maxwidth": limit, "size-unit": "char"}
            if event.name == version.unit:
                ids = {"segment": event.attributes.get("id", ""), **of_unit} if of_unit else {}
                inherited = {"xml:space": spaces[-1], "translate": translates[-1]}
                event = event._replace(attributes={**event.attributes, **ids, **inherited})
        if unit or (event.kind == "start" and event.name == version.unit):
            unit.append(event)
            if event.kind == "end" and event.name == version.unit:
                _add_unit(build, unit, kept, version, renew=settings.renew)
                unit = []
        else:
            if event.kind == "start" and event.name == version.with_languages:
                codes = [event.attributes.get(name, "") for name in (version.source_language, version.target_language)]
                named.append((codes[0], codes[1]))
                if not codes[1]:
                    without_target.append((len(build.document.parts), event.raw))
            build.end_block(event.raw)
        if event.kind == "end":
            translates.pop()
            spaces.pop()
    build.end_block()
    if version is XLIFF_1 or build.document.blocks or kept[NO_LETTER]:  # XLIFF 2 allows it only if there are targets
        for index, raw in without_target:
            build.document.parts[index] = set_attributes(raw, {version.target_language: languages[1]})
    return ParsedFile([build.document], encode, kept, named)


def _add_unit(
    build: Builder, unit: Sequence[XmlEvent], kept: Counter[str], version: XliffVersion, *, renew: bool
) -> None:
    """Add a unit, with targets for the segments that need a translation."""
    children = {unit[start].name: (start, end) for start, end, depth in [*_elements(unit)][::-1] if depth == 1}
    source, seg_source, target = (children.get(name) for name in ("source", "seg-source", "target"))
    attributes = unit[0].attributes
    reason = (
        "not to be translated" if attributes.get("translate") == "no"
        else "approved" if attributes.get("approved") == "yes"
        else "locked" if {attributes.get("mq:locked"), attributes.get("m:locked")} & {"locked", "yes", "true"}
        else ""
    )  # fmt: skip
    if reason or not source:
        kept[reason] += bool(source)
        build.end_block(*(each.raw for each in unit))
        return
    original = unit
    if not target:
        after = max(source[1], seg_source[1] if seg_source else 0) + 1
        unit, target = [*unit[:after], *_empty_target(unit, source[0]), *unit[after:]], (after + 1, after + 2)
    segs = [each for each in unit if each.kind == "start" and each.name == "sdl:seg"]
    states = {each.attributes.get("id", ""): each.attributes for each in segs}
    attributes = {**attributes, **unit[target[0]].attributes}
    sources, unsegmented = _seg_spans(unit, seg_source) if seg_source else {}, ""
    needs_translation = partial(_needs_translation, renew=renew)
    if seg_source and sources and not _seg_spans(unit, target) and needs_translation(unit, source, target, attributes):
        inside = {index for start, end in sources.values() for index in range(start + 1, end)}
        empty = [unit[index] for index in range(seg_source[0] + 1, seg_source[1]) if index not in inside]
        unsegmented = _other_text(unit, target, source)
        unit = [*unit[: target[0] + 1], *empty, *unit[target[1] :]]
        target = target[0], target[0] + len(empty) + 1
    targets = _seg_spans(unit, target) if sources else {}
    if not targets:
        sources, targets = {"": source}, {"": target}
    locked = {name for name in targets if states.get(name, {}).get("locked") == "true"}
    to_translate = {
        name: span for name, span in targets.items()
        if name in sources and name not in locked
        and needs_translation(unit, sources[name], span, {**attributes, **states.get(name, {})})
    }  # fmt: skip
    kept["locked"] += len(locked)
    kept["already translated"] += len(targets.keys() - to_translate.keys() - locked)
    if not to_translate:
        build.end_block(*(each.raw for each in original))
        return
    limit = attributes.get("maxwidth", "") if attributes.get("size-unit") == "char" else ""
    place = Place(f"unit {attributes.get('id', '')}", max_chars=int(limit[:9]) if limit.isdecimal() else None)
    raws, is_whole = [each.raw for each in unit], to_translate.keys() | locked == targets.keys()
    for start, end in (*to_translate.values(), *[target] * is_whole):
        raws[start] = raws[start].removesuffix("/>") + ">" * raws[start].endswith("/>")
        raws[end] = raws[end] or f"</{tag_name(unit[start].raw)}>"
    for tag in (unit[span[0]].raw for span in (source, seg_source) if span):  # what the inline elements may need
        raws[target[0]] = set_attributes(raws[target[0]], {each[1]: each[2] for each in _NAMESPACE.finditer(tag)})
    if is_whole:
        marked = 0 if version is XLIFF_2 else target[0]
        raws[marked] = set_attributes(raws[marked], version.mt_state)
    for index, each in enumerate(unit):
        if each.kind == "start" and each.name == "sdl:seg" and each.attributes.get("id") in to_translate:
            raws[index] = set_attributes(each.raw, MT_SEGMENT)
    last = 0
    for name, (start, end) in to_translate.items():
        build.end_block(*raws[last : start + 1])
        segment = name or attributes.get("segment")
        replaced, unsegmented = _other_text(unit, (start, end), sources[name]) or unsegmented, ""
        build.place = replace(place, part=f", segment {segment}" if segment else "", replaced=replaced)
        kept[NO_LETTER] += not _add_segment(build, unit, sources[name])
        last = end
    build.end_block(*raws[last:])


def _empty_target(unit: Sequence[XmlEvent], source: int) -> list[XmlEvent]:
    """Returns the white space before the source, and the tags of a target. source: the index of its start tag."""
    space = unit[source - 1].raw if unit[source - 1].kind == "text" else ""
    tag, attributes = tag_name(unit[source].raw).removesuffix("source") + "target", unit[source].attributes
    keeps = f' xml:space="{attributes["xml:space"]}"' if "xml:space" in attributes else ""
    start, end = XmlEvent("start", "target", f"<{tag}{keeps}>"), XmlEvent("end", "target", f"</{tag}>")
    return [XmlEvent("text", "", space), start, end]


def _add_segment(build: Builder, unit: Sequence[XmlEvent], span: _Range) -> bool:
    """Add the content of an element as text and inline elements. Returns whether it has a letter."""
    inlines, conversions = list[Inline](), build.document.conversions
    conversions.start_message()
    depth = 0  # in an element that is copied
    protected = ""  # the pair of an open <sm translate="no"/>
    keeps_lines = "preserve" in [each.attributes.get("xml:space") for each in (unit[0], unit[span[0]])]
    for each in unit[span[0] + 1 : span[1]]:
        kind, name, attributes = each.kind, each.name, each.attributes
        is_copied = attributes.get("mtype") in ("protected", "x-sdl-deleted") or attributes.get("translate") == "no"
        is_spanning = name in _SPANNING and not (name == "mrk" and is_copied)
        if depth or (kind == "start" and not is_spanning):
            if not depth:
                pair = f"code {attributes.get('startRef') or attributes.get('rid') or attributes.get('id')}"
                inlines.append(Inline("", "", pair * (name in _STARTS), pair * (name in _ENDS)))
                protected = pair if name == "sm" and is_copied else "" if pair == protected else protected
            code = inlines[-1]
            code.raw += each.raw
            if not code.opens + code.closes and any(map(_LINE_BREAK.fullmatch, (each.text, *attributes.values()))):
                code.kind = "line_end"
            depth += {"start": 1, "end": -1}.get(kind, 0)
        elif kind == "text" and protected:
            inlines.append(Inline(each.raw))
        elif kind == "text":
            # the tags and text of a CDATA section are written with entities instead
            raw = html.escape(each.text, quote=False) if "<![" in each.raw else each.raw
            inlines += _split_text(conversions.replace(raw), keeps_lines=keeps_lines)
        else:
            inlines.append(Inline(each.raw, "", name * (kind == "start"), name * (kind == "end")))
    both = {each.opens for each in inlines} & {each.closes for each in inlines} - {""}  # others are in another segment
    inlines = [
        replace(each, text="") if (each.opens or each.closes) in both else replace(each, opens="", closes="")
        for each in inlines
    ]
    inlines = build.parse_text(inlines)
    pairs = nested_pairs(inlines, _SPANNING)
    elements = (number for number, each in enumerate(inlines) if (each.opens or each.closes)[:1] not in ("", "<"))
    has_order = any(each.attributes.get("canReorder") == "no" for each in unit[span[0] + 1 : span[1]])
    if has_order or not pairs.issuperset(elements):  # or they overlap; so all of them keep their order
        inlines = [each if each.text or each.kind else replace(each, kind="proportional") for each in inlines]
    return build.add_inlines(inlines, _SPANNING)


def _split_text(raw: str, *, keeps_lines: bool) -> Iterator[Inline]:
    """Yield text without entities and, if it preserves white space, its line ends and tabs, which separate blocks."""
    for part in _TEXT_PART.finditer(raw):
        text = html.unescape(part[0]).replace("\r\n", "\n")
        opens, closes = (f"{{{part[name]}" if part[name] else "" for name in ("opens", "closes"))
        kind: InlineKind = "line_end" if part["line"] else "block_end" if part["tab"] else ""
        is_kept = keeps_lines and kind
        yield Inline(part[0], kind=kind) if is_kept else Inline(part[0], text, opens, closes)


def _elements(unit: Sequence[XmlEvent]) -> Iterator[tuple[int, int, int]]:
    """Yield the indices of the start and end of each element, in the order of the ends, and its depth."""
    open_: list[int] = []
    for index, each in enumerate(unit):
        if each.kind == "start":
            open_.append(index)
        elif each.kind == "end":
            yield open_.pop(), index, len(open_)


def _other_text(unit: Sequence[XmlEvent], target: _Range, source: _Range) -> str:
    """Returns the text of a target, or "" if it is blank or equals that of its source."""
    text, copy = ("".join(each.text for each in unit[start + 1 : end]) for start, end in (target, source))
    return text if text.strip() and text != copy else ""


def _seg_spans(unit: Sequence[XmlEvent], span: _Range) -> dict[str, _Range]:
    """Returns the spans of the segments in an element by their `mid`."""
    inside = [(start, end) for start, end, _ in _elements(unit) if span[0] < start < span[1]]
    found = [each for each in inside if unit[each[0]].attributes.get("mtype") == "seg"]
    return {unit[start].attributes.get("mid", ""): (start, end) for start, end in found if unit[start].name == "mrk"}


def _needs_translation(
    unit: Sequence[XmlEvent], source: _Range, target: _Range, attributes: Mapping[str, str], *, renew: bool
) -> bool:
    """Whether a target is empty, an unconfirmed copy of its source, or, with `renew`, an untouched machine translation.

    attributes: see `is_confirmed`.
    """
    one, other = (unit[start + 1 : end] for start, end in (source, target))
    has_content = any(each.text.strip() or (each.kind == "start" and each.name != "mrk") for each in other)
    is_equal = [each.raw for each in one] == [each.raw for each in other]
    is_renewed = renew and has_letter("".join(each.text for each in one)) and is_untouched_suggestion(attributes)
    return not has_content or is_renewed or (is_equal and is_untranslated_copy(attributes))
