"""Word documents keep every byte outside translated paragraphs; in these, properties and marks follow their words.

Their archives are read within safe limits; an unreadable one gets a clear error.
"""

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring, tostring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.translators import backwards, turned
from tables import read_tables
from transformer_cli.adapters.documents.archive import Archive
from transformer_cli.adapters.documents.blocks import Block
from transformer_cli.adapters.documents.word import parse_part, parse_word
from transformer_cli.errors import DataError
from transformer_cli.text.alignment import Link

Translate = Callable[[Block], tuple[str, list[Link]]]
TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml."
BODY = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:m="x"><w:body>'


def paragraph(inner: str, translate: Translate) -> str:
    """Returns a translated paragraph without the document around it."""
    source = f"{BODY}<w:p>{inner}</w:p></w:body></w:document>"
    document = parse_part(source)
    written = document.render([translate(block) for block in document.blocks])
    parse_part(written)  # it is well-formed
    return written.removeprefix(f"{BODY}<w:p>").removesuffix("</w:p></w:body></w:document>")


def seen(inner: str) -> list[tuple[str, str]]:
    """Returns what a reader sees of a paragraph: words with formatting, and marks; equal neighbours are joined."""
    found = list[tuple[str, str]]()

    def add(look: str, what: str) -> None:
        is_more = found and found[-1][0] == look and not what.startswith("<")
        if is_more and not found[-1][1].startswith("<"):
            look, what = look, found.pop()[1] + what
        found.append((look, what))

    def walk(element: Element, look: str = "") -> None:
        own = [each for each in element if each.tag == "{w}rPr"]
        look = tostring(own[0], "unicode") if own else ""
        for each in element:
            if each.tag == "{w}t":
                add(look, each.text or "")
            elif each.tag == "{w}r":
                walk(each)
            elif each.tag not in ("{w}rPr", "{w}proofErr"):
                add(look, f"<{each.tag} {each.attrib} {each.text}>")
                walk(each)
                add(look, f"</{each.tag}>")

    walk(fromstring(f'<w:p xmlns:w="w">{inner}</w:p>'))
    return found


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


BOLD, LINK = "<w:rPr><w:b/></w:rPr>", '<w:hyperlink r="1">'
FIELD = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")]
CODE = "<w:r><w:instrText>REF Seite</w:instrText></w:r>"
CITATION = CODE.replace("REF", "ADDIN")
NESTED = "".join([FIELD[0], CODE, FIELD[0], CODE, FIELD[1], run("name"), FIELD[2], CODE, FIELD[1]])
TAB, HYPHEN = "<w:r><w:tab/></w:r>", "<w:r><w:noBreakHyphen/></w:r>"
TAG = "<w:smartTag><w:smartTagPr/>"
BOX = "<w:r><w:x><w:p>{}</w:p></w:x></w:r>"
MARKS = ['<w:bookmarkStart w:id="1"/>', '<w:bookmarkEnd w:id="1"/>']
NAMED = {"NESTED": NESTED, "CODE": CODE, "CITATION": CITATION, "TAB": TAB, "HYPHEN": HYPHEN, "TAG": TAG}
NAMED |= {"BEGIN": FIELD[0], "SEPARATE": FIELD[1], "END": FIELD[2], "START": MARKS[0], "STOP": MARKS[1]}
NAMED |= {"LINK": LINK, "/LINK": "</w:hyperlink>"}


def with_runs(paragraph: str) -> str:
    """Replaces [text], [text|bold], [text|italic], [text|style NAME] and [text|lang CODE] by runs."""
    properties = {"bold": "<w:b/>", "italic": "<w:i/>", "style": '<w:rStyle w:val="{}"/>'}
    properties["lang"] = '<w:lang w:val="{}" w:eastAsia="ja-JP"/>'

    def as_run(found: re.Match[str]) -> str:
        kind, _, value = (found[2] or "").partition(" ")
        return run(found[1], f"<w:rPr>{properties[kind].format(value)}</w:rPr>" if kind else "")

    return re.sub(r"\[([^]|]*)(?:\|([^]]*))?\]", as_run, paragraph)


TABLES = read_tables(Path(__file__).with_name("word.txt"), **NAMED)
DEEP = "[ein]" + (FIELD[0] + CODE) * 51 + (FIELD[1] + "[hund]" + FIELD[2]) * 51


@pytest.mark.parametrize(("inner", "expected"), [*TABLES["backwards"], (DEEP, DEEP)])
def test_word_properties_and_bookmarks_stay_with_their_words(inner: str, expected: str) -> None:
    inner, expected = with_runs(inner), with_runs(expected)
    assert seen(paragraph(inner, backwards)) == seen(expected)
    assert seen(paragraph(inner, lambda block: (block.text, []))) == seen(inner)
    assert seen(paragraph(paragraph(inner, turned), turned)) == seen(inner)


def test_word_runs_with_equal_properties_are_joined() -> None:
    french, sign = ("<w:rPr><w:lang w:val='fr'/></w:rPr>", "<w:rPr><w:rFonts w:ascii='Symbol'/></w:rPr>")
    inner = "".join([run("ein h"), "<w:proofErr/>", run("und ").replace("r>", 'r w:rsidR="1">', 1), run("da", BOLD)])
    assert paragraph(inner, backwards) == run("DA", BOLD) + run(" HUND EIN")
    inner = run("§", sign) + run(" ein ") + run("chien noir", french)
    assert paragraph(inner, turned) == run("§", sign) + run(" EIN ") + run("CHIEN NOIR", french)
    assert paragraph(run("neu 1 ") + run("§", sign), backwards) == run("§ 1 NEU")


def test_word_paragraph_that_would_grow_too_much_is_kept() -> None:
    marks = f"<w:r><w:rPr><w:rFonts w:ascii='{'A' * 1_000}'/></w:rPr>{'<w:tab/>' * 10}</w:r>{run('a')}"
    assert paragraph(marks, backwards).count("A" * 1_000) == 10
    many = marks.replace("<w:tab/>", "<w:tab/>" * 10)
    assert paragraph(many, backwards) == many


def test_word_mixed_hyphens_become_plain_ones() -> None:
    assert paragraph(run("ein t") + HYPHEN + run("shirt a-b"), backwards) == run("A-B T-SHIRT EIN")


def test_word_indented_text_loses_its_indentation() -> None:
    assert paragraph("<w:r>\n <w:t>\n  ein hund\n </w:t>\n</w:r>", turned) == run("EIN HUND")


PIECES = [
    *(run(text) for text in ("ein ", "hund ", " ", "12 ")),
    *(run(text, BOLD) for text in ("rot ", ". ", "3")),
    *(LINK, "</w:hyperlink>", "<w:ins>", "</w:ins>", *FIELD, CODE, CITATION, *MARKS),
    *("<w:r><w:tab/></w:r>", "<w:r><w:br/><w:t>zeile </w:t></w:r>", BOX.format(run("kasten")), "<w:proofErr/>"),
    *("<w:r><w:footnoteReference/></w:r>", HYPHEN),
]


@given(st.lists(st.sampled_from(PIECES), max_size=20), st.sampled_from([backwards, turned]))
def test_word_any_paragraph_keeps_everything(pieces: list[str], translate: Translate) -> None:
    open_, inner = list[str](), ""
    for piece in pieces:  # containers are always closed
        name = re.match(r"</?(w:hyperlink|w:ins)", piece)
        if name and piece[1] == "/":
            if not open_ or open_[-1] != name[1]:
                continue
            open_.pop()
        elif name:
            open_.append(name[1])
        inner += piece
    inner += "".join(f"</{name}>" for name in reversed(open_))
    same, found = paragraph(inner, lambda block: (block.text, [])), paragraph(inner, translate)
    assert seen(same) == seen(inner)
    if not re.search("ein|hund|rot|zeile|kasten", inner):
        assert same == inner
    others = ("<w:ins>", "<w:tab/>", "<w:br/>", "<w:footnoteReference/>", "<w:x>")
    for mark in (*FIELD, CODE, *MARKS, LINK, HYPHEN, *others):
        inside = mark.removeprefix("<w:r>").removesuffix("</w:r>")
        assert found.count(inside) == inner.count(inside)
    text = [sorted("".join(re.findall(r"<w:t[^>]*>([^<]*)", each)).lower().replace(" ", "")) for each in (found, inner)]
    assert text[0] == text[1]


def archive(members: dict[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


def types(parts: dict[str, str]) -> str:
    named = ((name, f"{TYPE}{kind}+xml") for name, kind in parts.items())
    overrides = "".join(f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, kind in named)
    return f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{overrides}</Types>'


def test_word_translates_all_parts_and_copies_other_members() -> None:
    parts = {"word/document2.xml": "document.main", "word/f.xml": "footer", "word/n.xml": "footnotes", "c": "comments"}
    body = f"{BODY}<w:p>{run('ein hund')}</w:p></w:body></w:document>"
    others: dict[str, str | bytes] = {"a.bin": bytes(1000), "z": "x"}
    content = archive({"[Content_Types].xml": types(parts), **others, **dict.fromkeys(parts, body)})
    opened = parse_word(content, ("de", "en"))
    assert [block.text for block in opened.blocks] == ["ein hund"] * 4
    found = opened.render([turned(block) for block in opened.blocks])
    with zipfile.ZipFile(io.BytesIO(found)) as new, zipfile.ZipFile(io.BytesIO(content)) as old:
        assert new.testzip() is None
        assert new.namelist() == old.namelist()
        for name in old.namelist():
            expected = body.replace("ein hund", "EIN HUND").encode() if name in parts else old.read(name)
            assert new.read(name) == expected
    start = content.index(b"a.bin")
    assert content[start : content.index(b"PK", start)] in found
    assert opened.render([(block.text, []) for block in opened.blocks]) == content


PICTURE = (
    '<w:p><w:r><w:drawing><p:docPr xmlns:p="x" id="1" name="Bild 1" descr="ein &quot;hund&quot;&#xA;&#xA;im park" '
    'title="hund"/></w:drawing></w:r></w:p>'
)


def test_word_alternative_texts_title_and_languages_are_translated() -> None:
    languages = '<w:rPr><w:lang w:val="de-DE" w:eastAsia="ja-JP" w:bidi="de"/></w:rPr>'
    title = '<a xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>hund &amp; park</dc:title> x</a>'
    styles = f"{BODY}{languages}</w:body></w:document>"
    text = f"{BODY}{PICTURE}<w:p>{run('hund', languages)}</w:p></w:body></w:document>"
    parts = {"d": "document.main", "s": "styles"}
    core = '<Override PartName="/c" ContentType="application/vnd.openxmlformats-package.core-properties+xml"/></Types>'
    listed = types(parts).replace("</Types>", core)
    opened = parse_word(archive({"[Content_Types].xml": listed, "d": text, "s": styles, "c": title}), ("de", "en"))
    assert [block.text for block in opened.blocks] == ['ein "hund"', "im park", "hund", "hund", "hund & park"]
    with zipfile.ZipFile(io.BytesIO(opened.render([turned(block) for block in opened.blocks]))) as new:
        found = {name: new.read(name).decode() for name in "dsc"}
    changed = languages.replace("de-DE", "en").replace('"de"', '"en"')
    assert found["s"] == styles.replace(languages, changed)
    assert found["c"] == title.replace("hund &amp; park", "HUND &amp; PARK")
    picture = PICTURE.replace("ein &quot;hund&quot;", "EIN &quot;HUND&quot;").replace("im park", "IM PARK")
    picture = picture.replace('title="hund"', 'title="HUND"')
    assert found["d"] == f"{BODY}{picture}<w:p>{run('HUND', changed)}</w:p></w:body></w:document>"


@pytest.mark.parametrize(("paragraphs", "expected"), TABLES["kept"])
def test_word_data_code_and_other_languages_are_kept(paragraphs: str, expected: str) -> None:
    text = f"{BODY}{''.join(f'<w:p>{with_runs(each)}</w:p>' for each in paragraphs.split(' ¦ '))}</w:body></w:document>"
    listed = types({"d": "document.main"})
    members: dict[str, str | bytes] = {"[Content_Types].xml": listed, "d": text}
    content = archive(members)
    opened = parse_word(content, ("de", "en"))
    assert " ¦ ".join(block.text for block in opened.blocks) == expected
    rendered = opened.render([(block.text, []) for block in opened.blocks])
    assert "w:lang" in text or rendered == content


TYPED = types({"d": "document.main"})
ENCRYPTED = (
    archive({"[Content_Types].xml": TYPED})
    .replace(b"PK\3\4\x14\0\0", b"PK\3\4\x14\0\1")
    .replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1")
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a complete ZIP archive .it is empty"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(3_000), "an old or a password-protected Office document"),
        (b"Ein Hund.\n", "not a ZIP archive, as its name says; give it the suffix of its format"),
        (ENCRYPTED, "encrypted; save the document without a password"),
        *(
            (archive({"a": "", name: ""}), "an archive with a file outside its folder")
            for name in ("/a", "a/../../b", "..\\b", "C:\\b")
        ),
        (archive({"[Content_Types].xml": TYPED, "d": BODY})[:200], "not a complete ZIP archive"),
        (archive({"a": "b"}), "not a Word document"),
        (archive({"[Content_Types].xml": TYPED}), "not a Word document .DOCX.; give it the suffix of its format"),
        (archive({"[Content_Types].xml": TYPED, "d": BODY}), "not well-formed XML: line 1"),
        (archive({"[Content_Types].xml": TYPED, "d": "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"}), "a document type"),
        (archive({"[Content_Types].xml": TYPED, "d": '<?xml version="1.0" encoding="x-1"?><a/>'}), "x-1 is not a text"),
        (archive({"[Content_Types].xml": TYPED, "d": b"<a>\xff</a>"}), "byte 4 is not UTF-8"),
        (archive({"[Content_Types].xml": TYPED, "d": bytes((1 << 20) + 1)}), "d: more than 1 MiB"),
        (archive({"[Content_Types].xml": TYPED, "d": "<a>" * 300 + "</a>" * 300}), "more than 200 nested"),
        (archive({"[Content_Types].xml": TYPED, "d": f"<a>{'<b/>' * 600}</a>"}), "more than 1,000 tags"),
    ],
    ids=range(18),
)  # fmt: skip
def test_word_other_or_damaged_file_is_refused(monkeypatch: pytest.MonkeyPatch, content: bytes, said: str) -> None:
    monkeypatch.setattr("transformer_cli.adapters.documents.archive.MAX_UNPACKED_BYTES", 1 << 20)
    monkeypatch.setattr("transformer_cli.adapters.documents.xmltext.MAX_EVENTS", 1_000)
    with pytest.raises(DataError, match=said) as error:
        parse_word(content, ("de", "en"))
    assert "\n" not in str(error.value)


def test_archive_limits_the_total_size_of_members_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer_cli.adapters.documents.archive.MAX_UNPACKED_BYTES", 1 << 20)
    opened = Archive(archive({"a": bytes(600_000), "b": bytes(600_000), "c": bytes(400_000)}))
    for name in ("a", "c"):
        assert opened.read(name)
    with pytest.raises(DataError, match="b: more than 1 MiB with the parts before it; translate the document in parts"):
        opened.read("b")
