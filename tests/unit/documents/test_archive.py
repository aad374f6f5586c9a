"""An archive is read as far as it is safe, and what cannot be read is called what it is."""

import io
import zipfile

import pytest

from transformer_cli.documents.archive import Archive
from transformer_cli.errors import DataError


def packed(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


def test_archive_bounds_all_members_that_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer_cli.documents.archive.LARGEST", 1 << 20)
    archive = Archive(packed({"a": bytes(600_000), "b": bytes(600_000), "c": bytes(400_000)}))
    for name in ("a", "c", "a", "c"):  # again and again
        assert archive.read(name)
    with pytest.raises(DataError, match="b: more than 1 MiB with the parts before it; translate the document in parts"):
        archive.read("b")


ENCRYPTED = (
    packed({"a": b"x"})
    .replace(b"PK\3\4\x14\0\0", b"PK\3\4\x14\0\1")
    .replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1")
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(3_000), "an old or a password-protected Office document"),
        (b"", "not a whole ZIP archive .it is empty"),
        (b"Ein Hund.\n", "no ZIP archive, which a .docx is; name it as what it is"),
        (ENCRYPTED, "a: encrypted; save the document without a password"),
    ],
)
def test_archive_that_cannot_be_read_is_called_what_it_is(content: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said):
        Archive(content).read("a")
