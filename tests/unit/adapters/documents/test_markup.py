"""HTML is parsed into blocks and written again: nothing is lost, and inline elements follow their words."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import read_tables
from transformer_cli.adapters.documents.blocks import Block
from transformer_cli.adapters.documents.markup import parse_html
from transformer_cli.adapters.documents.parsers import PARSERS
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Link, word_links
from transformer_cli.text.sentences import sentence_spans

Translated = tuple[str, list[Link]]

MARKUP = re.compile(r"<!--.*?-->|<[a-zA-Z/!?][^>]*>", re.DOTALL)


def words(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"[^ ]+", text)]


def same(block: Block) -> Translated:
    spans = [match.span() for match in re.finditer(r"\w+|[^\w ]", block.text)]
    return block.text, list(zip(spans, spans, strict=True))


def backwards(block: Block) -> Translated:
    text = " ".join(reversed(block.text.split(" ")))
    return text, list(zip(reversed(words(block.text)), words(text), strict=True))


def unlinked(block: Block) -> Translated:
    return block.text.upper(), []


def texts(html: str) -> list[str]:
    return [block.text for block in parse_html(html).blocks]


TABLES = read_tables(Path(__file__).with_name("html.txt"))
FRAGMENTS = Path(__file__).with_name("fragments.txt").read_text(encoding="utf-8").replace("\\n", "\0").splitlines()[1:]


@pytest.mark.parametrize("html", ["", " \n ", *(each.replace("\0", "\n") for each in FRAGMENTS)])
def test_render_html_unchanged_text_gives_the_same_page(html: str) -> None:
    document = parse_html(html)
    found = document.render([same(block) for block in document.blocks])
    assert found == html


@pytest.mark.parametrize(("html", "expected"), TABLES["backwards"])
def test_render_html_elements_surround_the_linked_words(html: str, expected: str) -> None:
    document = parse_html(html)
    found = document.render([backwards(block) for block in document.blocks])
    assert found.replace(" <img src=x>", "<img src=x>").strip() == expected.replace(" <img src=x>", "<img src=x>")


@pytest.mark.parametrize(("html", "expected"), TABLES["other languages"])
def test_parse_html_text_in_another_language_is_kept(html: str, expected: str) -> None:
    document = parse_html(html, ("de", "it"))
    assert "|".join(block.text for block in document.blocks) == expected
    assert document.is_mostly_other == html.startswith("<body")
    assert document.render([same(block) for block in document.blocks]) == html.replace("de-AT", "it")


@pytest.mark.parametrize(("html", "expected"), TABLES["blocks"])
def test_parse_html_unknown_elements_and_touching_siblings_may_be_blocks(html: str, expected: str) -> None:
    assert "|".join(texts(html)) == expected
    document = parse_html(html)
    assert document.render([same(block) for block in document.blocks]).replace("Ä", "&Auml;") == html


@pytest.mark.parametrize(("html", "expected"), TABLES["borders"])
def test_block_borders_are_where_an_element_touches_two_sentences(html: str, expected: str) -> None:
    (block,) = parse_html(html).blocks
    spans = sentence_spans(block.text, "de", block.borders)
    assert "|".join(block.text[start:end] for start, end in spans) == (expected or block.text)


def test_render_html_element_surrounds_its_longest_linked_span() -> None:
    document = parse_html("Er <b>steht früh auf</b>.")
    text = "He gets up early."
    source, target = [(0, 2), (3, 8), (17, 18), (9, 13), (14, 17)], [(0, 2), (3, 7), (8, 10), (11, 13), (13, 16)]
    assert document.render([(text, list(zip(source, target, strict=True)))]) == "He gets up <b>early</b>."


def test_word_links_finds_a_normalised_word() -> None:
    source = "Ma\N{COMBINING DIAERESIS}d\N{SOFT HYPHEN}chen ja"
    links = [((0, 9), (0, 4)), ((10, 12), (5, 8))]
    assert word_links(source, ["mädchen", "ja"], "girl yes", ["girl", "yes"], [0, 1]) == links
    held = [((9, 12), (4, 7))]  # characters right after a word do not belong to it
    found = word_links(source.replace(" ", "{x} "), ["mädchen", "ja"], "girl{x} yes", ["girl", "yes"], [0, 1], held)
    assert found == [links[0], *held, ((13, 15), (8, 11))]


def test_parse_html_attribute_values_of_an_end_tag_are_skipped() -> None:
    assert texts("""<div translate=no>Ein</b x="<i translate=yes>">Hund</i></div>""") == []


@pytest.mark.parametrize(
    "html",
    [
        *("<p>" + "Ein <b>Hund</b> da. " * 5_000 + "</p>", "<b>" * 10_000 + "Hund" + "</b>" * 10_000),
        *("<div>" * 10_000 + "Hund" + "</div>" * 10_000, "<i><b>a</b> " * 1_000, "<a x=" + "=" * 100_000),
        *(each * 20_000 for each in ("<!-- ", "<a ", "<a x='", "<code>", "<script>", "</p", "<![", "<% {{& <?ph")),
    ],
)
def test_render_html_long_deep_or_broken_page_is_unchanged(html: str) -> None:
    document = parse_html(html)
    assert document.render([same(block) for block in document.blocks]) == html


def test_parse_html_unclosed_elements_appear_once() -> None:
    html = "<b>Ein Hund läuft am Strand, und eine Frau mit einem Hut steht daneben und lacht laut. " * 4_000
    document = parse_html(html)
    n_elements, n_blocks = sum(len(block.elements) for block in document.blocks), len(document.blocks)
    is_same = document.render([same(block) for block in document.blocks]) == html
    assert is_same  # a bare value: pytest would take minutes to show the documents
    assert n_blocks > 3_900
    assert n_elements <= n_blocks + html.count("<")


PIECES = re.split(
    "[|]",
    "Ein| | Hund |\n|&amp;|&lt;b>|<|ä\xa0|<b>|</b>|<i>|</i>|<a href='>'>|</a>|<p>|</p>|<br>|<img alt='Ein Hund'>|"
    "<!-- Ein -->|<code>Ein <b></code>|<script>'<b>'</script>|<td>|<span title=Hund>|</span>|"
    "<span translate=no>Hund</span>|<pre>\n</pre>|</x>|<span/>",
)


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.sampled_from([same, backwards, unlinked]))
def test_render_html_keeps_all_markup_of_any_page(html: str, translate: object) -> None:
    document = parse_html(html)
    translations = [translate(block) for block in document.blocks]  # type: ignore[operator]
    result = document.render(translations)
    written, wanted = texts(result), [text for text, _ in translations]  # white space is that of the new position
    assert sorted("".join(text.split()) for text in written) == sorted("".join(text.split()) for text in wanted)
    without_texts = [re.sub("(alt|title)=(['\"]?).*?\\2(?=>)", "", each) for each in MARKUP.findall(html)]
    found = [re.sub("(alt|title)=(['\"]?).*?\\2(?=>)", "", each) for each in MARKUP.findall(result)]
    assert Counter(found) == Counter(without_texts)


@given(st.text(max_size=200))
def test_parse_html_accepts_any_text(text: str) -> None:
    document = parse_html(text)
    for translate in (same, backwards, unlinked):
        document.render([translate(block) for block in document.blocks])


META, XML = '<meta charset="{}">', '<?xml version="1.0" encoding="{}"?>'
HTTP = "<META content='text/html; charset={}' http-equiv=content-type>"


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (META.format("ISO-8859-1"), "cp1252"),  # as browsers read it
        (HTTP.format("windows-1250"), "cp1250"),
        (XML.format("iso-8859-1"), "latin-1"),
        (f"<!--{META.format('koi8-r')}--><meta charset=iso-8859-15>", "iso-8859-15"),
        *(("\ufeff" + META.format("iso-8859-1"), "utf-8"), (META.format("x-nothing"), "utf-8")),
        *((META.format("utf-16"), "utf-8"), (" " * 1_024 + META.format("iso-8859-1"), "utf-8")),
    ],
)  # fmt: skip
def test_html_is_written_in_its_declared_encoding(head: str, encoding: str) -> None:
    opened = PARSERS["html"](f"{head}<p>Ärger".encode(encoding), ("de", "en"), TranslationSettings())
    assert [block.text for block in opened.blocks] == ["Ärger"]
    assert opened.render([("für ł", [])]) == f"{head}<p>für ł".encode(encoding, "xmlcharrefreplace")


@pytest.mark.parametrize("encoding", ["utf-8", "hex", "euc-jp", "idna"])
def test_html_in_another_than_its_declared_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(DataError, match="save the document in UTF-8"):
        PARSERS["html"](META.format(encoding).encode() + b"<p>\xff", ("de", "en"), TranslationSettings())
