"""Segments of XLIFF get targets; those that people have translated stay, and each inline element appears once."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.translators import backwards, turned
from transformer_cli.adapters.documents.parsed_file import ParsedFile
from transformer_cli.adapters.documents.xliff import parse_xliff
from transformer_cli.adapters.documents.xmltext import xml_events
from transformer_cli.errors import DataError

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\r\n<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2" '
    'xmlns:sdl="http://sdl.com/FileTypes/SdlXliff/1.0" xmlns:mq="MQXliff" '
    'xmlns:m="http://www.memsource.com/mxlf/2.0"><file target-language="en"><body>\n'
)
END = "\n</body></file></xliff>\n"
STATE = ' state="needs-review-translation" state-qualifier="mt-suggestion"'
SEG = '<mrk mtype="seg" mid="{}">{}</mrk>'
BY_MACHINE = ' conf="Draft" origin="mt"'


def opened(inner: str) -> ParsedFile:
    return parse_xliff(f"\ufeff{HEAD}{inner}{END}".encode(), ("de", "en"))


def translated(inner: str, translate: object = turned) -> str:
    file = opened(inner)
    found = file.render([translate(block) for block in file.blocks]).decode()  # type: ignore[operator]
    assert "".join(token.raw for token in xml_events(found[1:], {})) == found[1:]  # it is well-formed
    return found.removeprefix(f"\ufeff{HEAD}").removesuffix(END)


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("\n <source>a &lt; b</source>\n ", f"\n <source>a &lt; b</source>\n <target{STATE}>A &lt; B</target>\n "),
        ("<source>hund</source><target/>", f"<source>hund</source><target{STATE}>HUND</target>"),
        ("<source>hund</source><target>hund</target>", f"<source>hund</source><target{STATE}>HUND</target>"),
        ('<source>hund</source><target state="new" x="y">hund</target>',
         "<source>hund</source><target" + STATE.replace(" state-q", ' x="y" state-q') + ">HUND</target>"),
        ("<source>hund</source><note>hund</note><alt-trans><target>x</target></alt-trans>",
         f"<source>hund</source><target{STATE}>HUND</target><note>hund</note><alt-trans><target>x</target></alt-trans>"),
        ("<source>12</source>", f"<source>12</source><target{STATE}>12</target>"),
        ("<source xml:space='preserve'>ein\nhund.&#10;  &lt;b&gt; <x id='1'/>\n12</source>",
         "<source xml:space='preserve'>ein\nhund.&#10;  &lt;b&gt; <x id='1'/>\n12</source>"
         f'<target xml:space="preserve"{STATE}>EIN\nHUND.&#10;  &lt;b&gt; <x id=\'1\'/>\n12</target>'),
        (f"<source>a b</source><seg-source>{SEG.format(1, 'a')} {SEG.format(2, 'b')}</seg-source>",
         f"<source>a b</source><seg-source>{SEG.format(1, 'a')} {SEG.format(2, 'b')}</seg-source>"
         f"<target{STATE}>{SEG.format(1, 'A')} {SEG.format(2, 'B')}</target>"),
        (f"<source>a b</source><seg-source>{SEG.format(1, 'a')} {SEG.format(2, 'b')}</seg-source>"
         f"<target>{SEG.format(1, 'x')} {SEG.format(2, '')}</target><sdl:seg id='1'/><sdl:seg id='2' conf=''/>",
         f"<source>a b</source><seg-source>{SEG.format(1, 'a')} {SEG.format(2, 'b')}</seg-source>"
         f"<target>{SEG.format(1, 'x')} {SEG.format(2, 'B')}</target><sdl:seg id='1'/><sdl:seg id='2'{BY_MACHINE}/>"),
    ],
)  # fmt: skip
def test_xliff_untranslated_segments_get_a_target(unit: str, expected: str) -> None:
    old = f"{HEAD.replace('document:1.2', 'document:1.1')}<trans-unit>{unit}</trans-unit>{END}"  # as po2xliff writes it
    assert len(parse_xliff(old.encode(), ("de", "en")).blocks) == len(opened(f"<trans-unit>{unit}</trans-unit>").blocks)
    assert translated(f"<trans-unit id='1'>{unit}</trans-unit>") == f"<trans-unit id='1'>{expected}</trans-unit>"


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ("<trans-unit><source>a</source><target>x</target></trans-unit>", "already translated"),
        ("<trans-unit><source>a</source><target><x id='1'/></target></trans-unit>", "already translated"),
        ("<trans-unit><source>a</source><target state='translated'>a</target></trans-unit>", "already translated"),
        ("<trans-unit mq:status='Proofread'><source>a</source><target>a</target></trans-unit>", "already translated"),
        ("<trans-unit approved='yes'><source>a</source></trans-unit>", "approved"),
        ("<trans-unit mq:locked='locked'><source>a</source><target/></trans-unit>", "locked"),
        ("<trans-unit m:locked='true'><source>a</source><target/></trans-unit>", "locked"),
        ("<trans-unit translate='no'><source>a</source></trans-unit>", "not to be translated"),
        ("<group translate='no'><trans-unit><source>a</source></trans-unit></group>", "not to be translated"),
        (f"<trans-unit><source>a</source><seg-source>{SEG.format(1, 'a')}</seg-source><target>{SEG.format(1, '')}"
         "</target><sdl:seg id='1' locked='true'/></trans-unit>", "locked"),
        (f"<trans-unit><source>a</source><seg-source>{SEG.format(1, 'a')}</seg-source><sdl:seg id='1' locked='true'/>"
         "</trans-unit>", "locked"),
    ],
)  # fmt: skip
def test_xliff_done_or_locked_segments_are_kept_and_counted(inner: str, reason: str) -> None:
    assert translated(inner) == inner
    assert +opened(inner).kept == {reason: 1}


@pytest.mark.parametrize("source", ["", " ", "12", "<ph id='1'>code</ph>"])
def test_xliff_segments_without_a_letter_are_copied_and_counted(source: str) -> None:
    unit = f"<trans-unit><source>{source}</source>"
    assert translated(f"{unit}</trans-unit>") == f"{unit}<target{STATE}>{source}</target></trans-unit>"
    assert +opened(f"{unit}</trans-unit>").kept == {"without a letter": 1}


CODES = {
    "<g id='1'>rot</g> hund": "HUND <g id='1'>ROT</g>",
    "<bpt id='1'>&lt;b></bpt>rot<ept id='1'>x</ept> hund": "HUND <bpt id='1'>&lt;b></bpt>ROT<ept id='1'>x</ept>",
    "&lt;p&gt;&lt;b&gt;rot&lt;/b> hund&lt;/p&gt;": "&lt;p&gt;HUND &lt;b&gt;ROT&lt;/b>&lt;/p&gt;",
    "<![CDATA[<a x='%s'>rot</a> & <br>x <y>]]>": "&amp; &lt;a x='%s'&gt;ROT&lt;/a&gt; &lt;br&gt;X &lt;y&gt;",
    "hund<x id='1'/> rot": "ROT HUND<x id='1'/>",
    "<bx id='1' rid='7'/>rot<ex id='2' rid='7'/> hund": "HUND <bx id='1' rid='7'/>ROT<ex id='2' rid='7'/>",
    "rot <ph id='1'>code <sub>text</sub></ph> hund": "<ph id='1'>code <sub>text</sub></ph> HUND ROT",
    "rot <mrk mtype='protected'>Haus</mrk> hund": "<mrk mtype='protected'>Haus</mrk> HUND ROT",
}


@pytest.mark.parametrize(("source", "expected"), CODES.items())
def test_xliff_inline_elements_stay_with_their_words(source: str, expected: str) -> None:
    found = translated(f"<trans-unit><source>{source}</source></trans-unit>", backwards)
    target = found.partition(f"<target{STATE}>")[2].removesuffix("</target></trans-unit>")
    assert target.replace(" ", "") == expected.replace(" ", "")


CODE_TAGS = ["<bpt id='1'/>", "<ept id='1'/>", "<bpt id='2'/>", "<ept id='2'/>"]
PIECES = ["rot ", "hund ", "<g>", "</g>", "<x/>", *CODE_TAGS, "<it/>", ", ", "&amp; ", "12 ", "\n"]
PIECES += ["&lt;b&gt;", "&lt;/b&gt;", "&lt;br/&gt;"]  # HTML as text


@given(st.lists(st.sampled_from(PIECES), max_size=20), st.sampled_from([turned, backwards]))
def test_xliff_inline_elements_appear_once_in_a_valid_order(pieces: list[str], translate: object) -> None:
    source, depth, seen = "", 0, set[str]()
    for piece in pieces:
        if (piece == "</g>" and not depth) or (piece.startswith(("<bpt", "<ept")) and piece in seen):
            continue
        if piece.startswith("<ept") and piece.replace("ept", "bpt") not in seen:
            continue
        depth += {"<g>": 1, "</g>": -1}.get(piece, 0)
        seen.add(piece)
        source += piece
    source += "</g>" * depth
    found = translated(f"<trans-unit xml:space='preserve'><source>{source}</source></trans-unit>", translate)
    target = found.partition(f"<target{STATE}>")[2].removesuffix("</target></trans-unit>")
    assert sorted(re.findall("<[^>]*>", target)) == sorted(re.findall("<[^>]*>", source))
    for code in "12":
        if f"<ept id='{code}'/>" in source:
            assert target.index(f"<bpt id='{code}'/>") < target.index(f"<ept id='{code}'/>")
    if translate is turned:
        assert target.swapcase().replace("&AMP;", "&amp;").lower() == source.lower()


def test_xliff_keeps_its_declared_encoding() -> None:
    text = HEAD.replace("UTF-8", "windows-1252") + "<trans-unit><source>für</source></trans-unit>" + END
    file = parse_xliff(text.encode("cp1252"), ("de", "en"))
    found = file.render([("Ärger „ł“", [])]).decode("cp1252")
    assert found == text.replace("</source>", f"</source><target{STATE}>Ärger „&#322;“</target>")


@pytest.mark.parametrize(
    "content", ["<a/>", "<xliff xmlns='urn:oasis:names:tc:xliff:document:2.0'/>", "text", "", "<xliff>"]
)
def test_xliff_other_file_is_refused(content: str) -> None:
    with pytest.raises(DataError, match=r"not XLIFF 1\.2|not well-formed XML"):
        parse_xliff(content.encode(), ("de", "en"))


@pytest.mark.parametrize(
    ("languages", "becomes", "said"),
    [
        ("source-language='de-DE' target-language='EN'", "", []),
        ("source-language='de-DE'", ' target-language="en"', []),
        (
            "source-language='fr'",
            ' target-language="en"',
            ["from 'fr' to 'en', but the run translates from 'de' to 'en'"],
        ),
        (
            "source-language='en' target-language='de'",
            "",
            ["from 'en' to 'de', but the run translates from 'de' to 'en'"],
        ),
    ],
)
def test_xliff_of_other_languages_warns_once(
    languages: str, becomes: str, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    file = f"<file {languages}{{}}><body/></file>" * 2
    text = f"{HEAD.partition('<file')[0]}{file}</xliff>"
    assert parse_xliff(text.format("", "").encode(), ("de", "en")).render([]).decode() == text.format(becomes, becomes)
    assert caplog.messages == [f"the file asks for a translation {each}" for each in said]
