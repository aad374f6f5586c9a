"""Parses HTML into blocks of plain text. Knows no models.

All that is not translated stays byte for byte, however broken it is. Therefore HTML is cut into tags and text as in the
HTML standard (13.2.5), but not parsed into a tree, which could not be written back unchanged. Each step takes linear
time.
"""

import codecs
import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from transformer_cli.adapters.documents.blocks import (
    MAX_INLINE_DEPTH,
    Block,
    Builder,
    Document,
    Inline,
    InlineElement,
    escaping_writer,
)
from transformer_cli.adapters.documents.xmltext import XML_ENCODING
from transformer_cli.text.alignment import Span
from transformer_cli.text.lines import has_letter
from transformer_cli.text.normalization import primary_subtag


def _names(of_elements: str) -> frozenset[str]:
    return frozenset(of_elements.split())


# Elements
RAW_TEXT = _names("script style textarea xmp iframe noembed noframes")
"""contain no tags: < is text in them"""
BLOCK_ELEMENTS = RAW_TEXT | _names(
    "address article aside audio base basefont blockquote body br button canvas caption center col colgroup datalist "
    "dd details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head "
    "header hgroup hr html legend li link main math menu meta nav noscript object ol optgroup option p param pre rtc "
    "search section select summary svg table tbody td template tfoot th thead title tr track ul video"
)
"""begin and end blocks; so do unknown elements that contain one of them"""
INLINE_ELEMENTS = _names(
    "a abbr acronym area b bdi bdo big cite code data del dfn em embed font i img input ins kbd label map mark meter "
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
TEXT_ATTRIBUTES = _names("alt aria-description aria-label aria-placeholder aria-valuetext label placeholder title")
"""are translated, since readers see or hear them (HTML standard, 3.2.6.2, and WAI-ARIA)"""
BUTTON_TYPES = ("button", "reset", "submit")
"""types of <input> whose value is translated, too"""
LANGUAGE_ATTRIBUTES = _names("lang xml:lang")
PLACEHOLDER_NAMES = _names("button link menu option source title")
"""elements whose names are also used as placeholders in the messages of programs"""

# No alternative can fail long after it began to match, so matching takes linear time.
_MARKUP = re.compile(
    r"<(?:!--(?:-?>|.*?(?:--!?>|\Z))"  # a comment; an unclosed one reaches to the end
    r"|(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*|\d{1,9}(?=/?>))"  # also <0>, as in message catalogues
    r"(?:[^>=]*>)?"  # a whole tag, or a tag up to its first value
    r"|%(?:(?!<%).)*?%>|\?(?:php\b|=).*?(?:\?>|\Z)"  # template and PHP code
    r"|(?:[!?]|/[^a-zA-Z>])[^>]*(?:>|\Z)|/>)"  # a doctype, and what browsers treat as a comment
    r"|\{[{%](?=[^{}]{0,99}[<>&])(?:[^{}<]|<(?![a-zA-Z/!?])){0,199}[%}]\}",  # {{ a && b }} must not be escaped
    re.DOTALL,
)
_TEMPLATE_CODE = re.compile(r"<[%?]|\{[{%][^{}]{0,99}[<>&\"'][^{}]{0,99}\}")  # in an attribute
_IN_TAG = re.compile(r"""(?P<end>>)|={2,}|=[ \t\n\f\r]*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))?""")
_ATTRIBUTE = re.compile(r"([^\s/>=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>][^\s>]*)))?")


ENCODING_SEARCH_BYTES = 1 << 10  # of a page, searched for its encoding (HTML standard, 4.2.5.4)
_HTML_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_META_CHARSET = re.compile(rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_BROWSER_ENCODINGS = {  # how browsers interpret some names (WHATWG's Encoding Standard, 4.2)
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"), "iso8859-9": "cp1254", "gb2312": "gbk", "euc_kr": "cp949",
    "shift_jis": "cp932", **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be"), "utf-8"),
}  # fmt: skip

_TEXT_WRITER = escaping_writer(partial(html.escape, quote=False))
_ATTRIBUTE_WRITER = escaping_writer(html.escape)


def html_encoding(content: bytes) -> str:
    """Returns the encoding that a page declares; UTF-8 if it declares none that Python knows."""
    head = _HTML_COMMENT.sub(b"", content[:ENCODING_SEARCH_BYTES])
    xml_declaration = XML_ENCODING.match(head)
    declared = xml_declaration or _META_CHARSET.search(head)
    try:
        found = codecs.lookup(declared[1].decode()).name if declared else "utf-8"
    except LookupError:
        return "utf-8"
    return found if xml_declaration else _BROWSER_ENCODINGS.get(found, found)


def parse_html(source: str, languages: tuple[str, str] = ("", "")) -> Document:
    """Parse a page or a fragment into blocks. Accepts any text.

    languages: codes of source and target; a lang attribute with the source language gets the target language.
    """
    parser = _Parser(languages)
    parser.parse(source)
    parser.build.end_block()
    return parser.build.document


def tag_pattern(begin: str, end: str, character: str) -> str:
    """Returns a regular expression for tags in text. The arguments are expressions for <, > and one character."""
    return (
        rf"{begin}(?P<slash>/?)(?P<name>[a-zA-Z][\w:.-]{{0,50}}|\d{{1,9}})"
        rf"(?:\s(?:(?!{begin}|{end}|=){character}){{0,200}}=(?:(?!{begin}|{end}){character}){{0,500}}|\s{{0,9}}/?){end}"
    )


def inline_of_tag(tag: re.Match[str]) -> Inline:
    """Returns a tag, matched by `tag_pattern`, as an Inline."""
    raw, name = tag[0], tag["name"].lower()
    is_html = name not in PLACEHOLDER_NAMES
    if is_html and name in BLOCK_ELEMENTS:
        return Inline(raw, kind="block_end")
    if (is_html and name in VOID_ELEMENTS) or raw.endswith(("/>", "/&gt;")):
        return Inline(raw)
    return Inline(raw, closes=f"<{name}") if tag["slash"] else Inline(raw, opens=f"<{name}")


class _Parser:
    """Passes the tags and texts of a page to a `Builder`."""

    def __init__(self, languages: tuple[str, str]) -> None:
        self.build = Builder(_TEXT_WRITER)
        self.languages = languages
        self.depth = 0  # of nested untranslated elements

    def parse(self, source: str) -> None:
        """Add a document, or a part of one; see `parse_html`."""
        position, block_like = 0, _find_block_like(source)
        while token := _MARKUP.search(source, position):
            self.add_text(source[position : token.start()])
            start, position = token.start(), _end_of_tag(source, token)
            tag, name = source[start:position], (token["name"] or "").lower()
            if not name:
                self.build.add_standalone(tag)
                continue
            if token["slash"]:
                self.end_tag(tag, name)
                continue
            attributes = _attributes(tag, token)
            translate = _translate_attribute(attributes)
            is_kept = name in RAW_TEXT or translate is False or (name in NO_TRANSLATE and translate is None)
            if is_kept and name not in VOID_ELEMENTS and (name in RAW_TEXT or not tag.endswith("/>")):
                inside, position = position, _end_of_element(source, position, name)
                is_read = self.depth < MAX_INLINE_DEPTH and name not in RAW_TEXT
                translated = [*_translatable_spans(source[inside:position], inside)] if is_read else []
                is_inline = name in WITHIN_SENTENCE or name not in BLOCK_ELEMENTS
                if is_inline and start not in block_like and not translated:
                    self.build.add_standalone(source[start:position])
                else:
                    self.add_untranslated(source, (start, position), translated)
                continue
            markup = self.with_attribute_blocks(tag, {} if is_kept else attributes)
            if name in BLOCK_ELEMENTS or start in block_like:
                self.build.end_block(*markup)
            elif name in VOID_ELEMENTS or tag.endswith("/>"):
                self.build.add_standalone(*markup)
            else:
                self.build.open_element(name, *markup)
        self.add_text(source[position:])

    def add_untranslated(self, source: str, span: Span, translated: Sequence[Span]) -> None:
        """Add an untranslated element. translated: the spans inside it that are translated after all."""
        position, last = span
        self.depth += 1
        for start, end in translated:
            self.build.end_block(source[position:start])
            self.parse(source[start:end])
            position = end
        self.depth -= 1
        self.build.end_block(source[position:last])

    def add_text(self, source: str) -> None:
        if source:
            self.build.add_text(source, html.unescape(source))

    def end_tag(self, tag: str, name: str) -> None:
        """Close the innermost element of this name and those in it; a tag without an open element ends the block."""
        if self.build.has_open(name):
            self.build.close_element(name, tag)
        else:
            self.build.end_block(tag)

    def with_attribute_blocks(self, tag: str, attributes: "dict[str, re.Match[str]]") -> list[str | Block]:
        """Returns a tag with its translatable attributes as blocks."""
        parts: list[str | Block] = []
        kind = attributes.get("type")
        is_button = tag[:6].lower() == "<input" and kind and kind[kind.lastindex or 0].lower() in BUTTON_TYPES
        shown = TEXT_ATTRIBUTES | LANGUAGE_ATTRIBUTES | ({"value"} if is_button else set())
        texts = [each for name, each in attributes.items() if name in shown and each.lastindex != 1]
        last = 0
        for each in sorted(texts, key=lambda each: each.start()):
            start, end = each.span(each.lastindex or 0)
            text = " ".join(html.unescape(tag[start:end]).split())
            if each[1].lower() in LANGUAGE_ATTRIBUTES:
                if primary_subtag(text) == primary_subtag(self.languages[0]):
                    parts += [tag[last:start], self.languages[1]]
                    last = end
            elif has_letter(text) and not _TEMPLATE_CODE.search(tag, start, end):
                is_quoted = tag[start - 1] in "\"'"
                block = Block(
                    text, [InlineElement(0, len(text), -1, 0, ['"'], '"')], _ATTRIBUTE_WRITER, self.build.here()
                )
                self.build.document.blocks.append(block)
                parts += [tag[last : start - is_quoted], block]
                last = end + is_quoted
        return [*parts, tag[last:]]


def _attributes(tag: str, token: re.Match[str]) -> dict[str, re.Match[str]]:
    """Returns the attributes of a tag that have values; of equal names, the first one counts."""
    found = _ATTRIBUTE.finditer(tag, token.end("name") - token.start()) if not token[0].endswith(">") else ()
    return {each[1].lower(): each for each in reversed([*found])}


def _translate_attribute(attributes: "dict[str, re.Match[str]]") -> bool | None:
    """Returns whether the author wants an element to be translated; None if the tag does not say."""

    def value(name: str) -> str | None:
        found = attributes.get(name)
        return found and (found[2] or found[3] or found[4] or "").lower()

    if (translate := value("translate")) in ("yes", "", "no"):
        return translate != "no"
    return False if "notranslate" in (value("class") or "").split() else None


def _find_block_like(source: str) -> set[int]:
    """Returns the offsets of unknown elements that contain a block element."""
    block_like: set[int] = set()
    open_: list[tuple[str, int]] = []  # unknown elements that began in the current block
    n_open: Counter[str] = Counter()
    position = 0
    while token := _MARKUP.search(source, position):
        start, position, name = token.start(), _end_of_tag(source, token), (token["name"] or "").lower()
        if not name or name in INLINE_ELEMENTS or name in VOID_ELEMENTS:
            continue
        if name in NO_TRANSLATE and not token["slash"]:
            position = _end_of_element(source, position, name)
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


def _translatable_spans(source: str, first: int) -> Iterator[Span]:
    """Yield the spans of elements to translate inside an untranslated one, which begins at `first`."""
    position = 0
    while token := _MARKUP.search(source, position):
        start, position, name = token.start(), _end_of_tag(source, token), (token["name"] or "").lower()
        if not name or token["slash"]:
            continue
        if name in RAW_TEXT:
            position = _end_of_element(source, position, name)
        elif name not in VOID_ELEMENTS and _translate_attribute(_attributes(source[start:position], token)):
            position = _end_of_element(source, position, name)
            yield first + start, first + position


def _end_of_tag(source: str, token: re.Match[str]) -> int:
    """Returns the end of a tag or comment. A > inside a quoted value does not end a tag."""
    if not token["name"] or token[0].endswith(">"):
        return token.end()
    return next((part.end() for part in _IN_TAG.finditer(source, token.end()) if part["end"]), len(source))


def _end_of_element(source: str, position: int, name: str) -> int:
    """Returns the end of an untranslated element; an unclosed one reaches to the end of the source."""
    if name in RAW_TEXT:
        found = re.compile(rf"</{name}(?=[\s/>])[^>]*(?:>|\Z)", re.IGNORECASE).search(source, position)
        return found.end() if found else len(source)
    if name in RUBY_NOTES:
        found = re.compile(rf"</{name}\s*>|(?=<(?:/ruby|r[bpt])\b)", re.IGNORECASE).search(source, position)
        return found.end() if found else len(source)
    n_open = 1
    while n_open and (token := _MARKUP.search(source, position)):
        position, inner = _end_of_tag(source, token), (token["name"] or "").lower()
        if inner in RAW_TEXT and not token["slash"]:
            position = _end_of_element(source, position, inner)
        elif inner == name:
            n_open += -1 if token["slash"] else 1
    return len(source) if n_open else position
