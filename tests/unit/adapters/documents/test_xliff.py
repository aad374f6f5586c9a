"""Segments of XLIFF get targets; those that people have translated stay, and each inline element appears once."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.translators import backwards, turned
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


def opened(inner: str, head: str = HEAD, end: str = END) -> ParsedFile:
    return parse_xliff(f"\ufeff{head}{inner}{end}".encode(), ("de", "en"))


def translated(inner: str, translate: object = turned, head: str = HEAD, end: str = END) -> str:
    file = opened(inner, head, end)
    found = file.render([translate(block) for block in file.blocks]).decode()  # type: ignore[operator]
    assert "".join(token.raw for token in xml_events(found[1:], {})) == found[1:]  # it is well-formed
    return found.removeprefix(f"\ufeff{head}").removesuffix(end)


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
        ("<source xmlns:y = 'u'>hund <x y:z='1'/></source><target/>",  # the target needs the namespace, too
         f"<source xmlns:y = 'u'>hund <x y:z='1'/></source><target xmlns:y=\"u\"{STATE}>HUND <x y:z='1'/></target>"),
        ("<source xml:space='preserve'>ein\nhund.&#10;  &lt;b&gt; <x id='1'/>\n12</source>",
         "<source xml:space='preserve'>ein\nhund.&#10;  &lt;b&gt; <x id='1'/>\n12</source>"
         f'<target xml:space="preserve"{STATE}>EIN\nHUND.&#10;  &lt;b&gt; <x id=\'1\'/>\n12</target>'),
        ("<source xml:space='preserve'>name:\tein\n\thund&#9;da&#x09;</source>",
         "<source xml:space='preserve'>name:\tein\n\thund&#9;da&#x09;</source>"
         f'<target xml:space="preserve"{STATE}>NAME:\tEIN\n\tHUND&#9;DA&#x09;</target>'),
        ("<source>ein\thund</source><target>\n</target>",
         f"<source>ein\thund</source><target{STATE}>EIN\tHUND</target>"),
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
    assert {block.place.replaced for block in opened(f"<trans-unit>{unit}</trans-unit>").blocks} <= {""}


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
    "%s rot %d": "%s ROT %d",
    "hund<x id='1'/> rot": "ROT HUND<x id='1'/>",
    "<bx id='1' rid='7'/>rot<ex id='2' rid='7'/> hund": "HUND <bx id='1' rid='7'/>ROT<ex id='2' rid='7'/>",
    "rot <ph id='1'>code <sub>text</sub></ph> hund": "<ph id='1'>code <sub>text</sub></ph> HUND ROT",
    "{b&gt;rot&lt;b} hund {1&gt;": "{1&gt;HUND{b&gt;ROT&lt;b}",
    "rot <mrk mtype='protected'>Haus</mrk> hund": "<mrk mtype='protected'>Haus</mrk> HUND ROT",
    "hund <x ctype='lb'/> ein <ph id='1'>&lt;br/></ph>Rot da": "EIN<x ctype='lb'/>HUND<ph id='1'>&lt;br/></ph>DA ROT",
}


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


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        ("<segment>\n <source>a &lt; b</source>\n</segment>",
         f"<segment{BY_TFM}>\n <source>a &lt; b</source>\n <target>A &lt; B</target>\n</segment>"),
        ("<segment state='initial'><source>a</source><target>a</target></segment>",
         f"<segment{BY_TFM}><source>a</source><target>A</target></segment>"),
        ('<segment state="final" subState="x"><source xml:space="preserve">a\n1</source><target order="2"/></segment>',
         f'<segment{BY_TFM}><source xml:space="preserve">a\n1</source><target order="2">A\n1</target></segment>'),
        ("<mtc:matches><mtc:match><source>a</source><target>x</target></mtc:match></mtc:matches>"
         "<segment><source>a</source></segment><ignorable><source> </source></ignorable><segment><source>12</source>"
         "</segment>",
         "<mtc:matches><mtc:match><source>a</source><target>x</target></mtc:match></mtc:matches>"
         f"<segment{BY_TFM}><source>a</source><target>A</target></segment><ignorable><source> </source></ignorable>"
         f"<segment{BY_TFM}><source>12</source><target>12</target></segment>"),
        (f"<segment{BY_TFM}><source>a</source><target>a</target></segment>",) * 2,
        ("<segment><source>a</source><target>x</target></segment>",) * 2,
        ("<segment state='translated'><source>a</source><target>a</target></segment>",) * 2,
    ],
)  # fmt: skip
def test_xliff_2_segments_without_a_target_get_one(segment: str, expected: str) -> None:
    assert translated(segment, turned, HEAD_2, END_2) == expected
    untranslated = HEAD_2.replace(" trgLang='en'", "").replace("<unit", "<unit translate='no'")
    assert translated(segment, turned, untranslated, END_2) == segment


def test_xliff_2_texts_have_the_place_of_their_unit_and_segment() -> None:
    head = HEAD_2.replace(
        "<unit", '<unit x:sizeRestriction="2,30" xmlns:x="urn:oasis:names:tc:xliff:sizerestriction:2.0"'
    )
    file = opened("<segment id='s'><source>a</source></segment><segment><source>a</source></segment>", head, END_2)
    assert [each.place for each in file.blocks] == [Place("unit u", ", segment s", 30), Place("unit u", "", 30)]


CODES_2 = {
    "<pc id='1'>rot</pc> <ph id='2'/>hund": "<ph id='2'/>HUND <pc id='1'>ROT</pc>",
    "<sc id='1'/>rot<ec startRef='1'/> hund": "HUND <sc id='1'/>ROT<ec startRef='1'/>",
    "<sc id='1' isolated='yes'/>rot <pc id='2'>hund</pc>": "<sc id='1' isolated='yes'/><pc id='2'>HUND</pc> ROT",
    "<sc id='1'/>rot <pc id='2'>hund</pc>": "<sc id='1'/><pc id='2'>HUND</pc> ROT",  # it ends elsewhere
    "<sc id='1'/>rot <pc id='2'>zwei<ec startRef='1'/> hund</pc>":
        "<sc id='1'/>HUND <pc id='2'>ZWEI<ec startRef='1'/> ROT</pc>",
    "<ph id='1' canReorder='firstNo'/>rot <ph id='2' canReorder='no'/>hund":
        "<ph id='1' canReorder='firstNo'/>HUND <ph id='2' canReorder='no'/>ROT",
    "rot <mrk id='1' translate='no'>Haus</mrk> hund": "<mrk id='1' translate='no'>Haus</mrk> HUND ROT",
    "rot <sm id='1' translate='no'/>Haus<em startRef='1'/> hund":
        "<sm id='1' translate='no'/>Haus<em startRef='1'/> HUND ROT",
    "ein rot.<ph subType='xlf:lb'/>ein hund": "ROT. EIN<ph subType='xlf:lb'/>HUND EIN",
    "<mrk id='1' type='term'>rot</mrk><cp hex='001F'/> hund": "HUND <mrk id='1' type='term'>ROT</mrk><cp hex='001F'/>",
}  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), [*CODES.items(), *CODES_2.items()])
def test_xliff_inline_elements_stay_with_their_words(source: str, expected: str) -> None:
    if source in CODES:
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


SDL_SEG = (
    f"<seg-source>{SEG.format(1, 'hund')}</seg-source><target{STATE}>{SEG.format(1, 'dog')}</target><sdl:seg id='1'"
)


@pytest.mark.parametrize(
    ("unit", "is_renewed"),
    [
        (f"<trans-unit><source>hund</source><target{STATE}>dog</target></trans-unit>", True),
        (f"<trans-unit mq:status='NotStarted'><source>hund</source><target{STATE}>dog</target></trans-unit>", True),
        (f"<trans-unit mq:status='PartiallyEdited'><source>hund</source><target{STATE}>dog</target></trans-unit>",
         False),
        (f"<trans-unit m:confirmed='1'><source>hund</source><target{STATE}>dog</target></trans-unit>", False),
        (f"<trans-unit approved='yes'><source>hund</source><target{STATE}>dog</target></trans-unit>", False),
        ("<trans-unit><source>hund</source><target state='translated'>dog</target></trans-unit>", False),
        ("<trans-unit><source>hund</source><target>dog</target></trans-unit>", False),
        (f"<trans-unit><source>12</source><target{STATE}>dog</target></trans-unit>", False),
        (f"<trans-unit><source>hund</source>{SDL_SEG}{BY_MACHINE}/></trans-unit>", True),
        (f"<trans-unit><source>hund</source>{SDL_SEG} conf='Draft' origin='interactive'/></trans-unit>", False),
        (f"<trans-unit><source>hund</source>{SDL_SEG} conf='Translated' origin='mt'/></trans-unit>", False),
        (f"<trans-unit><source>hund</source>{SDL_SEG}{BY_MACHINE} origin-system='x'/></trans-unit>", False),
        (f"<segment{BY_TFM}><source>hund</source><target>dog</target></segment>", True),
        ("<segment state='initial'><source>hund</source><target>dog</target></segment>", False),
        ("<segment state='translated' subState='tfm:mt'><source>hund</source><target>dog</target></segment>", False),
    ],
)  # fmt: skip
def test_xliff_renews_only_untouched_suggestions(unit: str, is_renewed: bool) -> None:
    head, end = (HEAD_2, END_2) if unit.startswith("<segment") else (HEAD, END)
    file = parse_xliff(f"{head}{unit}{end}".encode(), ("de", "en"), TranslationSettings(renew=True))
    assert [block.place.replaced for block in file.blocks] == ["dog"] * is_renewed
    found = file.render([turned(block) for block in file.blocks]).decode()
    assert found == f"{head}{unit.replace('dog', 'HUND') if is_renewed else unit}{end}"
    assert translated(unit, turned, head, end) == unit
