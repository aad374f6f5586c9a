"""Documents: their translation, what is refused before it is parsed, and the download."""

import io
import time
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from served import Answer, Running, running
from transformer_cli import Translator
from transformer_cli.adapters.documents import uploads
from transformer_cli.adapters.documents.files import format_by_name
from transformer_cli.adapters.serve import documents
from transformer_cli.adapters.serve.request_bodies import Limits

KIND = "multipart/form-data; boundary=b"
FIELDS = {"source": "de", "target": "en"}
TEXT = "Der Hund singt. Das Kind läuft.\nDie 7 Frauen.\n".encode()
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def form(name: str | None, content: bytes, disposition: str = 'name="file"; filename="{}"', **fields: str) -> bytes:
    """A form as `curl -F` and browsers send it."""
    found = [(f'name="{key}"', value.encode()) for key, value in fields.items()]
    found += [] if name is None else [(disposition.format(name), content)]
    parts = (b"--b\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % (head.encode(), part) for head, part in found)
    return b"".join(parts) + b"--b--\r\n"


def send(served: Running, name: str | None, content: bytes = TEXT, **fields: str) -> Answer:
    return served.ask("/translate_file", form(name, content, **{**FIELDS, **fields}), Content_Type=KIND)


def download(served: Running, answer: Answer) -> Answer:
    return served.ask(urlsplit(answer.body["translatedFileUrl"]).path)


def archive(**members: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in members.items():
            new.writestr(name.replace("__", "/"), content)
    return written.getvalue()


DOCX = {
    "[Content_Types].xml": f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    f'<Override PartName="/word/document.xml" ContentType="{WORD}"/></Types>'.encode(),
    "word__document.xml": b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    b"<w:p><w:r><w:t>Der Hund singt.</w:t></w:r></w:p></w:body></w:document>",
}


@pytest.mark.parametrize(
    ("name", "content", "returned"),
    [
        ("Brief an Anna.txt", TEXT, "Brief_an_Anna_en.txt"),
        ("C:\\Größe.HTML", b"<p>Der <b>Hund</b> singt.</p>", "Größe_en.HTML"),
        ("../../a.b.srt", b"1\n00:00:01,000 --> 00:00:02,000\nDer Hund singt.\n", "a.b_en.srt"),
        ("x.po", b'msgid "Der Hund"\nmsgstr ""\n', "x_en.po"),
        ("x.docx", archive(**DOCX), "x_en.docx"),
        ("=?utf-8?B?R3LDtsOfZS50eHQ=?=\"; filename*=utf-8''Gr%C3%B6%C3%9Fe.txt; a=\"", TEXT, "Größe_en.txt"),  # .NET's
    ],
)
def test_translate_file_is_downloaded_under_its_name(
    served: Running, translator: Translator, name: str, content: bytes, returned: str
) -> None:
    answer = send(served, name, content)
    address = answer.body["translatedFileUrl"]
    assert address.startswith(f"{served.url}/download_file/")
    with urllib.request.urlopen(address, timeout=600) as file:
        assert file.headers.get_filename() == returned
        found = file.read()
    assert found == translator.translate_file(content, str(format_by_name(Path(returned)))).content


def test_translate_file_lists_what_to_check(served: Running, translator: Translator) -> None:
    expected = translator.translate_file(TEXT, "text")
    body = send(served, "a.txt", glossary='{"Hund": "Zyx"}').body
    assert body["warnings"] == []
    assert [each["check"] for each in body["to_check"] if each["place"] == "line 2"] == [expected.texts[1].to_check]
    assert body["summary"].startswith("2 texts translated, ")
    (first,) = send(served, "a.html", b"<p lang=de>Die 7 Frauen.", source="auto").body["to_check"]
    assert (first["place"], first["source"]) == ("line 1", "Die 7 Frauen.")


BOMB = archive(**{**DOCX, "word__document.xml": b" " * (uploads.MAX_UNPACKED_BYTES + 1)})


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        (None, b"", "Invalid request: missing file parameter"),
        ("", b"", "Invalid request: file format not supported"),
        ("a.exe", TEXT, "Invalid request: file format not supported"),
        ("a.txt.gz", TEXT, "Invalid request: file format not supported"),
        ("a.txt", archive(**DOCX), "a.txt: a Word document"),
        ("a.docx", TEXT, "not a ZIP archive, as its name says"),
        ("a.docx", archive(**DOCX)[:-30], "not a complete ZIP archive"),
        ("a.docx", BOMB, "word/document.xml: more than 16 MiB"),
        ("a.html", b"<p>" * 120_001, "more than 120,000 lines and tags"),
        ("a.html", b"<meta charset=cp037>" + ("<p>A" * 120_001).encode("cp037"), "byte 22 is not UTF-8"),
        ("a.txt", b"a\n" * 60_000 + b"{" * 60_001, "more than 120,000 lines and tags"),
        ("a.json", b'{"a": "' + rb"A\n" * 120_000 + b'"}', "more than 120,000 lines and tags"),
        ("a.po", rb"A\t" * 120_001, "more than 120,000 lines and tags"),
        ("a.xlf", b"A\t&#010;" * 60_001, "more than 120,000 lines and tags"),
        ("a.md", b"|*a*" * 40_001, "more than 120,000 lines and tags"),
        ("a.ipynb", rb'{"a\n\n' * 40_001, "more than 120,000 lines and tags"),
        ("a.docx", archive(**{**DOCX, "word__a.dat": b"A\t" * 600_005}), "more than 120,000 lines and tags"),
        ("a.txt", b"a" * 300_001, "300,001 characters of text, where at most 300,000"),
        ("a.txt", b"a" * (2 << 20) + b"a", "Invalid request: request (2097153) exceeds text limit (2097152) of bytes"),
    ],
)
def test_translate_file_refused_document_returns_400(
    served: Running, name: str | None, content: bytes, error: str
) -> None:
    answer = send(served, name, content)
    assert (answer.status, answer.body["error"][: len(error)]) == (400, error)


def test_translate_file_parts_of_other_clients_are_read(served: Running) -> None:
    of_curl = 'name="file"; filename="a.txt"; filename*=utf-8\'\'a.txt'
    of_dotnet = "name=file; filename=a.txt; filename*=utf-8''a.txt"
    for head in (of_curl, of_dotnet, "name=file; filename=a.txt\r\nContent-Type: a/b"):
        answer = served.ask("/translate_file", form("", TEXT, head, **FIELDS), Content_Type=KIND)
        assert answer.body["translatedFileUrl"].endswith(".a_en.txt")
    assert served.ask("/translate_file", form(None, b"", file="a", **FIELDS), Content_Type=KIND).status == 400


def test_translate_file_sentence_beyond_the_token_limit_is_cut(translator: Translator) -> None:
    with running(translator, limits=Limits(line_tokens=7)) as small:  # and so are translations
        found = download(small, send(small, "a.txt", "Der Hund singt, das Kind läuft.".encode()))
    parts = translator.translate_detailed(["Der Hund singt,", "das Kind läuft."])
    expected = [" ".join(part.tokens[:7]) for part in parts]
    assert found.body == " ".join(expected).replace(" .", ".").replace(" ,", ",")
    assert found.body != translator.translate("Der Hund singt, das Kind läuft.")


def test_download_file_needs_the_name_within_ten_minutes(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(translator, api_key="k", limits=Limits(file_bytes=100)) as found:
        assert send(found, "a.txt").status == 400
        assert send(found, "a.txt", TEXT * 9, api_key="k").status == 400
        answer = send(found, "a.txt", api_key="k")
        assert download(found, answer).headers["content-disposition"] == "attachment; filename*=UTF-8''a_en.txt"
        assert found.ask("/download_file/a_en.txt").status == 404
        monkeypatch.setattr(documents, "MAX_KEPT_BYTES", 1)
        full = send(found, "a.txt", api_key="k")
        assert (full.status, full.headers["retry-after"]) == (503, "1")
        now = time.monotonic()
        monkeypatch.setattr("transformer_cli.adapters.serve.documents.monotonic", lambda: now + 601)
        assert download(found, answer).status == 404
        assert send(found, "a.txt", api_key="k").status == 200  # there is room again
