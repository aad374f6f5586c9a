"""Formats of several files in an archive: what is translated of each part, and what stays byte for byte.

In the parts in archives.txt, «text» is translated, and ‹before|after› is what else changes.
"""

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from oracles.translators import backwards, turned
from tables import read_sections
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


SECTIONS = read_sections(Path(__file__).with_name("archives.txt"))


def parts_of(form: str) -> dict[str, str]:
    """The parts of a document in archives.txt."""
    found = {title.removeprefix(f"{form} "): text for title, text in SECTIONS.items() if title.startswith(f"{form} ")}
    spaces = SECTIONS.get(f"namespaces of {form}", "")
    lines = {name: text.replace("{NAMESPACES}", spaces) for name, text in found.items()}
    return {name: text.replace("\n", "").replace("⇥", "\t") for name, text in lines.items()}


ODF, EPUB, SLIDES = map(parts_of, ("odf", "epub", "pptx"))
OFFICE = "application/vnd.openxmlformats-officedocument."
NAMED = "".join(f'<Override PartName="/{kind}" ContentType="{OFFICE}{kind}+xml"/>' for kind in SLIDES)
PPTX = {
    "[Content_Types].xml": f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{NAMED}</Types>',
    "ppt/vbaProject.bin": "a",
    **SLIDES,
}
DRM = '<x:CipherReference xmlns:x="http://www.w3.org/2001/04/xmlenc#" URI="O/t/eins%201.xhtml"/>'
LOCKED = {**ODF, "META-INF/manifest.xml": f"<manifest:encryption-data {SECTIONS['namespaces of odf']}/>"}


@pytest.mark.parametrize(("file_format", "parts"), [("pptx", PPTX), ("odf", ODF), ("epub", EPUB)])
def test_archive_format_translates_its_parts_and_keeps_the_rest(file_format: str, parts: Parts, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(packed(parts))
    content = read_content(tmp_path / "a", FORMATS[file_format])
    opened = PARSERS[file_format](content, ("de", "en"), TranslationSettings())
    written = opened.render([turned(block) for block in opened.blocks])
    with zipfile.ZipFile(io.BytesIO(written)) as new:
        found = {name: new.read(name).decode() for name in new.namelist()}
        assert found == {name: translated(text) for name, text in parts.items()}
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


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("_xmlsignatures/a.xml", "", "has a digital signature, which is not valid for the translation"),
        ("word/_rels/document.xml.rels", '<a Type="x/aFChunk" Target="a.html"/>', "has pages that Word inserts when"),
    ],
)
def test_archive_part_that_is_not_translated_gets_a_warning(name: str, content: str, said: str) -> None:
    opened = PARSERS["pptx"](packed({**PPTX, name: content}), ("de", "en"), TranslationSettings())
    assert [warning[: len(said)] for warning in opened.warnings] == [said]


@pytest.mark.parametrize(
    "inner", ["ein <i>roter<br/>Hund</i> da <b>so<br/>Dann</b>", "<i>a<br/>B</i> c <b><i>d</i> e<br/>F</b>"]
)
def test_archive_page_stays_well_formed_when_words_move(inner: str) -> None:
    document = parse_html(f"<p>{inner}</p>")
    written = document.render([backwards(block) for block in document.blocks])
    tags = [sorted(each.tag for each in fromstring(text)) for text in (written, f"<p>{inner}</p>")]
    assert tags[0] == tags[1]
