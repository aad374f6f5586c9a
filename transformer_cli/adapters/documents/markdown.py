"""Parses Markdown and MDX: paragraphs, headings, cells of tables and HTML become blocks; all else stays byte for byte.

markdown-it finds the blocks, in a copy of the text with the same lines, in which syntax that it does not know (front
matter, footnotes, containers, JSX over several lines) is replaced by syntax that it knows, or by nothing. The inside of
a block is found again in its lines. Line ends inside a paragraph keep their relative place.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import accumulate
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from transformer_cli.adapters.corpora.json_messages import JsonString, json_strings, load_json
from transformer_cli.adapters.documents.blocks import OF_TAG, Builder, Document, Inline, Place, Unescaped
from transformer_cli.adapters.documents.json_text import escape_like
from transformer_cli.adapters.documents.markup import parse_inlines, parse_page
from transformer_cli.adapters.documents.parsed_file import LINE, LanguagePair, ParsedFile, decode_text
from transformer_cli.adapters.terminology.conversions import Conversions
from transformer_cli.adapters.terminology.placeholders import STAND_IN
from transformer_cli.adapters.terminology.template_code import bracket_ends
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Span
from transformer_cli.text.lines import has_letter

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FENCE = re.compile(r"(?P<before>[ \t>]*)(?P<fence>`{3,}|~{3,}|:{3,})[ \t]*(?P<info>[^`\r\n]*)")
_TEXT_DIRECTIVE = re.compile(  # of MyST, whose fences hold text
    r"\{(?:note|tip|hint|important|warning|caution|danger|attention|error|seealso|admonition|dropdown|card|grid|sidebar"
    r"|margin|epigraph|tab-set|tab-item|exercise|solution|todo)\b[\w-]*\}"
)
_TITLE = re.compile(r"(?:\{?[\w.-]+\}?)?[ \t]*(?:\[(?P<inside>[^\]\r\n]*)\]|(?P<title>[^{\[\r\n]*))")  # of a container
_OPTION = re.compile(r"[ \t>]*:[\w-]+:(?:[ \t].*)?\s*\Z")  # of a directive
_ITEM = re.compile(  # !!! note "Title" and === "Tab", the text of which is indented; [^1]: note; : definition
    r"(?P<before>[ \t>]*)(?:(?:!!!|\?{3}\+?)[ \t]+[\w ]*|===[!+]?)[ \t]*(?:\"(?P<title>[^\"\r\n]*)\")?[ \t]*\r?\n?\Z"
    r"|(?P<start>[ \t>]*)(?:\[\^[^\]\s]{1,99}\]:|:)[ \t]+(?P<text>\S.*)", re.DOTALL,
)  # fmt: skip
_MODULE = re.compile(r"import\s+[\w{*\"'].*|export\s+(?:const|let|var|default|function|async|class|\{|\*)", re.DOTALL)
_JSX = re.compile(r"</?[a-zA-Z][\w.:-]*(?=[\s/>])|<>|</>|\{")
_IN_TAG = re.compile(r"\"[^\"<]*\"|'[^'<]*'|[{<>]")
_FRONT_MATTER = re.compile(r"(?:---|\+\+\+)[ \t]*\r?\n(?:.*?\n)??(?:---|\+\+\+)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"[ \t-]*(?P<key>[\w.-]+)[ \t]*[:=][ \t]*(?P<quote>[\"']?)(?P<value>.*?)(?P=quote)[ \t]*\r?\n?\Z")
_HELD = re.compile(  # math, roles, Wiki links, attributes, footnotes
    r"\$\$[^$]{1,500}\$\$|\$(?![\s$])(?:(?!\]\()[^$\n]){1,500}(?<![\s\\])\$(?!\d)|\{[\w:.+-]+\}(?=`)|!?\[\[[^\[\]\n]{1,200}\]\](?![(\[])"
    r"|\{:?[ \t]*(?:[#.][\w:.-]+|[\w-]+=(?:\"[^\"]*\"|[^\s{}]*))(?:[ \t]+[^\s{}]+)*[ \t]*\}|\[\^[^\]\s]{1,99}\]"
)
_HEAD = re.compile(r"\[[ xX]\][ \t]+|\[![A-Za-z]+\][+-]?[ \t]*\n?")  # of a task, of an alert
_SPECIAL = "\\`*_[]<>|~$"
_EMPHASIS = ("strong_open", "em_open", "s_open")
_LINE_START = re.compile(r"\A[ \t]*(?:(?=[-+*]\s|#{1,6}\s|>|:{3}|\||(?:={1,}|-{1,})[ \t]*\Z)|\d{1,9}(?=[.)]\s))")


class _Mark(str):
    """A mark of emphasis, such as **, or the end of a link whose text is its label: [text] or [text][]."""

    kind = ""
    """opens, closes, or the label"""


class _State(StateInline):
    """Notes where each token begins."""

    def push(self, *of_token: Any) -> Token:
        token = super().push(*of_token)
        token.meta["at"] = self.pos
        return token


@cache
def _parser(is_mdx: bool) -> MarkdownIt:
    """Returns a parser that finds blocks and, by `_marks`, what is in them."""
    parser = MarkdownIt("commonmark", {"maxNesting": 50}).enable(["table", "strikethrough"])
    parser.disable(["html_block", "code", "html_inline", "autolink"] if is_mdx else [])
    parser.core.ruler.enableOnly(["normalize", "block"])

    def held(state: StateInline, silent: bool) -> bool:
        found = _HELD.match(state.src, state.pos)
        end = found.end() if found else _jsx_end(state.src, state.pos, state.env["braces"]) if is_mdx else 0
        if end and not silent:
            state.push("held" if found else "jsx", "", 0)
        state.pos = end or state.pos
        return end > 0

    def noting_end(rule: Callable[[StateInline, bool], bool], state: StateInline, silent: bool) -> bool:
        is_found = rule(state, silent)
        if is_found and not silent and state.tokens:
            state.tokens[-1].meta.setdefault("end", state.pos)
        return is_found

    parser.inline.ruler.after("text", "jsx" if is_mdx else "held", held)
    parser.inline.ruler2.disable(["fragments_join"])
    names = parser.inline.ruler.get_active_rules()
    for name, rule in zip(names, parser.inline.ruler.getRules(""), strict=True):
        parser.inline.ruler.at(name, partial(noting_end, rule))
    return parser


def _jsx_end(text: str, start: int, braces: Mapping[int, int]) -> int:
    """Returns the end of the JSX tag or expression that begins here; 0 if there is none."""
    if not (found := _JSX.match(text, start)) or found[0] == "{":
        return braces.get(start, 0) if found else 0
    position = start + 1
    while found := _IN_TAG.search(text, position):
        if found[0] in "<>":
            return found.end() * (found[0] == ">")
        position = braces.get(found.start(), found.end())
    return 0


def parse_markdown(
    content: bytes, languages: LanguagePair, settings: TranslationSettings, *, is_mdx: bool = False
) -> ParsedFile:
    """Parse Markdown. Raises DataError if the text cannot be decoded."""
    text, encode = decode_text(content)
    return ParsedFile([parse_text(text, languages, settings, is_mdx=is_mdx)], encode)


def parse_text(
    text: str, languages: LanguagePair, settings: TranslationSettings, *, is_mdx: bool = False, where: str = ""
) -> Document:
    """Parse the text of a Markdown file or cell. where: of the text in its file, before the number of a line."""
    lines, document, done, env = _LINE.findall(text), Document([], []), 0, dict[str, Any]()
    document.conversions.is_enabled = settings.protect and not STAND_IN.search(text)
    starts = [0, *accumulate(map(len, lines))]
    front = found.end() if (found := _FRONT_MATTER.match(text)) else 0
    keys = {"title", "description", *settings.front_matter.split(",")}

    def add(found: Document, start: int, end: int) -> None:
        nonlocal done
        document.parts += [text[done:start], *found.parts]
        document.blocks += found.blocks
        done = end

    for line, start in zip(lines[: bisect_right(starts, front - 1)], starts, strict=False):
        found = _FIELD.match(line)
        if found and found["key"] in keys and found["value"][:1] not in (*">|[{&*",):
            build = Builder(partial(_write_value, found["quote"]))
            build.place = Place(f"{where}{found['key']}")
            build.add(Inline(found["value"], _unescape(found["value"], found["quote"])))
            build.end_block()
            add(build.document, start + found.start("value"), start + found.end("value"))
    parser, is_cell = _parser(is_mdx), False
    for token in parser.parse("".join(_mask(text, lines, front, is_mdx)), env):
        first, last = token.map or (0, 0)
        if token.type == "html_block" and ">" not in lines[first].partition("<")[0]:
            page = parse_page(text[starts[first] : starts[last]], languages[0], languages=languages, line=first + 1)
            document.n_other_language += page.n_other_language
            add(page, starts[first], starts[last])
        elif token.type == "inline" and (spans := _find(token, lines, starts, done, is_cell)):
            builder = _InlineBuilder(text, spans, parser, {**env, "braces": {}}, document.conversions, is_cell)
            builder.build.place = Place(f"{where}line {first + 1}")
            add(builder.document(languages), spans[0][0], spans[-1][1])
        is_cell = token.type in ("th_open", "td_open")
    document.parts.append(text[done:])
    return document


def parse_notebook(content: bytes, languages: LanguagePair, settings: TranslationSettings) -> ParsedFile:
    """Parse the Markdown cells of a Jupyter notebook. Raises DataError for other JSON."""
    text, encode = decode_text(content)
    notebook, escape, cells = load_json(text), escape_like(text), dict[int, list[JsonString]]()
    if not isinstance(notebook, dict) or notebook.get("nbformat") != "4":
        raise DataError("not a notebook of format 4; `jupyter nbconvert --to notebook` converts it")
    for each in json_strings(text):
        found = re.fullmatch(r"cells\.(\d+)\.source(?:\.\d+)?", each.key)
        if found and notebook["cells"][int(found[1])].get("cell_type") == "markdown":
            cells.setdefault(int(found[1]), []).append(each)

    def assemble(*written: str) -> bytes:
        out, done = "", 0
        for strings, new in zip(cells.values(), written, strict=True):
            between = text[strings[0].span[1] : strings[1].span[0]] if len(strings) > 1 else ", "
            lines = LINE.findall(new) if text[: strings[0].span[0]].rstrip().endswith("[") else [new]
            out += text[done : strings[0].span[0]] + between.join(f'"{escape(line)}"' for line in lines)
            done = strings[-1].span[1]
        return encode(out + text[done:])

    sources = {number: "".join(each.value for each in strings) for number, strings in cells.items()}
    documents = [
        parse_text(source, languages, settings, where=f"cell {number + 1}, ") for number, source in sources.items()
    ]
    return ParsedFile(documents, assemble)


def _find(token: Token, lines: Sequence[str], starts: Sequence[int], done: int, is_cell: bool) -> list[Span]:
    """Returns the spans of an inline token's lines in the file; [] if they are not in it."""
    found, first = list[Span](), (token.map or (0, 0))[0]
    pieces = token.content.strip().split("\n") if token.content.strip() else []
    for number, piece in enumerate(pieces, start=first):
        piece, line = piece.strip(), lines[number]
        piece = piece.replace("|", r"\|") if is_cell else piece
        column = line.find(piece, max(0, done - starts[number])) if is_cell else line.rfind(piece)
        if column < 0:
            return []
        is_last = number + 1 == first + len(pieces)
        found.append(
            (starts[number] + column, starts[number] + (column + len(piece) if is_last else len(line.rstrip("\r\n"))))
        )
    return found


class _InlineBuilder:
    """Builds the blocks of a paragraph, heading or cell."""

    def __init__(
        self,
        text: str,
        spans: Sequence[Span],
        parser: MarkdownIt,
        env: dict[str, Any],
        conversions: Conversions,
        is_cell: bool,
    ) -> None:
        self.text, self.spans, self.parser, self.conversions = text, spans, parser, conversions
        self.content = "\n".join(text[start:end] for start, end in spans)
        self.starts = [0, *accumulate(end - start + 1 for start, end in spans)]
        """of the lines in `content`"""
        env["braces"] = bracket_ends(self.content, "{") if "{" in self.content else {}
        self.tokens, self.env = _tokens(self.content, parser, env), env
        self.build = Builder(self.write)
        self.escapes, self.plain = dict[str, str](), ""
        self.escapes_starts = not any(map(_LINE_START.match, self.content.split("\n")))
        self.is_cell = is_cell

    def raw(self, start: int, end: int) -> str:
        """Returns a part of the content as the file has it."""
        first, last = (
            self.spans[index][0] - self.starts[index] + offset
            for offset in (start, end)
            for index in [bisect_right(self.starts, offset, hi=len(self.spans)) - 1]
        )
        return self.text[first:last]

    def document(self, languages: LanguagePair) -> Document:
        inlines = parse_inlines([*self.inlines()], str, languages)
        for each in inlines:
            each.text = " " if each.kind == "proportional" else each.text
        self.build.add_inlines(inlines)
        self.build.end_block()
        return self.build.document

    def inlines(self) -> Iterator[Inline]:
        """Yield the content as text and markup."""
        content, position = self.content, 0
        if head := _HEAD.match(content):
            yield Inline(self.raw(0, head.end()), kind="block_end")
            position = head.end()
        for start, end, token in _marks(self.tokens):
            if start < position:
                continue
            if token.type == "text_special" and token.content == self.raw(start, end):  # a backslash
                continue
            yield from self.text_between(position, start)
            position, raw, (name, _, edge) = end, self.raw(start, end), token.type.rpartition("_")
            if token.type in ("softbreak", "hardbreak"):
                is_end = token.type == "hardbreak" or self.is_beside_tag(start, end)
                yield Inline(raw, kind="block_end" if is_end else "proportional")
            elif token.type == "text_special":
                self.escapes[token.content] = raw
                yield Inline(raw, token.content)
            elif token.type == "jsx":
                tag = f"<{raw[1 + (raw[1] == '/') : -1].split()[0]}" if len(raw) > 3 else raw
                is_open = raw[0] == "<" and not raw.endswith("/>") and raw[1] != "/"
                yield Inline(raw, opens=tag if is_open else "", closes=tag if raw[1] == "/" else "")
            elif token.type == "image":
                yield self.image(start, end, token)
            elif edge == "open":
                yield Inline(_mark(raw, "opens") if name != "link" else raw, opens=name)
            elif edge == "close" and token.markup != "autolink":
                label = content[token.meta["label"] : start] if raw in ("]", "][]") else ""
                yield Inline(_mark(raw, label or "closes") if label or name != "link" else raw, closes=name)
            elif end == len(content) and raw.startswith("{"):  # attributes of a heading
                yield Inline(raw, kind="block_end")
            else:
                yield Inline(raw, self.conversions.hold(raw))
        yield from self.text_between(position, len(content))
        escapes = {char: f"\\{char}" for char in _SPECIAL if char not in self.plain} | {
            char: raw
            for char, raw in self.escapes.items()
            if len(char) == 1 and (char in _SPECIAL or char not in self.plain)
        }
        self.table = str.maketrans(escapes | ({"|": r"\|"} if self.is_cell else {}))

    def text_between(self, start: int, end: int) -> Iterator[Inline]:
        self.plain += self.content[start:end]
        for each in re.compile(r"\n|[^\n]+").finditer(self.content, start, end):  # the lines of a tag
            yield Inline(self.raw(*each.span()), each[0])

    def is_beside_tag(self, start: int, end: int) -> bool:
        """Whether the end of a line is beside a tag that cannot be inside a sentence."""
        before = self.content[max(0, start - 9) : start].rstrip()
        if "jsx" in self.parser.inline.ruler.get_active_rules():
            return before.endswith((">", "}")) or self.content[end : end + 1] in ("<", "{")
        return re.search(r"<br ?/?>\Z", before) is not None

    def image(self, start: int, end: int, token: Token) -> Inline:
        """Returns an image, whose alternative text is a block."""
        after = start + 2 + len(token.content)
        self.plain += token.content
        if self.content[after:end] in ("]", "][]") or not has_letter(token.content):
            return Inline(self.raw(start, end))
        alt = Builder(self.write)
        alt.place = OF_TAG
        alt.add(Inline(self.raw(start + 2, after), token.content))
        alt.end_block()
        return Inline(self.raw(start, start + 2), tail=[*alt.document.parts, self.raw(after, end)])

    def write(self, parts: Sequence[str]) -> str:
        """Returns a translated block as Markdown in which its emphasis is still emphasis."""
        n_opened = sum(getattr(each, "kind", "") == "opens" for each in parts)
        joined = self.join(parts)
        whole = self.conversions.restore(joined)
        if n_opened and n_opened != sum(each.type in _EMPHASIS for each in _tokens(whole, self.parser, self.env)):
            return self.join(parts, is_spaced=True)
        return joined

    def join(self, parts: Sequence[str], *, is_spaced: bool = False) -> str:
        """Returns the parts of a block as Markdown. is_spaced: with spaces around marks of emphasis."""
        out, pending, links, is_line_start = list[str](), "", list[int](), True
        last = ""
        for each in parts:
            kind = getattr(each, "kind", "")
            if not isinstance(each, Unescaped) and "\n" in each and not each.strip("\r\n\t\\ >"):
                pending = "" if is_line_start else each
                continue
            text = each.translate(self.table) if isinstance(each, Unescaped) else each
            if pending and text.strip() and kind in ("", "opens"):
                out[-1:] = [re.sub(r" {2,}\Z", " ", one) for one in out[-1:]]  # two would be a hard break
                out.append(pending)
                pending, is_line_start, text = "", True, text.lstrip() if isinstance(each, Unescaped) else text
            if isinstance(each, Unescaped) and is_line_start and self.escapes_starts:
                text = _LINE_START.sub(lambda found: f"{found[0]}\\", text, count=1)
            before, after = getattr(last, "kind", ""), text[:1]
            is_open = kind == "opens" != before and last and not last[-1].isspace()
            if is_spaced and (is_open or (before == "closes" != kind and after and not after.isspace())):
                out.append(" ")
            if kind not in ("", "opens", "closes"):
                start = links.pop() if links else 0
                text = each if "".join(out[start:]) == kind else f"][{kind}]"
            out.append(text)
            if each == "[" and not isinstance(each, Unescaped):
                links.append(len(out))
            elif kind == "" and each.startswith("](") and links:
                links.pop()
            is_line_start, last = is_line_start and not text.strip(), each if text else last
        return "".join(out)


def _tokens(content: str, parser: MarkdownIt, env: dict[str, Any]) -> list[Token]:
    """Returns the inline tokens of a text."""
    state, last, shift = _State(content, parser, env, []), -1, 0
    parser.inline.tokenize(state)
    for token in state.tokens:
        if token.type == "text" and "at" in token.meta:  # of emphasis; several are pushed at one place
            shift = shift if token.meta["at"] == last else 0
            last = token.meta["at"]
            token.meta.update(at=last + shift, end=last + shift + len(token.content))
            shift += len(token.content)
    for rule in parser.inline.ruler2.getRules(""):
        rule(state)
    return state.tokens


def _marks(tokens: Sequence[Token]) -> Iterator[tuple[int, int, Token]]:
    """Yield the start and end of the tokens that are markup, from left to right."""
    labels = list[int]()
    for token in tokens:
        start, end = token.meta.get("at", 0), token.meta.get("end", 0)
        if token.type == "link_open":
            start, end = (start, start) if token.markup == "autolink" else (start - 1, start)
            labels.append(end)
        elif token.type == "link_close":
            token.meta["label"] = labels.pop()
        elif token.type.startswith("strong"):
            start, end = (start - 1, end) if token.nesting > 0 else (start, end + 1)
        if token.type not in ("text", "html_inline") and start < end:
            yield start, end, token


def _mark(raw: str, kind: str) -> str:
    mark = _Mark(raw)
    mark.kind = kind
    return mark


def _unescape(value: str, quote: str) -> str:
    with suppress(ValueError):
        value = str(json.loads(f'"{value}"')) if quote == '"' else value
    return value.replace("''", "'") if quote == "'" else value


def _write_value(quote: str, parts: Sequence[str]) -> str:
    """Returns a value of front matter, in quotation marks if it needs them."""
    text = "".join(parts)
    if quote == "'":
        return text.replace("'", "''")
    quoted = json.dumps(text, ensure_ascii=False)
    is_plain = not quote and not re.search(r"\A[^\w(.]|: |:\Z| #|\A[\d.]+\Z", text)
    return text if is_plain else quoted[1:-1] if quote else quoted


def _mask(text: str, lines: Sequence[str], front: int, is_mdx: bool) -> Iterator[str]:
    """Yield the lines as markdown-it understands them; the text in them stays, so that it is found again."""
    braces = bracket_ends(text, "{", r"\n[ \t]*(?:```|~~~)") if is_mdx else {}
    code, opened, skip, offset, has_options = "", list[str](), front, 0, False
    for line in lines:
        start, offset = offset, offset + len(line)
        fence, item = _FENCE.match(line), _ITEM.match(line)
        has_options = has_options and _OPTION.match(line) is not None
        if start < skip:
            line = text[skip:offset] or "\n"
        elif code == "$$":
            code, line = ("" if "$$" in line else code), "\n"
        elif code:
            is_closing = fence and fence["fence"].startswith(code) and not fence["info"].strip()
            code = "" if is_closing else code
        elif fence and (fence["fence"][0] == ":" or fence["fence"] in opened or _TEXT_DIRECTIVE.match(fence["info"])):
            title = _TITLE.match(fence["info"])
            has_title = not fence["info"].startswith("{") or _TEXT_DIRECTIVE.match(fence["info"])
            named = (title["inside"] or title["title"] or "").strip() if title and has_title else ""
            if fence["info"].strip():
                opened.append(fence["fence"])
                has_options = True
            elif fence["fence"] in opened:
                opened.remove(fence["fence"])
            line = f"{fence['before']}# {named}\n" if has_letter(named) else f"{fence['before']}\n"
        elif has_options:
            line = "\n"
        elif fence:
            code = fence["fence"]
        elif line.lstrip("> \t").startswith("$$") and line.count("$$") == 1:
            code, line = "$$", "\n"
        elif item:
            text_ = f"# {item['title'] or ''}\n" if item["text"] is None else item["text"]
            line = f"{item['before'] or item['start'] or ''}-   {text_}"
        elif _MODULE.match(line) and (is_mdx or '"' in line or "'" in line):
            skip = _module_end(text, start, braces)
            line = text[skip:offset] or "\n"
        elif is_mdx and (skip := _jsx_end(text, start + len(line) - len(line.lstrip()), braces)) > offset:
            line = "\n"
        yield line


def _module_end(text: str, start: int, braces: Mapping[int, int]) -> int:
    """Returns the end of an import or export: the next blank line that is not in braces."""
    for found in re.compile(r"\{|\n[ \t\r]*\n").finditer(text, start):
        if found.start() >= start:
            if found[0] != "{":
                return found.start() + 1
            start = braces.get(found.start(), start)
    return len(text)
