"""HTML in messages of catalogues and in segments of XLIFF is read as in pages, and code of templates stays whole."""

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.translators import backwards
from tables import read_tables
from transformer_cli.adapters.documents.blocks import Block
from transformer_cli.adapters.documents.markup import parse_html
from transformer_cli.adapters.documents.po import parse_po
from transformer_cli.adapters.documents.xliff import parse_xliff
from transformer_cli.text.alignment import Link

Translate = Callable[[Block], tuple[str, list[Link]]]


def same(block: Block) -> tuple[str, list[Link]]:
    return block.text, []


def page(source: str, translate: Translate = same) -> tuple[list[str], str]:
    """Returns the texts of a page, and the page translated."""
    document = parse_html(source)
    return [each.text for each in document.blocks], document.render([translate(each) for each in document.blocks])


def message(source: str, translate: Translate = same) -> tuple[list[str], str]:
    """As `page`, for a message of a catalogue."""
    escaped = source.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n").replace("\t", r"\t")
    file = parse_po(f'msgid "{escaped}"\nmsgstr ""\n'.encode(), ("de", "en"))
    found = file.render([translate(each) for each in file.blocks]).decode().partition("msgstr ")[2]
    found = "".join(line[1:-1] for line in found.splitlines())
    unescaped = re.sub(r"\\(.)", lambda each: {"n": "\n", "t": "\t"}.get(each[1], each[1]), found)
    return [each.text for each in file.blocks], unescaped


def segment(source: str, translate: Translate = same) -> tuple[list[str], str]:
    """As `page`, for a segment of XLIFF."""
    unit = f"<trans-unit><source>{html.escape(source, quote=False)}</source></trans-unit>"
    file = parse_xliff(f"<xliff>{unit}</xliff>".encode(), ("de", "en"))
    found = file.render([translate(each) for each in file.blocks]).decode()
    return [each.text for each in file.blocks], html.unescape(re.split("<target[^>]*>|</target>", found)[1])


TABLES = read_tables(Path(__file__).with_name("html.txt"))


@pytest.mark.parametrize("read", [page, message, segment])
@pytest.mark.parametrize(("source", "expected"), TABLES["in messages"])
def test_html_of_any_format_is_read_alike(
    read: Callable[..., tuple[list[str], str]], source: str, expected: str
) -> None:
    assert read(source) == (expected.split("|"), source)
    found = read(source, backwards)[1]
    markup = re.compile(r"<%.*?%>|<\?.*?\?>|\{%.*?%\}|\{\{.*?\}\}|</?[a-z]+|<(?:code|pre|style).*?<")
    assert sorted(markup.findall(found)) == sorted(markup.findall(source))


@pytest.mark.parametrize("read", [message, segment])
@pytest.mark.parametrize(
    "source", ["<input file> a<b c>d", "a < b <3 <", "ein <name der datei> <!-- rot", "a <b und <c", 'x <y z="rot']
)
def test_message_with_a_sign_that_begins_no_tag_is_text(
    read: Callable[..., tuple[list[str], str]], source: str
) -> None:
    assert read(source) == ([source], source)


@pytest.mark.parametrize(("source", "flagged"), TABLES["branches"])
def test_branch_inside_a_sentence_is_to_be_checked(source: str, flagged: str) -> None:
    assert "|".join(each.text for each in parse_html(source).blocks if each.has_branch) == flagged


PIECES = ["Ein ", "Hund", "e", ". ", "<b>", "</b>", "<p>", "{% if a > b %}", "{% else %}", "{% endif %}", "{{ a }}"]
PIECES += ["<code>", "</code>", "<a title='Ein {{ b }}'>", "<!-- ", " -->", "<% a %>", "< ", "<a b", "\n", "\\", '"']


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.sampled_from([message, segment]))
def test_message_unchanged_text_gives_the_same_message(source: str, read: Callable[..., tuple[list[str], str]]) -> None:
    assert read(source)[1] == source
