"""HTML is parsed into blocks and written again: nothing is lost, and inline elements follow their words."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


FRAGMENTS = Path(__file__).with_name("fragments.txt").read_text(encoding="utf-8").replace("\\n", "\0").splitlines()[1:]


@pytest.mark.parametrize("html", ["", " \n ", *(each.replace("\0", "\n") for each in FRAGMENTS)])
def test_render_html_unchanged_text_gives_the_same_page(html: str) -> None:
    document = parse_html(html)
    found = document.render([same(block) for block in document.blocks])
    assert found == html


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>Ein <b>roter</b> Hund</p>", "<p>Hund <b>roter</b> Ein</p>"),
        ("<b>Ein <i>roter</i></b> Hund", "Hund <b><i>roter</i> Ein</b>"),
        ("<li><a href=x>Ein Hund</a></li>", "<li><a href=x>Hund Ein</a></li>"),
        ("Ein <img src=x> Hund", "<img src=x> Hund Ein"),  # before the same word
        ("Hund<img src=x> ein", "ein Hund<img src=x>"),  # after the same word
        ("Nimm <code>a b</code> da", "<code>a b</code> da Nimm"),
        ("a &lt; b &amp;&#99;&nbsp;&auml; < d", "d &lt; &amp;c\xa0ä b &lt; a"),
        ("<p>a\n   b</p>\n\n<p>c\td</p>", "<p>b a</p>\n\n<p>d c</p>"),
        ("<img alt='a &quot;b\"' title=c>", '<img alt=\'"b" a\' title="c">'),
        ('<input placeholder="a b" value="a b">', '<input placeholder="b a" value="a b">'),
        ('<input type=submit value="a b">', '<input type=submit value="b a">'),
        ('<button aria-label="a b">c d</button>', '<button aria-label="b a">d c</button>'),
        ('<th abbr="a b">c d</th>', '<th abbr="b a">d c</th>'),
        ("<iframe lang=x title='a b'>c d</iframe>", "<iframe lang=x title='b a'>c d</iframe>"),
        ("<textarea translate=no placeholder='a b'>c d</textarea>",) * 2,
        ("a <svg aria-label='c d'>e f</svg> b", "<svg aria-label='d c'>e f</svg> b a"),
        ("<meta name=Description content='a b'>", "<meta name=Description content='b a'>"),
        ("<meta property='og:title' content='a b'>", "<meta property='og:title' content='b a'>"),
        ("<meta name=viewport content='a b'>",) * 2,
        ("<a title='a b' href='c d'>e</a>", "<a title='b a' href='c d'>e</a>"),
        ("<pre title='a b'>a b</pre>", "<pre title='a b'>a b</pre>"),
        ("<p>a b<br>c d", "<p>b a<br>d c"),
        ("<p dir=rtl>رجل <b>يقرأ</b> كتابًا</p>", "<p dir=rtl>كتابًا <b>يقرأ</b> رجل</p>"),
        ("<b>Hu</b>nd ein", "ein <b>Hund</b>"),
        ("<p>a <time>b</time> c</p>", "<p>c <time>b</time> a</p>"),
        ("<td>1 2<td title='1 2'>3,50 €<li>| .", "<td>1 2<td title='1 2'>3,50 €<li>| ."),  # without a letter
    ],
)
def test_render_html_elements_surround_the_linked_words(html: str, expected: str) -> None:
    document = parse_html(html)
    found = document.render([backwards(block) for block in document.blocks])
    assert found.replace(" <img src=x>", "<img src=x>").strip() == expected.replace(" <img src=x>", "<img src=x>")


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>Ein <g id='1'>roter Ball</g> <x id='2'/>rollt.</p>", ["Ein roter Ball rollt."]),
        ("Klick <my-icon></my-icon> auf <0>diesen Link</0><1/> da", ["Klick auf diesen Link da"]),
        ("<my-icon><svg><title>x</title></svg></my-icon> Ein <picture><img></picture> Bild", ["Ein Bild"]),
        ("<my-card>Ein <p>Hund</p> da</my-card> Frau", ["Ein", "Hund", "da", "Frau"]),
        ("<a-b><c-d>Ein</c-d> Hund <div>da</div></a-b> <e-f>Ball</e-f> rot", ["Ein Hund", "da", "Ball rot"]),
        ("<p>Ein <x-y>Hund</p><p>da</p>", ["Ein Hund", "da"]),
        ("<x-y>Ein <br>Hund</x-y> da", ["Ein", "Hund da"]),
        ("1 &lt; 2 und <b>3 &lt;1&gt; a</b>", ["1 < 2 und 3 <1> a"]),
        ("Ein <ruby>漢<rp>(</rp><rt>kan<rp>)</rp></ruby> da <ruby>字<rt>ji</ruby>", ["Ein 漢 da 字"]),
        ("<a-b translate=no>Ein</a-b> Hund <a-b translate=no>Ein<p>Ball</p></a-b> rot", ["Hund", "rot"]),
    ],
)
def test_parse_html_unknown_element_around_a_block_is_a_block(html: str, expected: list[str]) -> None:
    assert texts(html) == expected
    document = parse_html(html)
    assert document.render([same(block) for block in document.blocks]) == html


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<html lang=fr>Ein <i lang='fr'>is</i> Hund<p xml:lang=en-US title=a>b <b>c</b></p>", ["Ein Hund"]),
        ("<p lang=de-AT>Ein<p lang=''>Hund<p lang='{{ a }}'>da<p lang=mul>rot", ["Ein", "Hund", "da", "rot"]),
        ("<p lang=fr translate=yes>Ein<p lang=en>A dog<p>Hund ist da<div lang=it>E</div>", ["Ein", "Hund ist da"]),
        ("<a hreflang=fr>Français (Canada)</a><p><a hreflang=fr>Französisch</a>", ["Französisch"]),
        ("<a hreflang=en-GB> <b>English</b></a><p><a hreflang=en>Englisch</a><a hreflang=is>IS</a>", ["Englisch"]),
        ("Ein <a>#<b>Hund</b></a> da <a>@a.b</a><p><a># Hund</a> <a>Hund #1", ["Ein da", "# Hund Hund #1"]),
        ("<body lang=en><p lang=fr>Ein", ["Ein"]),  # over half
    ],
)
def test_parse_html_text_in_another_language_is_kept(html: str, expected: list[str]) -> None:
    document = parse_html(html, ("de", "it"))
    assert [block.text for block in document.blocks] == expected
    assert document.is_mostly_other == html.startswith("<body")
    assert document.render([same(block) for block in document.blocks]) == html.replace("de-AT", "it")


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("Bitte <label>hier</label> klicken<p>Art: <label>Ein</label><br><label>Hund</label>",
         "Bitte hier klicken|Art:|Ein|Hund"),
        ("<label><input>Ein</label><label>Hund</label><nav><a>B</a><a>&Auml;</a><a>C</a></nav>", "Ein|Hund|B|Ä|C"),
        ("Zeige <input> Hunde<p>Die <b>E</b><b>Mail</b><p>Die <i><b>E</b><b>Mail</b></i> da",
         "Zeige Hunde|Die EMail|Die EMail da"),
        ("<b>Ein</b><b>Hund</b><b>ist</b><i>Da</i><p><b>Ein</b> <b>Hund</b><p><b>Ein</b><b>Hund</b>e",
         "Ein|HundistDa|Ein Hund|EinHunde"),
        ("<i>Ein </i><i>Hund</i><i> Da</i><i> </i><i>Rot</i>", "Ein Hund Da Rot"),
        ("<p><i>H</i><i>A</i><i>T</i><p><a>犬</a><a><svg><b>A</b></svg>猫</a><a>ein</a>", "HAT|犬|猫ein"),
        ("<p><a><i>Ein</i></a><a><i>Da</i></a><code>x</code><p><i>Ein</i><i><img></i><i>Da</i>", "EinDa|Ein|Da"),
    ],
)  # fmt: skip
def test_parse_html_touching_siblings_are_blocks(html: str, expected: str) -> None:
    assert "|".join(texts(html)) == expected
    document = parse_html(html)
    assert document.render([same(block) for block in document.blocks]).replace("Ä", "&Auml;") == html


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>Der Zug hält.<img>Wir \n <b>fahren.</b><i>Heute.</i></p>", "Der Zug hält.|Wir fahren.|Heute."),
        (" <a>Halt!</a><a>„Wer da?“</a><!-- x -->(Ich.)<sup>1</sup>12 Hunde", "Halt!|„Wer da?“|(Ich.)|12 Hunde"),
        ("z.<b>B.</b><i>Hunde</i> <b>v1.</b><a>2a</a> System.<wbr>Out Dr.<b>Meier</b> <i>am 3.</i><b>Mai</b>", ""),
        ("„<b>Ja.</b>“<i>„Nein.</i>“", "„Ja.“|„Nein.“"),
    ],
)
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
        "<p>" + "Ein <b>Hund</b> da. " * 5_000 + "</p>",
        "<b>" * 10_000 + "Hund" + "</b>" * 10_000,
        "<div>" * 10_000 + "Hund" + "</div>" * 10_000,
        "<i><b>a</b> " * 1_000,
        "<!-- " * 20_000,
        "<a " * 30_000,
        "<a x=" + "=" * 100_000,
        "<a x='" * 20_000,
        "<code>" * 20_000,
        "<script>" * 20_000,
        "</p" * 30_000,
        "<![" * 30_000,
        "<% {{& <?ph" * 10_000,
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
