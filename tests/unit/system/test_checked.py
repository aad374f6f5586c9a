"""Sums of files and of JSON, and the reader of small files: what comes back, and what is refused with which words."""

import os
from pathlib import Path

import pytest

from transformer_cli.errors import FileError, MissingFile
from transformer_cli.system.checked import check_file, read_json, read_sums, read_text, shown, sum_of, write_sums

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1


def test_write_sums_is_what_sha256sum_writes(tmp_path: Path) -> None:
    (tmp_path / "a b").write_bytes(b"abc")
    (tmp_path / "c").write_bytes(b"123456789" * 200_000)
    write_sums(tmp_path, ["a b"])
    assert (tmp_path / "SHA256SUMS").read_text() == f"{ABC}  a b\n"
    assert read_sums(tmp_path) == {"a b": ABC}
    assert sum_of(b"abc") == ABC
    write_sums(tmp_path)
    assert set(read_sums(tmp_path)) == {"a b", "c"}


def test_check_file_of_another_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    write_sums(tmp_path)
    check_file(path)
    for content in (b"abd", b"ab"):
        path.write_bytes(content)
        with pytest.raises(
            FileError, match=rf"^{path}: damaged: its content is not what was written \(another SHA-256\)$"
        ):
            check_file(path)
    path.unlink()
    with pytest.raises(MissingFile, match=f"^{path}: missing$"):
        check_file(path)
    (tmp_path / "b").touch()
    with pytest.raises(FileError, match=r"b: damaged: SHA256SUMS has no sum of it$"):
        check_file(tmp_path / "b")


def test_check_file_refuses_any_flipped_bit_of_the_sums(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    write_sums(tmp_path)
    path = tmp_path / "SHA256SUMS"
    content, said = path.read_bytes(), []
    for bit in range(8 * (len(content) - 1)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(FileError) as caught:
            check_file(tmp_path / "a")
        said.append(str(caught.value))
    assert not any("\n" in line for line in said)


def test_read_sums_refuses_files_of_another_folder(tmp_path: Path) -> None:
    for content in (f"{ABC}  ../x\n", "[]", f"{ABC} x", f"{ABC.upper()}  x"):
        (tmp_path / "SHA256SUMS").write_text(content)
        with pytest.raises(
            FileError, match=r"SHA256SUMS: line 1: damaged: it should be a SHA-256 and the name of a file"
        ):
            read_sums(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty, but should be JSON"),
        (b"{", "not JSON: .*: line 1 column 2"),
        (b"\n\xff", "line 2: byte 0xff is not UTF-8"),
        (b"[" * 100_000, "not JSON: "),
        (b"9" * 5000, "not JSON: Exceeds the limit"),
    ],
    ids=["empty", "cut", "not UTF-8", "deep", "long number"],
)
def test_read_json_of_what_is_no_json_says_where(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=f"^{path}: {message}"):
        read_json(path)


def test_read_text_of_no_file_or_a_large_one_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"12345")
    for name, message in (
        ("pipe", "not a file, but a pipe or a device"),
        ("", "not a file, but a folder"),
        ("none", "missing"),
        ("large", "more than 4 bytes, so it is not what it should be"),
    ):
        with pytest.raises(FileError, match=f"{message}$"):
            read_text(tmp_path / name, most=4)
    with pytest.raises(FileError, match="not a file, but a pipe or a device"):
        read_text(Path("/dev/zero"))


def test_shown_is_one_short_line() -> None:
    assert shown("a\nb") == "'a\\nb'"
    assert shown([1] * 100) == "[" + "1, " * 19 + "1,…"
