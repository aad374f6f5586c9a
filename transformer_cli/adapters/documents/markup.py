"""Parses HTML, of pages and in messages of other formats, into blocks of plain text. Knows no models.

All that is not translated stays byte for byte, however broken it is. Therefore HTML is cut into tags and text as in the
HTML standard (13.2.5), but not parsed into a tree, which could not be written back unchanged. Each step takes linear
time.
"""

import codecs
import html
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, groupby

from transformer_cli.adapters.documents.blocks import (
    MAX_INLINE_DEPTH,
    OF_TAG,
    Block,
    Builder,
    Document,
    Inline,
    InlineKind,
    escaping_writer,
)
from transformer_cli.adapters.documents.branches import find_code
from transformer_cli.adapters.documents.parsed_file import decode_text, parse_marked
from transformer_cli.adapters.documents.xmltext import XML_ENCODING
from transformer_cli.adapters.terminology.placeholders import STAND_IN
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.text.alignment import Span
from transformer_cli.text.languages import is_language_code, is_other_language, is_own_name
from transformer_cli.text.lines import has_letter
from transformer_cli.text.normalization import primary_subtag
from transformer_cli.text.sentences import SENTENCE_OPENERS

_Attributes = Mapping[str, "re.Match[str]"]
"""The attributes of a tag that have values, by their names in lower case"""


def _names(of_elements: str) -> frozenset[str]:
    return frozenset(of_elements.split())


# Elements
RAW_TEXT = _names("script style textarea xmp iframe noembed noframes")
"""contain no tags: < is text in them"""
BLOCK_ELEMENTS = RAW_TEXT | _names(
    "address article aside audio base basefont blockquote body br button canvas caption center col colgroup datalist "
    "dd details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head "
    "header hgroup hr html label legend li link main math menu meta nav noscript object ol optgroup option p param pre "
    "rtc search section select summary svg table tbody td template tfoot th thead title tr track ul video"
)
"""begin and end blocks; so do unknown elements that contain one of them"""
INLINE_ELEMENTS = _names(
    "a abbr acronym area b bdi bdo big cite code data del dfn em embed font i img input ins kbd map mark meter "
    "nobr output picture progress q rb ruby s samp slot small source span strike strong sub sup time tt u var wbr"
)
"""are around words, even if they contain a block; so are unknown elements that contain none"""
VOID_ELEMENTS = _names("area base br col embed hr img input link meta param source track wbr")
"""have no end tag"""
RUBY_NOTES = _names("rp rt")
"""annotate the pronunciation of the words before them; their end tags are optional"""
NO_TRANSLATE = RAW_TEXT | RUBY_NOTES | _names("code kbd pre samp svg math var")
"""their content is not translated"""
WITHIN_SENTENCE = RUBY_NOTES | _names("svg math script style")
"""those of NO_TRANSLATE that do not end a sentence, though most are block elements"""
TEXT_ATTRIBUTES = _names("abbr alt aria-description aria-label aria-placeholder aria-valuetext label placeholder title")
"""are translated, since readers see or hear them (HTML standard, 3.2.6.2, and WAI-ARIA)"""
KINDS_WITH_TEXT = {
    "input": _names("button reset submit"),
    "meta": _names("description og:title og:description og:image:alt twitter:title twitter:description"),
}
"""types of <input> and names of <meta> whose value or content is translated, too"""
LANGUAGE_ATTRIBUTES = _names("lang xml:lang")
PLACEHOLDER_NAMES = _names("button label link menu option source title")
"""elements whose names are also used as placeholders in the messages of programs"""

_MASKED, _FALSE_TAG = "\ufdd1\ufdd2"  # stand for each character of code, and for a < that begins no tag
_ELEMENT = "\ufffc"  # for an element of another format, such as <x/> of XLIFF

# No alternative can fail long after it began to match, so matching takes linear time.
_MARKUP = re.compile(
    r"<(?:!--(?:-?>|.*?(?:--!?>|\Z))"  # a comment; an unclosed one reaches to the end
    rf"|(?P<slash>/?)(?P<name>[a-zA-Z{_MASKED}][^\s/<>]*|\d{{1,9}}(?=/?>))"  # also <0>, as in message catalogues
    r"(?:[^<>=]*>)?"  # a whole tag, or a tag up to its first value
    r"|%(?:(?!<%).)*?%>|\?(?:php\b|=).*?(?:\?>|\Z)"  # template and PHP code with tags inside
    r"|(?:[!?]|/[^a-zA-Z>])[^>]*(?:>|\Z)|/>)",  # a doctype, and what browsers treat as a comment
    re.DOTALL,
)
_IN_TAG = re.compile(r"""(?P<end>>)|={2,}|=[ \t\n\f\r]*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))?""")
_ATTRIBUTE = re.compile(r"([^\s/>=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>][^\s>]*)))?")
_END_TAG = re.compile(r"</([a-zA-Z][^\s/<>]*)")
_FILLED_IN = rf"%{{$@{_MASKED}{_ELEMENT}{STAND_IN.pattern[1:-1]}"  # by a program, as in <a %s>
_TAG_OR_SIGN = re.compile(  # in messages, where <input file> and a < b are text
    r"<(?:!--(?:(?!<!--).)*?-->|%(?:(?!<%).)*?%>|/?>|[!?][^<>]*>"
    rf"|/?(?:[a-zA-Z{_MASKED}][^\s/<>=]*|\d{{1,9}})(?:"
    r"(?:\s+(?:async|checked|controls|defer|disabled|hidden|multiple|nowrap|open|readonly|required|reversed|selected))*"
    rf"\s*/?|\s[^<>={_FILLED_IN}]*(?:[{_FILLED_IN}][^<>=]*|=(?:[^<>\"']|\"[^\"]*\"|'[^']*')*))>)|<",
    re.DOTALL,
)
_TOPIC = re.compile(r"[#@]\w[\w.-]*")  # or a person, as the text of a link
MAX_NAME_CHARS = 200  # of a link, with tags, that may be the name of a topic or language
_AFTER_PARAGRAPH = "/?(?:article|blockquote|body|d[dlt]|div|footer|form|h[1-6r]|li|main|ol|p|section|t[dhr]|table|ul)"
_XHTML, MAX_PAGE_START = 'xmlns="http://www.w3.org/1999/xhtml"', 1 << 12
_EMPTY_RAW_TEXT = re.compile(rf"<(?:{'|'.join(sorted(RAW_TEXT))})\b[^<>]*/>")  # <script src="a"/>: XML needs no end tag
_CODE_BOUNDARY = rf"</?(?i:{'|'.join(sorted(BLOCK_ELEMENTS - VOID_ELEMENTS))})\b"


ENCODING_SEARCH_BYTES = 1 << 10  # of a page, searched for its encoding (HTML standard, 4.2.5.4)
_HTML_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_META_CHARSET = re.compile(rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_BROWSER_ENCODINGS = {  # how browsers interpret some names (WHATWG's Encoding Standard, 4.2)
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"), "iso8859-9": "cp1254", "gb2312": "gbk", "euc_kr": "cp949",
    "shift_jis": "cp932", **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be"), "utf-8"),
}  # fmt: skip

_TEXT_WRITER = escaping_writer(partial(html.escape, quote=False))


def decode_page(content: bytes) -> tuple[str, Callable[[str], bytes]]:
    """Like `decode_text`, in the encoding that a page declares; what it lacks is encoded as references: &#8222;.

    It is UTF-8 if the page declares none that Python knows, or one in which its tags would be other bytes, as EBCDIC.
    """
    head = _HTML_COMMENT.sub(b"", content[:ENCODING_SEARCH_BYTES])
    xml_declaration = XML_ENCODING.match(head)
    declared = xml_declaration or _META_CHARSET.search(head)
    try:
        found = codecs.lookup(declared[1].decode()).name if declared else "utf-8"
        found = found if xml_declaration else _BROWSER_ENCODINGS.get(found, found)
        found = found if "<".encode(found) == b"<" else "utf-8"
    except LookupError:  # also for base64, a codec of Python's for bytes
        found = "utf-8"
    return decode_text(content, found, "xmlcharrefreplace")


def parse_html(
    source: str, languages: tuple[str, str] = ("", ""), before_part: Callable[[int], object] = lambda n_blocks: None
) -> Document:
    """Parse a page or a fragment into blocks. Accepts any text.

    languages: codes of source and target; a lang attribute with the source language gets the target language. Text
    with another one is kept, see `parse_marked`. before_part: called before each part with the number of blocks so far;
    stops the parsing by raising an error.
    """

    parse = partial(parse_page, source, languages=languages, before_part=before_part)
    return parse_marked(lambda language: [parse(language)], languages[0])[0]


def parse_page(
    source: str,
    language: str,
    *,
    languages: tuple[str, str],
    name: str = "",
    line: int = 1,
    before_part: Callable[[int], object] = lambda n_blocks: None,
) -> Document:
    """Parse a page as `parse_html` does.

    language: see `parse_marked`. name, line: of the file and of its first line, for places in it.
    """
    build, reader = Builder(_TEXT_WRITER, line), _Reader([Inline(source, source)] * bool(source), str, languages, True)
    build.document.place, reader.language = f"{name}, " * bool(name), language
    for each in reader.read():
        before_part(len(build.document.blocks))
        is_unopened = each.closes and not build.has_open(each.closes)
        build.add(replace(each, kind="block_end") if is_unopened else each)
    build.end_block()
    build.document.n_other_language = reader.n_other_language
    return build.document


def parse_inlines(inlines: Sequence[Inline], escape: Callable[[str], str], languages: tuple[str, str]) -> list[Inline]:
    """Returns the inlines of a message or segment, in which tags and other markup in the text became inlines, too.

    In contrast to a page, its text has no character references, and may have a < that begins no tag. An element that is
    not translated needs an end tag. escape: writes text as the file does.
    """
    found: list[Inline] = []
    for is_element, group in groupby(inlines, key=lambda each: bool(each.opens or each.closes)):
        run = [*group]
        found += run if is_element else _Reader(run, escape, languages).read()
    return found


def message_builder(
    file: str, escape: Callable[[str], str], languages: tuple[str, str], settings: TranslationSettings
) -> Builder:
    """Returns a builder for messages with HTML and placeholders. file: its text. escape: see `parse_inlines`."""
    build = Builder(escaping_writer(escape))
    build.parse_text = partial(parse_inlines, escape=escape, languages=languages)
    build.document.conversions.is_enabled = settings.protect and not STAND_IN.search(file)
    return build


class _Reader:
    """Reads HTML in text that a file may have escaped, and between elements of the file's own format."""

    def __init__(
        self, inlines: Sequence[Inline], escape: Callable[[str], str], languages: tuple[str, str], is_page: bool = False
    ) -> None:
        self.escape, self.languages, self.is_page = escape, languages, is_page
        self.language, self.n_other_language = languages[0], 0  # see `parse_marked`
        texts = [each.text or ("\n" if each.kind else _ELEMENT) for each in inlines]
        self.source, self.raw = "".join(texts), "".join(each.raw for each in inlines)
        self.starts = [0, *accumulate(map(len, texts))]
        """of the inlines in `source`, and its end"""
        self.raw_starts = [0, *accumulate(len(each.raw) for each in inlines)]
        parts = {start: (start + 1, each) for start, each in zip(self.starts, inlines, strict=False) if not each.text}
        masked, last = "", 0
        for start, end, kind in find_code(self.source, _CODE_BOUNDARY):
            for offset in range(start, end) if parts else ():
                parts.pop(offset, None)
            if kind != "text":
                parts[start] = end, Inline(self.as_written(start, end), kind=kind)
            masked += self.source[last:start] + _MASKED * (end - start)
            last = end
        masked += self.source[last:]
        if is_page and (self.source.startswith("<?xml") or _XHTML in self.source[:MAX_PAGE_START]):
            masked = _EMPTY_RAW_TEXT.sub(lambda tag: f"<!{'-' * (len(tag[0]) - 3)}>", masked)
        elif not is_page:
            masked = _TAG_OR_SIGN.sub(lambda tag: tag[0] if tag[0] != "<" else _FALSE_TAG, masked)
        self.masked = masked
        self.end_tags = {each[1].lower(): each.start() for each in _END_TAG.finditer(self.masked)}
        """the offset of the last one of each name"""
        self.parts, self.part_starts = parts, sorted(parts)
        """offset → end and inline, of code and of inlines without text"""

    def as_written(self, start: int, end: int) -> str:
        """Returns a part of the source as the file has it."""
        if self.raw is self.source:  # as of a page
            return self.raw[start:end]

        def raw_offset(offset: int) -> int:
            index = min(bisect_right(self.starts, offset), len(self.starts) - 1) - 1
            (first, last), (raw, raw_last) = (each[index : index + 2] for each in (self.starts, self.raw_starts))
            is_escaped = last - first != raw_last - raw
            return raw + offset - first if offset == first or not is_escaped else raw_last

        return self.raw[raw_offset(start) : raw_offset(end)]

    def read(self, position: int = 0, last: int | None = None, depth: int = 0) -> Iterator[Inline]:
        """Yield a part of the source as inlines. depth: of nested untranslated elements."""
        last = len(self.source) if last is None else last
        block_like = _find_block_like(self.masked, position, last)
        items = _find_items(self.masked, position, last, block_like)
        inline = ""
        while token := _MARKUP.search(self.masked, position, last):
            yield from self.text(position, token.start(), has_references=self.is_page)
            start, position, name = token.start(), _end_of_tag(self.masked, token, last), (token["name"] or "").lower()
            if not name:
                yield self.copied(start, position)
                continue
            is_element = name not in PLACEHOLDER_NAMES or self.is_page
            if name == "label" and not token["slash"]:  # in a sentence if a word is before it
                inline = name if self.masked[max(0, start - 2) : start].rstrip()[-1:].isalpha() else ""
            is_block = (is_element and name in BLOCK_ELEMENTS and name != inline) or start in block_like
            if start in items:
                yield Inline("", kind="block_end")
            if token["slash"]:
                end_tag = Inline("", "", "", f"<{name}", "block_end" if is_block else "")
                yield self.tag((start, position), name, end_tag, {})
                continue
            attributes = _attributes(self.masked, token, position)
            translate, is_empty = _translate_attribute(attributes), self.masked.endswith("/>", start, position)
            language = _value(attributes, "lang") or _value(attributes, "xml:lang")
            is_other = is_language_code(language) and is_other_language(language, self.language)
            is_other &= translate is None and name not in NO_TRANSLATE | {"html"}
            self.n_other_language += is_other
            is_name = is_other or (name == "a" and self._is_name(attributes, position)) or name in NO_TRANSLATE
            is_kept = name in RAW_TEXT or translate is False or (translate is None and is_name)
            is_closed = self.is_page or start < self.end_tags.get("ruby" if name in RUBY_NOTES else name, 0)
            if is_kept and is_closed and name not in VOID_ELEMENTS and (name in RAW_TEXT or not is_empty):
                inside, position = position, _end_of_element(self.masked, position, last, name)
                is_read = depth < MAX_INLINE_DEPTH and name not in RAW_TEXT
                translated = [*_translatable_spans(self.masked, inside, position)] if is_read else []
                is_inline = name in WITHIN_SENTENCE or name not in BLOCK_ELEMENTS
                kind: InlineKind = "" if is_inline and start not in block_like and not translated else "block_end"
                about = {each: found for each, found in attributes.items() if each in TEXT_ATTRIBUTES}
                if about and translate is None and name in ("iframe", "svg", "textarea"):
                    yield self.tag((start, inside), name, Inline("", kind=kind), about)
                    start = inside
                for inside, end in translated:
                    yield self.copied(start, inside, kind)
                    yield from self.read(inside, end, depth + 1)
                    start = end
                yield self.copied(start, position, kind)
                continue
            is_void = is_empty or (is_element and name in VOID_ELEMENTS)
            tag = Inline("", "", f"<{name}" * (not is_void), "", "block_end" if is_block else "")
            yield self.tag((start, position), name, tag, {} if is_kept else attributes)
        yield from self.text(position, last, has_references=self.is_page)

    def _is_name(self, attributes: _Attributes, start: int) -> bool:
        """Whether the text of a link is a #Topic, or a language's own name (hreflang="fr": Français). start: of it."""
        end = self.masked.find("</a", start, start + MAX_NAME_CHARS)
        text = html.unescape(re.sub("<[^<>]*>", "", self.masked[start : max(start, end)])).strip()
        return _TOPIC.fullmatch(text) is not None or is_own_name(text, _value(attributes, "hreflang"))

    def text(self, start: int, end: int, *, has_references: bool) -> Iterator[Inline]:
        """Yield a part without tags: its text, and the code and the inlines in it."""
        first, last = (bisect_left(self.part_starts, offset) for offset in (start, end))
        for part in [*self.part_starts[first:last], end]:
            if start < part:
                text = self.source[start:part]
                yield Inline(self.as_written(start, part), html.unescape(text) if has_references else text)
            if part < end:
                start, inline = self.parts[part]
                yield inline

    def copied(self, start: int, end: int, kind: InlineKind = "") -> Inline:
        return Inline(self.as_written(start, end), kind=kind)

    def tag(self, span: Span, name: str, inline: Inline, attributes: _Attributes) -> Inline:
        """Returns a tag, in which the values of translatable attributes are blocks."""
        start, end = span
        parts: list[str | Block] = []
        if not attributes:
            return replace(inline, raw=self.as_written(start, end))
        kind = attributes.get("type" if name == "input" else "name") or attributes.get("property")
        has_text = kind and kind[kind.lastindex or 0].lower() in KINDS_WITH_TEXT.get(name, ())
        shown = TEXT_ATTRIBUTES | LANGUAGE_ATTRIBUTES | ({"value", "content"} if has_text else set())
        texts = [each for name, each in attributes.items() if name in shown and each.lastindex != 1]
        for each in sorted(texts, key=lambda each: each.start()):
            first, last = each.span(each.lastindex or 0)
            text = html.unescape(self.source[first:last])
            if each[1].lower() in LANGUAGE_ATTRIBUTES:
                if primary_subtag(text.strip()) == primary_subtag(self.languages[0]):
                    parts += [self.as_written(start, first), self.languages[1]]
                    start = last
            elif has_letter(text):
                quote = self.source[first - 1] if self.source[first - 1] in "\"'" else ""
                build = Builder(escaping_writer(partial(self.escape_value, quote=quote or '"')))
                build.place = OF_TAG
                build.add_inlines([*self.text(first, last, has_references=True)])
                build.end_block()
                added = self.escape('"') * (not quote)
                parts += [self.as_written(start, first), added, *build.document.parts, added]
                start = last
        tail = self.as_written(start, end)
        return replace(inline, raw=tail) if not parts else replace(inline, tail=[*parts, tail])

    def escape_value(self, text: str, quote: str) -> str:
        """Returns text as the value of an attribute in these quotation marks."""
        return self.escape(html.escape(text, quote=False).replace(quote, html.escape(quote)))


def _attributes(source: str, token: re.Match[str], end: int) -> _Attributes:
    """Returns the attributes of a tag that have values; of equal names, the first one counts."""
    found = _ATTRIBUTE.finditer(source, token.end("name"), end) if not token[0].endswith(">") else ()
    return {each[1].lower(): each for each in reversed([*found])}


def _value(attributes: _Attributes, name: str) -> str:
    """Returns the value of an attribute in lower case; "" for one that is missing."""
    found = attributes.get(name)
    return (found[2] or found[3] or found[4] or "").lower() if found else ""


def _translate_attribute(attributes: _Attributes) -> bool | None:
    """Returns whether the author wants an element to be translated; None if the tag does not say."""
    if "translate" in attributes and (translate := _value(attributes, "translate")) in ("yes", "", "no"):
        return translate != "no"
    return False if "notranslate" in _value(attributes, "class").split() else None


def _find_block_like(source: str, position: int, last: int) -> set[int]:
    """Returns the offsets of unknown elements that contain a block element, in a part of the source."""
    block_like: set[int] = set()
    open_: list[tuple[str, int]] = []  # unknown elements that began in the current block
    n_open: Counter[str] = Counter()
    while token := _MARKUP.search(source, position, last):
        start, position, name = token.start(), _end_of_tag(source, token, last), (token["name"] or "").lower()
        if not name or name in INLINE_ELEMENTS or name in VOID_ELEMENTS:
            continue
        if name in NO_TRANSLATE and not token["slash"]:
            position = _end_of_element(source, position, last, name)
        if name in WITHIN_SENTENCE:
            continue
        if token["slash"] and n_open[name]:
            while open_[-1][0] != name:
                n_open[open_.pop()[0]] -= 1
            n_open[open_.pop()[0]] -= 1
        elif token["slash"] or name in BLOCK_ELEMENTS:
            if not token["slash"]:  # an end tag ends the open elements, too; they contain no block
                block_like.update(start for _, start in open_)
            open_.clear()
            n_open.clear()
        elif not source.endswith("/>", start, position):
            open_.append((name, start))
            n_open[name] += 1
    return block_like


def _find_items(source: str, position: int, last: int, block_like: Collection[int]) -> set[int]:
    """Returns the offsets of items, as of the second <a> of <nav><a>A</a><a>B</a></nav>, in a part of the source.

    An item touches a sibling of its name, without white space, begins with a capital (a link: with no small letter),
    and is in a block or element that has no text of its own.
    """
    items, found, n_open = set[int](), list[int](), Counter[str]()  # found: in the current block
    open_ = [("", 0, False)]  # elements: name, how many items are found before its content, whether it has own text
    ended, new, is_spaced = ("", 0), -1, False  # the last end tag; the item whose text has not begun
    while True:
        token = _MARKUP.search(source, position, last)
        if text := source[position : token.start() if token else last]:
            first = html.unescape(text[:9]).lstrip(SENTENCE_OPENERS)[:1]
            is_item = not (first.islower() or first.isspace()) if open_[-1][0] == "a" else first.isupper() and text[1:]
            del found[len(found) - (new in found[-1:] and not is_item) :]
            open_[-1], new, is_spaced = (*open_[-1][:2], open_[-1][2] or not text.isspace()), -1, text[-1].isspace()
        start, name = (token.start(), (token["name"] or "").lower()) if token else (last, "")
        position = _end_of_tag(source, token, last) if token else last
        if not token or name in BLOCK_ELEMENTS - WITHIN_SENTENCE or start in block_like:
            for _, n_before, has_text in reversed(open_):
                del found[n_before if has_text else len(found) :]
            items.update(found)
            found, open_, n_open = [], [("", 0, False)], Counter()
            if not token:
                return items
        elif token["slash"]:
            while n_open[name] and open_[-1][0] != name:
                n_open[open_.pop()[0]] -= 1
            if n_open[name]:
                _, n_before, has_text = open_.pop()
                del found[n_before if has_text else len(found) :]
                n_open[name] -= 1
            ended = name, position
        elif name and name not in VOID_ELEMENTS | NO_TRANSLATE and not source.endswith("/>", start, position):
            if ended == (name, start) and not is_spaced:
                found.append(start)
                new = start
            open_.append((name, len(found), False))
            n_open[name] += 1
        if name in NO_TRANSLATE and not token["slash"]:
            position = _end_of_element(source, position, last, name)
            open_[-1] = (*open_[-1][:2], open_[-1][2] or name not in WITHIN_SENTENCE)


def _translatable_spans(source: str, position: int, last: int) -> Iterator[Span]:
    """Yield the spans of elements to translate inside an untranslated one. position, last: of its content."""
    while token := _MARKUP.search(source, position, last):
        start, position, name = token.start(), _end_of_tag(source, token, last), (token["name"] or "").lower()
        if not name or token["slash"]:
            continue
        if name in RAW_TEXT:
            position = _end_of_element(source, position, last, name)
        elif name not in VOID_ELEMENTS and _translate_attribute(_attributes(source, token, position)):
            position = _end_of_element(source, position, last, name)
            yield start, position


def _end_of_tag(source: str, token: re.Match[str], last: int) -> int:
    """Returns the end of a tag or comment, at most `last`. A > inside a quoted value does not end a tag."""
    if not token["name"] or token[0].endswith(">"):
        return token.end()
    return next((part.end() for part in _IN_TAG.finditer(source, token.end(), last) if part["end"]), last)


def _end_of_element(source: str, position: int, last: int, name: str) -> int:
    """Returns the end of an untranslated element, at most `last`; an unclosed one reaches up to there."""
    if name in RAW_TEXT:
        found = re.compile(rf"</{name}(?=[\s/>])[^>]*(?:>|\Z)", re.IGNORECASE).search(source, position, last)
        return found.end() if found else last
    if name in (*RUBY_NOTES, "p"):  # they need no end tag
        following = "/ruby|r[bpt]" if name in RUBY_NOTES else _AFTER_PARAGRAPH
        found = re.compile(rf"</{name}\s*>|(?=<(?:{following})\b)", re.IGNORECASE).search(source, position, last)
        return found.end() if found else last
    n_open = 1
    while n_open and (token := _MARKUP.search(source, position, last)):
        position, inner = _end_of_tag(source, token, last), (token["name"] or "").lower()
        if inner in RAW_TEXT and not token["slash"]:
            position = _end_of_element(source, position, last, inner)
        elif inner == name:
            n_open += -1 if token["slash"] else 1
    return last if n_open else position
