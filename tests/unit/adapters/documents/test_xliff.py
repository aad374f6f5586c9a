"""Segments of XLIFF get targets; those that people have translated stay, and each inline element appears once."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.translators import backwards, turned
from tables import read_tables
from transformer_cli.adapters.documents.blocks import Place
from transformer_cli.adapters.documents.parsed_file import ParsedFile
from transformer_cli.adapters.documents.xliff import parse_xliff
from transformer_cli.adapters.documents.xmltext import xml_events
from transformer_cli.config.schema import TranslationSettings
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
HEAD_2 = (
    '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" '
    "xmlns:mtc='urn:oasis:names:tc:xliff:matches:2.0' srcLang='de' trgLang='en'><file id='f'><unit id='u'>\n"
)
END_2 = "\n</unit></file></xliff>\n"
BY_TFM = ' state="initial" subState="tfm:mt"'
TABLES = {
    title: [
        tuple(re.sub(r"\{(\d):(\w*)\}", r'<mrk mtype="seg" mid="\1">\2</mrk>', cell) for cell in row) for row in rows
    ]
    for title, rows in read_tables(
        Path(__file__).with_name("xliff.txt"), STATE=STATE, BY_MACHINE=BY_MACHINE, BY_TFM=BY_TFM
    ).items()
}


def opened(inner: str, head: str = HEAD, end: str = END) -> ParsedFile:
    return parse_xliff(f"\ufeff{head}{inner}{end}".encode(), ("de", "en"))


def translated(inner: str, translate: object = turned, head: str = HEAD, end: str = END) -> str:
    file = opened(inner, head, end)
    found = file.render([translate(block) for block in file.blocks]).decode()  # type: ignore[operator]
    assert "".join(token.raw for token in xml_events(found[1:], {})) == found[1:]  # it is well-formed
    return found.removeprefix(f"\ufeff{head}").removesuffix(end)


@pytest.mark.parametrize(("unit", "expected"), TABLES["untranslated units"])
def test_xliff_untranslated_segments_get_a_target(unit: str, expected: str) -> None:
    old = f"{HEAD.replace('document:1.2', 'document:1.1')}<trans-unit>{unit}</trans-unit>{END}"  # as po2xliff writes it
    assert len(parse_xliff(old.encode(), ("de", "en")).blocks) == len(opened(f"<trans-unit>{unit}</trans-unit>").blocks)
    assert translated(f"<trans-unit id='1'>{unit}</trans-unit>") == f"<trans-unit id='1'>{expected}</trans-unit>"
    assert {block.place.replaced for block in opened(f"<trans-unit>{unit}</trans-unit>").blocks} <= {""}


@pytest.mark.parametrize(("inner", "reason"), TABLES["done or locked units"])
def test_xliff_done_or_locked_segments_are_kept_and_counted(inner: str, reason: str) -> None:
    assert translated(inner) == inner
    assert +opened(inner).kept == {reason: 1}


@pytest.mark.parametrize("source", ["", " ", "12", "<ph id='1'>code</ph>"])
def test_xliff_segments_without_a_letter_are_copied_and_counted(source: str) -> None:
    unit = f"<trans-unit><source>{source}</source>"
    assert translated(f"{unit}</trans-unit>") == f"{unit}<target{STATE}>{source}</target></trans-unit>"
    assert +opened(f"{unit}</trans-unit>").kept == {"without a letter": 1}


CODE_TAGS = ["<bpt id='1'/>", "<ept id='1'/>", "<bpt id='2'/>", "<ept id='2'/>"]
PIECES = ["rot ", "hund ", "<g>", "</g>", "<x/>", *CODE_TAGS, "<it/>", ", ", "&amp; ", "12 ", "\n"]
PIECES += ["&lt;b&gt;", "&lt;/b&gt;", "&lt;br/&gt;"]  # HTML as text
CODES_OF_2 = ["<sc id='1'/>", "<ec startRef='1'/>", "<sm id='2' translate='no'/>", "<em startRef='2'/>"]


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
    source_2 = source.replace("g>", "pc>").replace("<x/>", "<ph/>")
    for code, of_2 in zip(CODE_TAGS, CODES_OF_2, strict=True):
        source_2 = source_2.replace(code, of_2)
    found = translated(f"<segment><source>{source_2}</source></segment>", translate, HEAD_2, END_2)
    target = found.partition("<target>")[2].removesuffix("</target></segment>")
    assert sorted(re.findall("<[^>]*>", target)) == sorted(re.findall("<[^>]*>", source_2))
    for start, end in zip(CODES_OF_2[::2], CODES_OF_2[1::2], strict=True):
        if end in source_2:
            assert target.index(start) < target.index(end)


def test_xliff_keeps_its_declared_encoding() -> None:
    text = HEAD.replace("UTF-8", "windows-1252") + "<trans-unit><source>für</source></trans-unit>" + END
    file = parse_xliff(text.encode("cp1252"), ("de", "en"))
    found = file.render([("Ärger „ł“", [])]).decode("cp1252")
    assert found == text.replace("</source>", f"</source><target{STATE}>Ärger „&#322;“</target>")


@pytest.mark.parametrize(("segment", "expected"), TABLES["segments of XLIFF 2"])
def test_xliff_2_segments_without_a_target_get_one(segment: str, expected: str) -> None:
    assert translated(segment, turned, HEAD_2, END_2) == expected
    untranslated = HEAD_2.replace(" trgLang='en'", "").replace("<unit", "<unit translate='no'")
    assert translated(segment, turned, untranslated, END_2) == segment


def test_xliff_2_texts_have_the_place_of_their_unit_and_segment() -> None:
    restricted = '<unit x:sizeRestriction="2,30" xmlns:x="urn:oasis:names:tc:xliff:sizerestriction:2.0"'
    head = HEAD_2.replace("<unit", restricted)
    file = opened("<segment id='s'><source>a</source></segment><segment><source>a</source></segment>", head, END_2)
    assert [each.place for each in file.blocks] == [Place("unit u", ", segment s", 30), Place("unit u", "", 30)]


@pytest.mark.parametrize(
    ("source", "expected", "version"),
    [(*row, version) for version in (1, 2) for row in TABLES[f"inline elements of XLIFF {version}"]],
)
def test_xliff_inline_elements_stay_with_their_words(source: str, expected: str, version: int) -> None:
    if version == 1:
        found = translated(f"<trans-unit><source>{source}</source></trans-unit>", backwards)
    else:
        found = translated(f"<segment><source>{source}</source></segment>", backwards, HEAD_2, END_2)
    target = re.sub(r".*<target[^>]*>|</target>.*", "", found)
    assert target.replace(" ", "") == expected.replace(" ", "")


@pytest.mark.parametrize(
    "content",
    [
        *("<a/>", "<a version='2.2'/>", "<xliff xmlns='urn:oasis:names:tc:xliff:document:3'/>", "text", "", "<xliff>"),
        "<xliff xmlns='urn:oasis:names:tc:xliff:document:2.2' version='2.2'/>",
    ],
)
def test_xliff_other_file_is_refused(content: str) -> None:
    wanted = r"XLIFF 2\.2; export it as" if "document:2.2" in content else r"not XLIFF 1\.2|not well-formed XML"
    with pytest.raises(DataError, match=wanted):
        parse_xliff(content.encode(), ("de", "en"))


def test_xliff_2_names_its_target_language_once_it_has_targets() -> None:
    without = HEAD_2.replace(" trgLang='en'", "")
    file = opened("<segment><source>a</source></segment>", without, END_2)
    expected = without.replace("'de'>", "'de' trgLang=\"en\">")
    assert file.render([("A", [])]).decode().startswith(f"\ufeff{expected}")


def test_xliff_missing_target_language_is_added() -> None:
    file = "<file source-language='de-DE'{}><body/></file>" * 2
    text = f"{HEAD.partition('<file')[0]}{file}</xliff>"
    opened = parse_xliff(text.format("", "").encode(), ("de", "en"))
    assert opened.languages == [("de-DE", "")] * 2
    assert opened.render([]).decode() == text.format(*[' target-language="en"'] * 2)


@pytest.mark.parametrize(("unit", "becomes"), TABLES["suggestions"])
def test_xliff_renews_only_untouched_suggestions(unit: str, becomes: str) -> None:
    is_renewed = becomes == "renewed"
    head, end = (HEAD_2, END_2) if unit.startswith("<segment") else (HEAD, END)
    file = parse_xliff(f"{head}{unit}{end}".encode(), ("de", "en"), TranslationSettings(renew=True))
    assert [block.place.replaced for block in file.blocks] == ["dog"] * is_renewed
    found = file.render([turned(block) for block in file.blocks]).decode()
    assert found == f"{head}{unit.replace('dog', 'HUND') if is_renewed else unit}{end}"
    assert translated(unit, turned, head, end) == unit
