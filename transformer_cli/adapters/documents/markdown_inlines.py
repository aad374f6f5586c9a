"""Reads the inside of a paragraph, heading or cell of Markdown, and writes its translation.

What markdown-it finds in a translation decides how it is written: if it has not the markup of its source, or is no
longer one paragraph, characters are escaped, and spaces put around emphasis.
"""

import re
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from transformer_cli.adapters.documents.blocks import OF_TAG, Builder, Inline, Unescaped
from transformer_cli.adapters.documents.markdown_dialects import JSX, as_commonmark
from transformer_cli.adapters.documents.markup import parse_inlines
from transformer_cli.adapters.documents.parsed_file import LanguagePair
from transformer_cli.adapters.terminology.conversions import Conversions

_ATTRIBUTES = r"\{:?[ \t]*(?:[#.][\w:.-]+|[\w-]+=(?:\"[^\"]*\"|[^\s{}]*))(?:[ \t]+[^\s{}]+)*[ \t]*\}"
_HELD = (  # addresses, math, roles, Wiki links, attributes, footnotes
    r"<[a-zA-Z][\w+.-]{1,31}:[^\s<>]*>|<[^\s<>@]{1,99}@[^\s<>]{1,99}>"
    r"|\$\$[^$]{1,500}\$\$|\$(?![\s$])(?:(?!\]\()[^$\n]){1,500}(?<![\s\\])\$(?!\d)|\{[\w:.+-]+\}(?=`)"
    r"|!?\[\[[^\[\]\n]{1,200}\]\](?![(\[])"
    rf"|{_ATTRIBUTES}|\[\^[^\]\s]{{1,99}}\]"
)
_HELD_IN = {False: re.compile(_HELD), True: re.compile(f"{_HELD}|(?P<jsx>{JSX})")}
_TAIL = re.compile(rf"\\?{_ATTRIBUTES}\Z")  # of a heading or paragraph; \{#id} in MDX
_HEAD = re.compile(r"\[[ xX]\][ \t]+|\[![A-Za-z]+\][+-]?[ \t]*\n?")  # of a task, of an alert
_LINE_START = re.compile(r"^[ \t>]*(?:(?=[-+#=:]|!!!|\?{3})|\d{1,9}(?=[.)]))", re.MULTILINE)
_QUOTE = re.compile(r"(?<=\n)[ \t>]+")
_SPECIAL = "\\`*_[]<>|~$"
_TEXT = Token("text", "", 0)


class _Mark(str):
    """Markup, with markdown-it's token for it."""

    token: Token

    def __new__(cls, raw: str, token: Token) -> "_Mark":
        mark = super().__new__(cls, raw)
        mark.token = token
        return mark


@cache
def markdown_parser(is_mdx: bool) -> MarkdownIt:
    """Returns a parser whose inline tokens note where they end."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.disable(["html_block", "code", "html_inline", "autolink"] if is_mdx else ["autolink"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.inline.ruler.after("text", "held", partial(_hold, _HELD_IN[is_mdx]))
    names = parser.inline.ruler.get_active_rules()
    for name, rule in zip(names, parser.inline.ruler.getRules(""), strict=True):
        parser.inline.ruler.at(name, partial(_note_end, rule))
    return parser


def _hold(held: re.Pattern[str], state: StateInline, silent: bool) -> bool:
    """A rule for what stays as it is, and tags of JSX."""
    if (found := held.match(state.src, state.pos)) and not silent:
        token = state.push(found.lastgroup or "held", "", 0)
        token.content, token.tag = found[0], found["name"] or "" if found.lastgroup else ""
    state.pos = found.end() if found else state.pos
    return found is not None


def _note_end(rule: Callable[[StateInline, bool], bool], state: StateInline, silent: bool) -> bool:
    n_tokens, is_found = len(state.tokens), rule(state, silent)
    if len(state.tokens) > n_tokens and state.tokens[-1].type != "text":
        state.tokens[-1].meta["end"] = state.pos
    return is_found


@dataclass
class InlineText:
    """The inside of a paragraph, heading or cell."""

    content: str
    line_ends: Iterator[str]
    """from the end of each line to the beginning of the next one"""
    env: dict[str, Any]
    """markdown-it's, with the targets of links"""
    conversions: Conversions
    is_mdx: bool
    plain: str = ""
    """what is not escaped"""
    escapes: dict[str, str] = field(default_factory=dict)
    """character → how the content has it"""

    def parse(self, languages: LanguagePair) -> list[Inline]:
        """Returns the content as text and markup."""
        inlines = parse_inlines([*self.inlines()], str, languages)
        for each in inlines:
            each.text = " " if each.kind == "proportional" else each.text
        escapes = {char: raw for char, raw in self.escapes.items() if char in _SPECIAL or char not in self.plain}
        self.escapes = {char: f"\\{char}" for char in _SPECIAL if char not in self.plain} | escapes
        return inlines

    def inlines(self) -> Iterator[Inline]:
        """Yield markdown-it's tokens of the content."""
        if head := _HEAD.match(self.content):
            self.content = self.content[head.end() :]
            yield Inline(self.raw(head[0]), kind="block_end")
        tail = _TAIL.search(self.content, max(0, self.content.rfind("{") - 1))
        content = self.content[: tail.start()].rstrip() if tail else self.content
        end = link_start = 0
        for token in self.tokens(content):
            start, kind = end, token.type
            end = token.meta.get("end", start + (len(token.content or token.markup) or kind == "link_open"))
            source = content[start:end]
            if kind == "text_special" and len(token.content) == 1:
                self.escapes[token.content] = source
                yield Inline(source, token.content)
            elif kind in ("text", "text_special", "html_inline"):
                self.plain += source
                yield from (Inline(self.raw(line), line) for line in re.findall(r"\n|[^\n]+", source))
            elif kind == "image" and source[2 + len(token.content) :].strip("[]"):
                yield self.image(source, 2 + len(token.content))
            elif kind == "jsx" and source[0] == "<" and source[-2] != "/":
                name, raw = f"<{token.tag}", self.raw(source)
                yield Inline(raw, closes=name) if source[1] == "/" else Inline(raw, opens=name)
            elif kind == "softbreak":
                yield Inline(_Mark(self.raw(source), token), kind="proportional")
            elif token.nesting > 0:
                link_start = end if kind == "link_open" else link_start
                yield Inline(_Mark(source, token), opens=token.tag)
            elif token.nesting < 0:
                token.meta["label"] = content[link_start:start].split() if source in ("]", "][]") else []
                yield Inline(_Mark(self.raw(source), token), closes=token.tag)
            elif kind == "hardbreak":
                yield Inline(self.raw(source), kind="block_end")
            else:
                raw = self.raw(source)
                yield Inline(raw, "" if kind in ("jsx", "image") else self.conversions.hold(raw))
        if tail:
            yield Inline(self.raw(self.content[len(content) :]), kind="block_end")

    def image(self, source: str, after: int) -> Inline:
        """Returns an image, whose alternative text is a block. after: where that ends."""
        self.plain += source[2:after]
        build = Builder(self.join)
        build.place = OF_TAG
        build.add(Inline(self.raw(source[2:after]), source[2:after]))
        build.end_block()
        return Inline(source[:2], tail=[*build.document.parts, self.raw(source[after:])])

    def raw(self, source: str) -> str:
        """Returns the next part of the content as the file has it."""
        return re.sub("\n", lambda _: next(self.line_ends), source)

    def tokens(self, content: str) -> list[Token]:
        parser = markdown_parser(self.is_mdx)
        return parser.inline.parse(content, parser, self.env, [])

    def is_one_paragraph(self, content: str) -> bool:
        env = {"references": ChainMap({}, self.env.get("references", {}))}
        tokens = markdown_parser(self.is_mdx).parse(as_commonmark(content, self.is_mdx), env)
        return [each.type for each in tokens] == ["paragraph_open", "inline", "paragraph_close"]

    def write(self, parts: Sequence[str]) -> str:
        """Returns a translated block as Markdown that has the markup of its source."""
        written = self.join(parts)
        return written if self.is_kept(parts, written) else self.join(parts, is_safe=True)

    def is_kept(self, parts: Sequence[str], written: str) -> bool:
        """Whether markdown-it finds the markup in a block; it cannot if that begins or ends in another block."""
        marks = [token for token in map(_token, parts) if token.nesting]
        content = _QUOTE.sub("", self.conversions.restore(written))
        is_part = sum(token.nesting for token in marks) != 0
        found = Counter(token.type for token in self.tokens(content) if token.nesting)
        is_same = is_part or found == Counter(token.type for token in marks)
        return is_same and (self.is_one_paragraph(content) or not self.is_one_paragraph(self.content))

    def join(self, parts: Sequence[str], *, is_safe: bool = False) -> str:
        """Returns a block as Markdown. is_safe: with all that may be markup escaped, and spaces around emphasis."""
        table = str.maketrans({char: f"\\{char}" for char in _SPECIAL if is_safe} | self.escapes)
        written, line_end, last, link_start = "", "", _TEXT, 0
        for part in filter(None, parts):
            token, text = _token(part), part.translate(table) if isinstance(part, Unescaped) else part
            if token.type == "softbreak" and written:
                line_end = part
                continue
            if line_end and token.nesting >= 0 and text.strip():  # a mark that closes stays beside its word
                written = written.rstrip(" ") if written[-1] == " " else written  # two would be a hard break
                text = "\\" * (text.lstrip()[0] == ">") + text.lstrip()
                written += line_end
                line_end = ""
            touches = token.nesting == 1 != last.nesting or last.nesting == -1 != token.nesting
            if is_safe and touches and written and not (written[-1].isspace() or text[0].isspace()):
                written += " "
            if token.type == "link_open":
                link_start = len(written) + 1
            if (label := token.meta.get("label")) and self.conversions.restore(written[link_start:]).split() != label:
                text = f"][{' '.join(label)}]"
            written, last = written + text, token
        return _LINE_START.sub(r"\g<0>\\", written) if is_safe else written


def _token(part: str) -> Token:
    return part.token if isinstance(part, _Mark) else _TEXT
