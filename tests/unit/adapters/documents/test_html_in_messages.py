"""HTML in messages of catalogues and in segments of XLIFF is read as in pages, and code of templates stays whole."""

import html
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.translators import backwards
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
    return [each.text for each in file.blocks], re.sub(
        r"\\(.)", lambda each: {"n": "\n", "t": "\t"}.get(each[1], each[1]), found
    )


def segment(source: str, translate: Translate = same) -> tuple[list[str], str]:
    """As `page`, for a segment of XLIFF."""
    unit = f"<trans-unit><source>{html.escape(source, quote=False)}</source></trans-unit>"
    file = parse_xliff(f"<xliff>{unit}</xliff>".encode(), ("de", "en"))
    found = file.render([translate(each) for each in file.blocks]).decode()
    return [each.text for each in file.blocks], html.unescape(re.split("<target[^>]*>|</target>", found)[1])


READERS = [page, message, segment]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<!DOCTYPE html><!-- Ein --><style>p > b</style><script>'<b>'</script><p>Hund</p>", ["Hund"]),
        ("Nimm <code>rm -rf</code> oder <b translate='no'>Katze</b> da<pre>a b</pre>", ["Nimm oder da"]),
        ("<img alt=\"Ein 'Hund'\" title='Ein \"Ball\"'><p>Ein <a %s>Hund</a></p>",
         ["Ein 'Hund'", 'Ein "Ball"', "Ein Hund"]),
        ("<code>a <i translate=yes>Hund</i></code><span {{ b > 'c' }}>Ball</span>", ["Hund", "Ball"]),
        ("<my-card>Ein<p>Hund</p></my-card><{{ tag }} class='x'>Ball</{{ tag }}>", ["Ein", "Hund", "Ball"]),
        ("{% if x %}<b>Ein Mann</b> schläft{% else %}<b>Eine Frau</b> kocht{% endif %}",
         ["Ein Mann schläft", "Eine Frau kocht"]),
        ("Ein {% trans 'a' %} {% own b %}Hund{% endown %} da", ["Ein", "Hund", "da"]),
        ("Hund{% if n > 1 %}e{% endif %} und {{ a|f('b') }} {% url 'c' %} da", ["Hund und da"]),
        ("Hund{% if n > 1 %}e <b>am</b> Tag{% endif %} und Katz{% if n %}e{% else %}<i>en</i>{% endif %}",
         ["Hund und Katz"]),
        ("Hund{% if n %}e <b>am{% endif %} Tag</b> {% if n %}Groß<i>e{% endif %}n</i>", ["Hunde am", "Tag", "Großen"]),
        ("Ein{% if n %}e</p><p>am Tag{% if m %}e <b>a</b>{% endif %}{% endif %}s", ["Eine", "am Tag", "s"]),
        ("<% if (a > b) { %>Ein Hund.<% } else { %>Ein Ball.<% } %>", ["Ein Hund.", "Ein Ball."]),
        ("{{#if x}}Ein Hund{{else}}Ein Ball{{/if}}<?php foreach ($a as $b): ?>rot<?php endforeach ?>",
         ["Ein Hund", "Ein Ball", "rot"]),
        ("<p title=\"{% if x %}Ein Hund{% else %}Ein Ball{% endif %} {{ b|f('c') }}\">", ["Ein Hund", "Ein Ball"]),
    ],
)  # fmt: skip
def test_html_of_any_format_is_read_alike(
    read: Callable[..., tuple[list[str], str]], source: str, expected: list[str]
) -> None:
    assert read(source) == (expected, source)
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


@pytest.mark.parametrize(
    ("source", "flagged"),
    [
        ("Ein {% if x %}roter{% else %}blauer{% endif %} Hund", ["roter", "Hund"]),
        ("Ein Hund.{% if x %} Ein Ball.{% endif %} Rot", []),
        ("<p>{% if x %}Ein Hund{% else %}Ein Ball{% endif %}</p>Rot", []),
        ("Ein Hund{% if n > 1 %}e{% endif %}", ["Ein Hund"]),
        ("Ein Hund{% if n > 1 %}e <b>am{% endif %} Tag</b>", ["Ein Hunde am", "Tag"]),
        ("{% block a %}Ein Hund{% endblock %}<p>{% if x %}Rot{% endif %}</p>", []),
    ],
)
def test_branch_inside_a_sentence_is_to_be_checked(source: str, flagged: list[str]) -> None:
    assert [each.text for each in parse_html(source).blocks if each.has_branch] == flagged


PIECES = [
    "Ein ",
    "Hund",
    "e",
    ". ",
    "<b>",
    "</b>",
    "<p>",
    "{% if a > b %}",
    "{% else %}",
    "{% endif %}",
    "{{ a }}",
    '"',
]
PIECES += ["<code>", "</code>", "<a title='Ein {{ b }}'>", "<!-- ", " -->", "<% a %>", "< ", "<a b", "\n", "\\"]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.sampled_from([message, segment]))
def test_message_unchanged_text_gives_the_same_message(source: str, read: Callable[..., tuple[list[str], str]]) -> None:
    assert read(source)[1] == source
