"""Formats of several files in an archive: what is translated of each part, and what stays byte for byte.

In the parts below, «text» is translated, and ‹before|after› is what else changes.
"""

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from oracles.translators import backwards, turned
from transformer_cli.adapters.documents.files import FORMATS, read_content
from transformer_cli.adapters.documents.markup import parse_html
from transformer_cli.adapters.documents.parsers import PARSERS
from transformer_cli.config.schema import TranslationSettings
from transformer_cli.errors import DataError

Parts = Mapping[str, str]


def packed(members: Parts) -> bytes:
    """Returns an archive of the source texts, whose first member is not compressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for number, (name, content) in enumerate(members.items()):
            content = re.sub(r"‹([^|›]*)\|[^›]*›", r"\1", content)
            file.writestr(name, re.sub("[«»]", "", content), None if number else zipfile.ZIP_STORED)
    return out.getvalue()


def translated(content: str) -> str:
    content = re.sub(r"‹[^|›]*\|([^›]*)›", r"\1", content)
    return re.sub("«([^»]*)»", lambda text: text[1].swapcase(), content)


OFFICE = "application/vnd.openxmlformats-officedocument."
SPACES = "".join(
    f' xmlns:{prefix}="http://schemas.openxmlformats.org/{name}"'
    for prefix, name in {
        "a": "drawingml/2006/main", "c": "drawingml/2006/chart", "p": "presentationml/2006/main"
    }.items()
)  # fmt: skip
SLIDES = {
    "presentationml.presentation.main": '<a:defRPr lang="‹de-DE|en›"/>',
    "presentationml.slide": '<p:cNvPr id="2" name="Bild" descr="«ein hund»"/><a:p><a:pPr lvl="1"/>'
    '<a:r><a:rPr lang="‹de-AT|en›"‹ err="1"|›/><a:t>«ein »</a:t></a:r>'
    '<a:r><a:rPr lang="en-US" b="1"/><a:t>«hund»</a:t></a:r><a:br><a:rPr/></a:br>'
    "<a:r><a:rPr/><a:t>«Da»‹|</a:t></a:r><a:r><a:rPr/><a:t>›\t‹|</a:t></a:r><a:r><a:rPr/><a:t>›«Dort»</a:t></a:r>"
    '<a:fld id="{1}"><a:rPr/><a:t>folie</a:t></a:fld><a:endParaRPr lang="‹de|en›"/></a:p>',
    "presentationml.notesSlide": "<a:p><a:r><a:t>«notiz»</a:t></a:r></a:p>",
    "presentationml.slideMaster": "<p:sp><p:nvSpPr><p:nvPr><p:ph/></p:nvPr></p:nvSpPr><a:p><a:r><a:t>klicken</a:t>"
    "</a:r></a:p></p:sp><p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><a:p><a:r><a:t>«firma»</a:t></a:r></a:p></p:sp>",
    "drawingml.chart": "<a:p><a:r><a:t>«titel»</a:t></a:r></a:p><c:f>Blatt!A1</c:f><c:v>«umsatz»</c:v>"
    "<c:numCache><c:v>1.5E-3</c:v></c:numCache>",
    "presentationml.comments": "<p:text>«gut»</p:text>",
}
NAMED = "".join(f'<Override PartName="/{kind}" ContentType="{OFFICE}{kind}+xml"/>' for kind in SLIDES)
PPTX = {
    "[Content_Types].xml": f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{NAMED}</Types>',
    "ppt/vbaProject.bin": "a",
    **{kind: f"<p:x{SPACES}>{content}</p:x>" for kind, content in SLIDES.items()},
}
ODF_SPACES = "".join(
    f' xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        "fo": "xsl-fo-compatible", "svg": "svg-compatible", "office": "office", "style": "style", "text": "text",
        "table": "table", "draw": "drawing", "manifest": "manifest",
    }.items()
)  # fmt: skip
ODF = {
    "mimetype": "application/vnd.oasis.opendocument.text",
    "content.xml": '<style:style style:name="C" style:family="text" style:parent-style-name="Source_20_Text"/>'
    '<style:style style:name="F" style:family="text"><style:text-properties fo:language="fr"/></style:style>'
    '<style:style style:name="D" style:family="text">'
    '<style:text-properties fo:language="‹de|en›" fo:country="‹DE|none›"/></style:style>'
    '<text:p>«ein »<text:span text:style-name="B">«roter »<text:a href="x">«hund»</text:a></text:span>'
    "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>«siehe»</text:p></text:note-body>"
    '</text:note><text:span text:style-name="C">code</text:span>‹<text:s/>| ›«da »<text:s/>«und dort»<text:tab/>'
    '«Neu»<text:s text:c="4"/>«Alt»<text:line-break/>«dann» <text:span text:style-name="F">oui</text:span> '
    "<text:date>heute</text:date></text:p><draw:frame><svg:title>«bild»</svg:title><draw:text-box><text:p>«kasten»</text:p></draw:text-box>"
    "</draw:frame><text:tracked-changes><text:p>weg</text:p></text:tracked-changes>"
    '<table:table-cell office:value-type="string"><text:p>«wort»</text:p></table:table-cell>'
    '<table:table-cell office:value-type="date"><text:p>3. mai</text:p></table:table-cell>'
    '<table:table-cell table:formula="of:=A1" office:value-type="string"><text:p>wort</text:p></table:table-cell>',
    "styles.xml": "<style:footer><text:p>«fuss»</text:p></style:footer>",
    "meta.xml": '<dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">«titel»</dc:title>'
    '<dc:language xmlns:dc="http://purl.org/dc/elements/1.1/">‹de-AT|en›</dc:language>',
    "Basic/script.xlb": "a",
}
ODF |= {name: f"<office:x{ODF_SPACES}>{ODF[name]}</office:x>" for name in ODF if name.endswith(".xml")}
EPUB = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="O/book.opf"/></rootfiles></container>',
    "O/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
    "<dc:title>«ein buch»</dc:title><dc:language>‹de|en›</dc:language><dc:creator>max</dc:creator>"
    '<item href="t/eins%201.xhtml" media-type="application/xhtml+xml"/><item href="x.css" media-type="text/css"/>'
    '<item href="toc.ncx" media-type="application/x-dtbncx+xml"/></package>',
    "O/t/eins 1.xhtml": '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml" xml:lang="‹de|en›"><head>'
    '<script src="a"/><title>«titel»</title><style/></head>'
    "<body><p>«ein »<b>«hund»</b><br/></p><textarea/>«da»</body></html>",
    "O/toc.ncx": '<!DOCTYPE ncx PUBLIC "a" "b"><ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navLabel><text>«eins»'
    '</text></navLabel><content src="t/eins%201.xhtml"/></ncx>',
    "O/x.css": "p {}",
}
DRM = '<x:CipherReference xmlns:x="http://www.w3.org/2001/04/xmlenc#" URI="O/t/eins%201.xhtml"/>'
LOCKED = {**ODF, "META-INF/manifest.xml": f"<manifest:encryption-data{ODF_SPACES}/>"}


@pytest.mark.parametrize(("file_format", "parts"), [("pptx", PPTX), ("odf", ODF), ("epub", EPUB)])
def test_archive_format_translates_its_parts_and_keeps_the_rest(file_format: str, parts: Parts, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(packed(parts))
    content = read_content(tmp_path / "a", FORMATS[file_format])
    opened = PARSERS[file_format](content, ("de", "en"), TranslationSettings())
    written = opened.render([turned(block) for block in opened.blocks])
    with zipfile.ZipFile(io.BytesIO(written)) as new:
        assert {name: new.read(name).decode() for name in new.namelist()} == {
            name: translated(text) for name, text in parts.items()
        }
        assert new.namelist() == [*parts]
        assert new.infolist()[0].compress_type == zipfile.ZIP_STORED
    assert [each.place.unit for each in opened.blocks][-1].endswith(", text 1")
    assert [*opened.languages] == [("de", "")] * (file_format == "epub")


@pytest.mark.parametrize(
    ("file_format", "parts", "said"),
    [
        ("pptx", {"a": "b"}, "not a PowerPoint presentation .PPTX.; give it the suffix of its format"),
        ("odf", {"a": "b"}, "not an OpenDocument file; give it the suffix of its format"),
        ("epub", {"a": "b"}, "not an EPUB book; give it the suffix of its format"),
        ("epub", {**EPUB, "META-INF/encryption.xml": DRM}, r"eins 1.xhtml: encrypted \(DRM\)"),
        ("odf", LOCKED, "encrypted; save the document without a password"),
    ],
)
def test_archive_format_refuses_other_files(file_format: str, parts: Parts, said: str) -> None:
    with pytest.raises(DataError, match=said):
        PARSERS[file_format](packed(parts), ("de", "en"), TranslationSettings())


def test_archive_signature_gets_a_warning() -> None:
    opened = PARSERS["pptx"](packed({**PPTX, "_xmlsignatures/a.xml": ""}), ("de", "en"), TranslationSettings())
    assert opened.warnings == ["has a digital signature, which is not valid for the translation"]


@pytest.mark.parametrize(
    "inner", ["ein <i>roter<br/>Hund</i> da <b>so<br/>Dann</b>", "<i>a<br/>B</i> c <b><i>d</i> e<br/>F</b>"]
)
def test_archive_page_stays_well_formed_when_words_move(inner: str) -> None:
    document = parse_html(f"<p>{inner}</p>")
    written = document.render([backwards(block) for block in document.blocks])
    assert sorted(each.tag for each in fromstring(written)) == sorted(
        each.tag for each in fromstring(f"<p>{inner}</p>")
    )
