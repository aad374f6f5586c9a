"""HTML → blocks of plain text, and back with the translation of each. Knows characters and tokens, but no models.

What is not translated stays as it was written, byte by byte, however broken it is. So HTML is cut into tags and text
as the HTML standard says (13.2.5), but no tree is made of it, from which it would have to be written anew. Each step is
linear in the length of the document, and nothing recurses.
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


# What elements mean.
RAW_TEXT = _names("script style textarea xmp iframe noembed noframes")
"""in them, < begins no other tag"""
BLOCK_ELEMENTS = RAW_TEXT | _names(
    "address article aside audio base basefont blockquote body br button canvas caption center col colgroup datalist "
    "dd details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head "
    "header hgroup hr html legend li link main math menu meta nav noscript object ol optgroup option p param pre rtc "
    "search section select summary svg table tbody td template tfoot th thead title tr track ul video"
)
"""they begin and end blocks; so do those of unknown names that hold one of them"""
INLINE_ELEMENTS = _names(
    "a abbr acronym area b bdi bdo big cite code data del dfn em embed font i img input ins kbd label map mark meter "
    "nobr output picture progress q rb ruby s samp slot small source span strike strong sub sup time tt u var wbr"
)
"""they go round words, also where they hold a block; so do those of unknown names that hold none"""
VOID_ELEMENTS = _names("area base br col embed hr img input link meta param source track wbr")
"""they have no end"""
RUBY_NOTES = _names("rp rt")
"""how the words before them are read; their ends may be left out"""
NO_TRANSLATE = RAW_TEXT | RUBY_NOTES | _names("code kbd pre samp svg math var")
"""what is inside them is not translated"""
WITHIN_SENTENCE = RUBY_NOTES | _names("svg math script style")
"""of those that are kept: a sentence goes on there, though most of them begin blocks"""
TEXT_ATTRIBUTES = _names("alt aria-description aria-label aria-placeholder aria-valuetext label placeholder title")
"""attributes that are translated (HTML standard, 3.2.6.2, and WAI-ARIA): what a reader sees or hears"""
BUTTON_TYPES = ("button", "reset", "submit")
"""types of inputs whose value is a text, too"""
LANGUAGE_ATTRIBUTES = _names("lang xml:lang")
"""attributes that name the language"""
PLACEHOLDER_NAMES = _names("button link menu option source title")
"""names of elements that in messages of programs are names of placeholders, too"""

# No alternative can fail far behind the place where it has begun, so nothing is read twice.
_MARKUP = re.compile(
    r"<(?:!--(?:-?>|.*?(?:--!?>|\Z))"  # a comment; what is not closed goes on to the end
    r"|(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*|\d{1,9}(?=/?>))"  # also <0>, as catalogues of programs have it
    r"(?:[^>=]*>)?"  # all of a tag, or what stands before its first value
    r"|%(?:(?!<%).)*?%>|\?(?:php\b|=).*?(?:\?>|\Z)"  # code of templates and of PHP
    r"|(?:[!?]|/[^a-zA-Z>])[^>]*(?:>|\Z)|/>)"  # a doctype, and what browsers take for a comment
    r"|\{[{%](?=[^{}]{0,99}[<>&])(?:[^{}<]|<(?![a-zA-Z/!?])){0,199}[%}]\}",  # {{ a && b }}, which would be escaped
    re.DOTALL,
)
_TEMPLATE_CODE = re.compile(r"<[%?]|\{[{%][^{}]{0,99}[<>&\"'][^{}]{0,99}\}")  # in an attribute
_IN_TAG = re.compile(r"""(?P<end>>)|={2,}|=[ \t\n\f\r]*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))?""")
_ATTRIBUTE = re.compile(r"([^\s/>=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>][^\s>]*)))?")


ENCODING_SEARCH_BYTES = 1 << 10  # bytes of a page in which its encoding stands (HTML standard, 4.2.5.4)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_META_CHARSET = re.compile(rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_BROWSER_ENCODINGS = {  # what browsers take a name for (WHATWG's Encoding Standard, 4.2)
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"), "iso8859-9": "cp1254", "gb2312": "gbk", "euc_kr": "cp949",
    "shift_jis": "cp932", **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be"), "utf-8"),
}  # fmt: skip

_TEXT_WRITER = escaping_writer(partial(html.escape, quote=False))
_ATTRIBUTE_WRITER = escaping_writer(html.escape)


def html_encoding(content: bytes) -> str:
    """Returns the encoding that a page says it is in, at its beginning; UTF-8 if it says none that Python knows."""
    head = _COMMENT.sub(b"", content[:ENCODING_SEARCH_BYTES])
    of_xml = XML_ENCODING.match(head)
    named = of_xml or _META_CHARSET.search(head)
    try:
        found = codecs.lookup(named[1].decode()).name if named else "utf-8"
    except LookupError:
        return "utf-8"
    return found if of_xml else _BROWSER_ENCODINGS.get(found, found)


def parse_html(source: str, languages: tuple[str, str] = ("", "")) -> Document:
    """Cut a page or a fragment into blocks. Takes whatever there is: nothing is wrong with HTML.

    languages: the codes of the source and of the target; what is marked as the one will be marked as the other.
    """
    parser = _Parser(languages)
    parser.parse(source)
    parser.build.end_block()
    return parser.build.document


def tag_pattern(begin: str, end: str, character: str) -> str:
    """Returns a regular expression for tags in text. The arguments are expressions for <, > and any character."""
    return (
        rf"{begin}(?P<slash>/?)(?P<name>[a-zA-Z][\w:.-]{{0,50}}|\d{{1,9}})"
        rf"(?:\s(?:(?!{begin}|{end}|=){character}){{0,200}}=(?:(?!{begin}|{end}){character}){{0,500}}|\s{{0,9}}/?){end}"
    )


def inline_of_tag(tag: re.Match[str]) -> Inline:
    """Returns what a tag in text is, which `tag_pattern` has found."""
    raw, name = tag[0], tag["name"].lower()
    is_html = name not in PLACEHOLDER_NAMES
    if is_html and name in BLOCK_ELEMENTS:
        return Inline(raw, kind="block_end")
    if (is_html and name in VOID_ELEMENTS) or raw.endswith(("/>", "/&gt;")):
        return Inline(raw)
    return Inline(raw, closes=f"<{name}") if tag["slash"] else Inline(raw, opens=f"<{name}")


class _Parser:
    """What is known at a place of the document."""

    def __init__(self, languages: tuple[str, str]) -> None:
        self.build = Builder(_TEXT_WRITER)
        self.languages = languages
        self.depth = 0  # of what is translated inside what is not

    def parse(self, source: str) -> None:
        """Add a document, or a part of one; see `parse_html`."""
        place, block_like = 0, _find_block_like(source)
        while token := _MARKUP.search(source, place):
            self.add(source[place : token.start()])
            start, place = token.start(), _end_of_tag(source, token)
            tag, name = source[start:place], (token["name"] or "").lower()
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
                inside, place = place, _end_of_element(source, place, name)
                is_read = self.depth < MAX_INLINE_DEPTH and name not in RAW_TEXT
                translated = [*_translatable_spans(source[inside:place], inside)] if is_read else []
                is_inline = name in WITHIN_SENTENCE or name not in BLOCK_ELEMENTS
                if is_inline and start not in block_like and not translated:
                    self.build.add_standalone(source[start:place])
                else:
                    self.add_untranslated(source, (start, place), translated)
                continue
            markup = self.with_attribute_blocks(tag, {} if is_kept else attributes)
            if name in BLOCK_ELEMENTS or start in block_like:
                self.build.end_block(*markup)
            elif name in VOID_ELEMENTS or tag.endswith("/>"):
                self.build.add_standalone(*markup)
            else:
                self.build.open_element(name, *markup)
        self.add(source[place:])

    def add_untranslated(self, source: str, span: Span, translated: Sequence[Span]) -> None:
        """Add what is not translated, but for elements in it that are."""
        place, last = span
        self.depth += 1
        for start, end in translated:
            self.build.end_block(source[place:start])
            self.parse(source[start:end])
            place = end
        self.depth -= 1
        self.build.end_block(source[place:last])

    def add(self, source: str) -> None:
        """Add text to the block."""
        if source:
            self.build.add_text(source, html.unescape(source))

    def end_tag(self, tag: str, name: str) -> None:
        """Close the innermost element of this name, and those in it; a tag without such an element ends the block."""
        if self.build.has_open(name):
            self.build.close_element(name, tag)
        else:
            self.build.end_block(tag)

    def with_attribute_blocks(self, tag: str, attributes: "dict[str, re.Match[str]]") -> list[str | Block]:
        """Returns a tag whose texts are blocks."""
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
                block = Block(text, [InlineElement(0, len(text), -1, 0, ['"'], '"')], _ATTRIBUTE_WRITER)
                self.build.document.blocks.append(block)
                parts += [tag[last : start - is_quoted], block]
                last = end + is_quoted
        return [*parts, tag[last:]]


def _attributes(tag: str, token: re.Match[str]) -> dict[str, re.Match[str]]:
    """Returns the attributes of a tag with values; of two with one name, the first one counts."""
    found = _ATTRIBUTE.finditer(tag, token.end("name") - token.start()) if not token[0].endswith(">") else ()
    return {each[1].lower(): each for each in reversed([*found])}


def _translate_attribute(attributes: "dict[str, re.Match[str]]") -> bool | None:
    """Returns whether an author wants an element translated; None if nothing says so."""

    def value(name: str) -> str | None:
        found = attributes.get(name)
        return found and (found[2] or found[3] or found[4] or "").lower()

    if (translate := value("translate")) in ("yes", "", "no"):
        return translate != "no"
    return False if "notranslate" in (value("class") or "").split() else None


def _find_block_like(source: str) -> set[int]:
    """Returns where elements of unknown names begin that hold a block."""
    block_like: set[int] = set()
    open_: list[tuple[str, int]] = []  # those that have begun in the innermost block
    n_open: Counter[str] = Counter()
    place = 0
    while token := _MARKUP.search(source, place):
        start, place, name = token.start(), _end_of_tag(source, token), (token["name"] or "").lower()
        if not name or name in INLINE_ELEMENTS or name in VOID_ELEMENTS:
            continue
        if name in NO_TRANSLATE and not token["slash"]:
            place = _end_of_element(source, place, name)
        if name in WITHIN_SENTENCE:
            continue
        if token["slash"] and n_open[name]:
            while open_[-1][0] != name:
                n_open[open_.pop()[0]] -= 1
            n_open[open_.pop()[0]] -= 1
        elif (
            token["slash"] or name in BLOCK_ELEMENTS
        ):  # what has begun before the end of a block does not hold the next one
            block_like.update(start for _, start in open_ if not token["slash"])
            open_.clear()
            n_open.clear()
        elif not source.endswith("/>", start, place):
            open_.append((name, start))
            n_open[name] += 1
    return block_like


def _translatable_spans(source: str, first: int) -> Iterator[Span]:
    """Yield where elements stand that are to be translated, within one that is not. first: where that begins."""
    place = 0
    while token := _MARKUP.search(source, place):
        start, place, name = token.start(), _end_of_tag(source, token), (token["name"] or "").lower()
        if not name or token["slash"]:
            continue
        if name in RAW_TEXT:
            place = _end_of_element(source, place, name)
        elif name not in VOID_ELEMENTS and _translate_attribute(_attributes(source[start:place], token)):
            place = _end_of_element(source, place, name)
            yield first + start, first + place


def _end_of_tag(source: str, token: re.Match[str]) -> int:
    """Returns where a tag or a comment ends; in a tag, a > between quotation marks behind a "=" does not end it."""
    if not token["name"] or token[0].endswith(">"):
        return token.end()
    return next((part.end() for part in _IN_TAG.finditer(source, token.end()) if part["end"]), len(source))


def _end_of_element(source: str, place: int, name: str) -> int:
    """Returns where an element ends whose inside is kept; one that is not closed goes on to the end."""
    if name in RAW_TEXT:
        found = re.compile(rf"</{name}(?=[\s/>])[^>]*(?:>|\Z)", re.IGNORECASE).search(source, place)
        return found.end() if found else len(source)
    if name in RUBY_NOTES:
        found = re.compile(rf"</{name}\s*>|(?=<(?:/ruby|r[bpt])\b)", re.IGNORECASE).search(source, place)
        return found.end() if found else len(source)
    n_open = 1
    while n_open and (token := _MARKUP.search(source, place)):
        place, inner = _end_of_tag(source, token), (token["name"] or "").lower()
        if inner in RAW_TEXT and not token["slash"]:
            place = _end_of_element(source, place, inner)
        elif inner == name:
            n_open += -1 if token["slash"] else 1
    return len(source) if n_open else place
