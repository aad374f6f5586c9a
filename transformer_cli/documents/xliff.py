"""XLIFF 1.2 (.xlf, .sdlxliff, .mqxliff): the segments without a translation are blocks, which become their targets.

What people have translated, approved or locked stays. The inline elements of a segment come back once each, in an order
that is allowed; the state of its target says that a machine has written it.
"""

import html
import logging
import re
from collections import Counter
from collections.abc import Collection, Sequence

from transformer_cli.documents.blocks import Builder, escaping, nested
from transformer_cli.documents.markup import BLOCKS, VOID
from transformer_cli.documents.opened import NO_LETTER, Languages, Opened
from transformer_cli.documents.xmltext import Token, cut_xml, decoded_xml, escaping_like
from transformer_cli.errors import DataError
from transformer_cli.text.lines import has_letter
from transformer_cli.text.reading import main_code

log = logging.getLogger(__name__)

_PREFIXES = {
    **dict.fromkeys((f"urn:oasis:names:tc:xliff:document:{version}" for version in ("1.1", "1.2")), ""),
    "http://sdl.com/FileTypes/SdlXliff/1.0": "sdl:",
    "MQXliff": "mq:",
    "http://www.w3.org/XML/1998/namespace": "xml:",
}
_BY_MACHINE = {"state": "needs-review-translation", "state-qualifier": "mt-suggestion"}  # XLIFF 1.2, 2.3
_UNTOUCHED = ("new", "needs-translation")  # states of a target that is a copy of its source

_PARTS = re.compile(  # of a text that may have tags of HTML in it
    r"&lt;(?P<slash>/?)(?P<name>[a-zA-Z][\w:.-]{0,50}|\d{1,9})"
    r"(?:\s(?:(?!&[lg]t;)[^=>]){0,200}=(?:(?!&[lg]t;)[^>]){0,500}|\s{0,9}/?)(?:&gt;|>)|(?P<text>.(?:(?!&lt;).)*)",
    re.DOTALL,
)
_LINE_END = re.compile(r"(\r\n?|\n|&#(?:10|x0{0,5}[Aa]);)")

_Span = tuple[int, int]
"""Of an element: the indices of its tags"""


def open_xliff(content: bytes, languages: Languages) -> Opened:
    """Cut a file into its segments. Raises DataError if it is no XLIFF 1.2."""
    text, encode = decoded_xml(content)
    build, kept = Builder(escaping(escaping_like(text))), Counter[str]()
    unit: list[Token] = []
    translates = [True]  # of the elements that are open
    others: list[Languages] = []  # of the file, that are not those of the run
    for token in cut_xml(text, _PREFIXES):
        if len(translates) == 1 and token.kind == "start" and token.name != "xliff":
            raise DataError("no XLIFF 1.2; export it as that")
        if token.kind == "start":
            translates.append({"yes": True, "no": False}.get(token.attributes.get("translate", ""), translates[-1]))
        if unit or (token.kind == "start" and token.name == "trans-unit"):
            unit.append(token)
            if token.kind == "end" and token.name == "trans-unit":
                _add_unit(build, unit, kept, is_translated=translates[-1])
                unit = []
        elif token.kind == "start" and token.name == "file":
            named = [token.attributes.get(f"{side}-language") for side in ("source", "target")]
            if any(name and main_code(name) != main_code(own) for name, own in zip(named, languages, strict=True)):
                others.append((named[0] or languages[0], named[1] or languages[1]))
            build.boundary(token.raw if named[1] else _with(token.raw, {"target-language": languages[1]}))
        else:
            build.boundary(token.raw)
        if token.kind == "end":
            translates.pop()
    build.boundary()
    if others:
        said = "the file says that it is to be translated from %.40r to %.40r; the run translates from %r to %r"
        log.warning(said, *others[0], *languages)
    return Opened([build.document], lambda texts: encode(texts[0]), kept)


def _add_unit(build: Builder, unit: Sequence[Token], kept: Counter[str], *, is_translated: bool) -> None:
    """Add a unit, with targets for its segments that have none."""
    about = unit[0].attributes
    source, cut, target = (_child(unit, name) for name in ("source", "seg-source", "target"))
    sources = _segments(unit, cut) if cut else {}
    targets = _segments(unit, target) if target else {}
    locked = {
        each.attributes.get("id", "")
        for each in unit
        if each.name == "sdl:seg" and each.attributes.get("locked") == "true"
    }
    reason = (
        "not to be translated" if not is_translated
        else "approved" if about.get("approved") == "yes"
        else "locked" if about.get("mq:locked") in ("locked", "yes", "true")
        else ""
    )  # fmt: skip
    if reason or not source:
        kept[reason] += bool(source)
        build.boundary(*(each.raw for each in unit))
        return
    if target and targets and sources:  # segment by segment
        wanted = {
            name: span for name, span in targets.items()
            if name in sources and name not in locked and not _has_content(unit, span)
        }  # fmt: skip
        kept["locked"] += sum(name in locked for name in targets)
        kept["translated already"] += sum(name not in wanted and name not in locked for name in targets)
        place = 0
        for name, (start, end) in wanted.items():
            _add(build, unit, (place, start), wanted)
            kept[NO_LETTER] += not _fill(build, unit, sources[name], start, end)
            place = end + 1
        _add(build, unit, (place, len(unit)), wanted)
        return
    if target and _has_content(unit, target) and not _is_copy(unit, source, target):
        kept["translated already"] += 1
        build.boundary(*(each.raw for each in unit))
        return
    behind = max(source[1], cut[1] if cut else 0) + 1
    start, end = target or (behind, behind - 1)
    _add(build, unit, (0, start), ())
    if target:
        build.boundary(_with(unit[start].raw.removesuffix("/>") + ">" * unit[start].raw.endswith("/>"), _BY_MACHINE))
    else:
        space = unit[source[0] - 1].raw if unit[source[0] - 1].kind == "text" else ""
        kept_space = {name: value for name, value in unit[source[0]].attributes.items() if name == "xml:space"}
        build.boundary(space, _with(f"<{_tag(unit[source[0]], 'source', 'target')}>", {**kept_space, **_BY_MACHINE}))
    if sources:
        assert cut is not None
        place = cut[0] + 1
        for name, span in sources.items():
            _add(build, unit, (place, span[0] + 1), ())
            if name not in locked:
                kept[NO_LETTER] += not _add_text(build, unit, span)
            place = span[1]
        _add(build, unit, (place, cut[1]), ())
    else:
        kept[NO_LETTER] += not _add_text(build, unit, source)
    build.boundary(f"</{_tag(unit[source[0]], 'source', 'target')}>")
    _add(build, unit, (end + 1, len(unit)), sources.keys() - locked)


def _add(build: Builder, unit: Sequence[Token], span: _Span, filled: Collection[str]) -> None:
    """Add a part of a unit as it is. filled: the segments that are translated, of which their state is said."""
    for each in unit[slice(*span)]:
        is_new = each.kind == "start" and each.name == "sdl:seg" and each.attributes.get("id") in filled
        build.boundary(_with(each.raw, {"conf": "Draft", "origin": "mt"}) if is_new else each.raw)


def _fill(build: Builder, unit: Sequence[Token], source: _Span, start: int, end: int) -> bool:
    """Add a segment of a target with the text of its source. Returns whether that has a letter."""
    build.boundary(unit[start].raw.removesuffix("/>") + ">" * unit[start].raw.endswith("/>"))
    has_letters = _add_text(build, unit, source)
    build.boundary(unit[end].raw or f"</{_tag(unit[start])}>")
    return has_letters


def _add_text(build: Builder, unit: Sequence[Token], span: _Span) -> bool:
    """Add what is inside an element to the text. Returns whether that has a letter."""
    marks: list[tuple[str, str, str, str]] = []  # what it opens and closes, how it is written, what it means
    depth = 0  # in what is kept
    keeps_lines = "preserve" in [each.attributes.get("xml:space") for each in (unit[0], unit[span[0]])]
    for each in unit[span[0] + 1 : span[1]]:
        kind, name, about = each.kind, each.name, each.attributes
        goes_round = name == "g" or (name == "mrk" and about.get("mtype") not in ("protected", "x-sdl-deleted"))
        if depth or (kind == "start" and not goes_round):
            opens, closes, raw, _ = marks[-1] if depth else ("", "", "", "")
            if not depth:
                pair = f"code {about.get('rid') or about.get('id')}"
                marks.append((opens, closes, raw, ""))
                opens, closes = pair * (name in ("bpt", "bx")), pair * (name in ("ept", "ex"))
            marks[-1] = (opens, closes, raw + each.raw, "")
            depth += {"start": 1, "end": -1}.get(kind, 0)
        elif kind == "text":
            for line in _lines(each) if keeps_lines else [(each.raw, each.text)]:
                marks += _tagged(*line)
        else:
            marks.append((name * (kind == "start"), name * (kind == "end"), each.raw, ""))
    pairs = nested([each[:2] for each in marks], ("g", "mrk"))
    elements = (number for number, (opens, closes, *_) in enumerate(marks) if (opens or closes)[:1] not in ("", "<"))
    is_crossed = not pairs.issuperset(elements)
    for number, (opens, closes, raw, text) in enumerate(marks):
        if keeps_lines and text == "\n":
            beside = (marks[max(0, number - 1) : number], marks[number + 1 : number + 2])
            before, after = ("".join(each[3] for each in found).strip("\n") for found in beside)
            build.line_end(raw, before, after)
        elif text:
            build.text(raw, text)
        elif (tag := _PARTS.match(raw)) and (tag["name"] or "").lower() in BLOCKS:
            build.boundary(raw)
        elif is_crossed:  # all stay in their order
            build.seam(raw)
        elif number in pairs:
            (build.open if opens else build.close)(opens or closes, raw)
        else:
            build.point(raw)
    return any(has_letter(text) for *_, text in marks)


def _tagged(raw: str, text: str) -> list[tuple[str, str, str, str]]:
    """Returns the marks of a text: the tags of HTML that are written in it, and what is between them."""
    marks = list[tuple[str, str, str, str]]()
    for part in _PARTS.finditer(html.escape(text, quote=False) if "<![" in raw else raw):
        name, is_alone = (part["name"] or "").lower(), part[0].endswith(("/&gt;", "/>"))
        mark = "" if is_alone or not name or name in BLOCKS or name in VOID else f"<{name}"
        meant = html.unescape(part["text"] or "").replace("\r\n", "\n")
        marks.append((mark * (not part["slash"]), mark * bool(part["slash"]), part[0], meant))
    return marks


def _lines(text: Token) -> list[tuple[str, str]]:
    """Returns the lines of a text, and their ends: how they are written, and what they mean."""
    raws, texts = _LINE_END.split(text.raw), _LINE_END.split(text.text)
    if len(raws) != len(texts) or "<![" in text.raw:  # of a CDATA section, both ends belong together
        return [(text.raw, text.text)]
    return [(raw, meant.replace("\r", "\n")) for raw, meant in zip(raws, texts, strict=True) if raw]


def _child(unit: Sequence[Token], name: str) -> _Span | None:
    """Returns where a child of a unit stands."""
    depth, start = 0, -1
    for index, each in enumerate(unit):
        depth -= each.kind == "end"
        if depth == 1 and each.name == name:
            if each.kind == "end":
                return start, index
            start = index if each.kind == "start" else start
        depth += each.kind == "start"
    return None


def _segments(unit: Sequence[Token], span: _Span) -> dict[str, _Span]:
    """Returns where the segments of an element stand, by their names."""
    found: dict[str, _Span] = {}
    open_: list[int] = []
    for index in range(span[0] + 1, span[1]):
        each = unit[index]
        if each.kind == "start":
            open_.append(index)
        elif each.kind == "end":
            start = open_.pop()
            if each.name == "mrk" and unit[start].attributes.get("mtype") == "seg":
                found[unit[start].attributes.get("mid", "")] = start, index
    return found


def _has_content(unit: Sequence[Token], span: _Span) -> bool:
    inside = unit[span[0] + 1 : span[1]]
    return any(each.text.strip() or (each.kind == "start" and each.name != "mrk") for each in inside)


def _is_copy(unit: Sequence[Token], source: _Span, target: _Span) -> bool:
    """Whether a target is only a copy of its source, which its state says."""
    both = ("".join(each.raw for each in unit[start + 1 : end]) for start, end in (source, target))
    state = unit[target[0]].attributes.get("state", "")
    return state in _UNTOUCHED and len({*both}) == 1


def _tag(token: Token, name: str = "", instead: str = "") -> str:
    """Returns the name of an element as it is written, or that of another one with the same prefix."""
    written = re.split(r"[\s/>]", token.raw[1:], maxsplit=1)[0]
    return written.removesuffix(name) + instead if name else written


def _with(tag: str, attributes: dict[str, str]) -> str:
    """Returns a tag with other attributes."""
    for name, value in attributes.items():
        new = f' {name}="{value}"'
        tag, n_found = re.subn(rf"\s{name}\s*=\s*(\"[^\"]*\"|'[^']*')", new, tag, count=1)
        if not n_found:
            end = len(tag) - 1 - tag.endswith("/>")
            tag = tag[:end] + new + tag[end:]
    return tag
