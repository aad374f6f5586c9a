"""Parses Markdown and MDX: paragraphs, headings, cells of tables and HTML become blocks; all else stays byte for byte.

markdown-it finds the blocks, see `as_commonmark`. The inside of a block is found again in its lines, see `InlineText`.
Line ends inside a paragraph keep their relative place.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any

from transformer_cli.adapters.corpora.json_messages import JsonString, json_strings, load_json
from transformer_cli.adapters.documents.blocks import Builder, Document, Inline, Place, escaping_writer
from transformer_cli.adapters.documents.json_text import escape_like
from transformer_cli.adapters.documents.markdown_dialects import as_commonmark
from transformer_cli.adapters.documents.markdown_inlines import InlineText, markdown_parser
from transformer_cli.adapters.documents.markup import parse_page
from transformer_cli.adapters.documents.parsed_file import LINE, LanguagePair, ParsedFile, decode_text
from transformer_cli.adapters.terminology.placeholders import STAND_IN
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Span

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FRONT_MATTER = re.compile(r"(?:---|\+\+\+)[ \t]*\r?\n(?:.*?\n)??(?:---|\+\+\+)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_FIELD = re.compile(
    r"\s*(?:-\s+)?(?P<key>\w[\w.-]*)\s*[:=]\s*(?P<quote>[\"']?)(?P<value>.*?)(?P=quote)(?:\s{1,99}#.*)?\Z"
)
_NEEDS_QUOTES = re.compile(  # in YAML
    r"\A[-?:,\[\]{}#&*!|>'\"%@`~=<]|: |:\Z| #|\A(?:[\d.]+|yes|no|on|off|true|false|null|y|n)\Z", re.IGNORECASE
)
_QUOTES: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {  # how to read and to write values in them
    '"': (lambda value: json.loads(f'"{value}"'), lambda text: json.dumps(text, ensure_ascii=False)[1:-1]),
    "'": (lambda value: value.replace("''", "'"), lambda text: text.replace("'", "''")),
    "": (str, lambda text: json.dumps(text, ensure_ascii=False) if _NEEDS_QUOTES.search(text) else text),
}


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
    lines, build, env, done, is_cell = _LINE.findall(text), Builder("".join), dict[str, Any](), 0, False
    document, starts = build.document, [0, *accumulate(map(len, lines))]
    document.conversions.is_enabled = settings.protect and not STAND_IN.search(text)
    n_front = bisect_left(starts, front.end()) if (front := _FRONT_MATTER.match(text)) else 0
    keys = {"title", "description", *settings.front_matter.split(",")}
    for start, line in zip(starts, lines[:n_front], strict=False):
        found = _FIELD.match(line.rstrip())
        if found and found["key"] in keys and (found["quote"] or found["value"][:1] not in (*">|[{&*\"'",)):
            read, write = _QUOTES[found["quote"]]
            with suppress(ValueError):
                value = Inline(found["value"], read(found["value"]))
                build.end_block(text[done : start + found.start("value")])
                build.place, build.write = Place(f"{where}{found['key']}"), escaping_writer(write)
                build.add(value)
                done = start + found.end("value")
    body = "".join(line.rstrip("\r\n") + "\n" for line in lines[n_front:])
    for token in markdown_parser(is_mdx).parse("\n" * n_front + as_commonmark(body, is_mdx), env):
        first, last = token.map or (0, 0)
        if token.type == "html_block" and ">" not in lines[first].partition("<")[0]:
            page = parse_page(text[starts[first] : starts[last]], languages[0], languages=languages, line=first + 1)
            build.end_block(text[done : starts[first]])
            document.parts += page.parts
            document.blocks += page.blocks
            document.n_other_language += page.n_other_language
            done = starts[last]
        elif token.type == "inline" and (spans := _find(token.content, lines, starts, first, done, is_cell)):
            build.end_block(text[done : spans[0][0]])
            content = "\n".join(text[start:end] for start, end in spans)
            line_ends = (text[end:start] for (_, end), (start, _) in pairwise(spans))
            inside = InlineText(content, line_ends, env, document.conversions, is_mdx)
            build.place, build.write = Place(f"{where}line {first + 1}"), inside.write
            build.add_inlines(inside.parse(languages))
            done = spans[-1][1]
        is_cell = token.type in ("th_open", "td_open")
    build.end_block(text[done:])
    return document


def parse_notebook(content: bytes, languages: LanguagePair, settings: TranslationSettings) -> ParsedFile:
    """Parse the Markdown cells of a Jupyter notebook. Raises DataError for other JSON."""
    text, encode = decode_text(content)
    notebook, escape, cells = load_json(text), escape_like(text), dict[int, list[JsonString]]()
    listed = notebook.get("cells") if isinstance(notebook, dict) and notebook.get("nbformat") == "4" else None
    if not isinstance(listed, list):
        raise DataError("not a notebook of format 4; `jupyter nbconvert --to notebook` converts it")
    kinds = {number: isinstance(each, dict) and each.get("cell_type") for number, each in enumerate(listed)}
    for each in json_strings(text):
        found = re.fullmatch(r"cells\.(\d+)\.source(?:\.\d+)?", each.key)
        if found and kinds.get(int(found[1])) == "markdown":
            cells.setdefault(int(found[1]), []).append(each)
    for one, other in (pair for strings in cells.values() for pair in pairwise(strings)):
        if text[one.span[1] : other.span[0]].strip() != ",":
            raise DataError("not a notebook: a cell has two sources, or one that is not text")

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


def _find(
    content: str, lines: Sequence[str], starts: Sequence[int], first: int, done: int, is_cell: bool
) -> list[Span]:
    """Returns the spans of a paragraph's lines in the file; [] if they are not in it. done: where it can begin."""
    spans = list[Span]()
    for number, piece in enumerate(map(str.strip, content.strip().split("\n")), start=first):
        piece, line, start = piece.replace("|", r"\|") if is_cell else piece, lines[number], starts[number]
        column = line.find(piece, max(0, done - start)) if is_cell else line.rfind(piece)
        if not piece or column < 0 or (is_cell and piece.count("`") % 2):  # half of `a | b`, which some read as code
            return []
        spans[-1:] = [(start, starts[number - 1] + len(lines[number - 1].rstrip("\r\n"))) for start, _ in spans[-1:]]
        spans.append((start + column, start + column + len(piece)))
    return spans
