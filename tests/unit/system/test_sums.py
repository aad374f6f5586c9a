"""Sums of files and of JSON, and the reader of small files: what comes back, and what is refused with which words."""

import os
from pathlib import Path

import pytest

from transformer_cli.errors import FileError, MissingFile
from transformer_cli.system.reading import read_json, read_text, shown
from transformer_cli.system.sums import check_file, check_sum, file_sum, read_sums, sum_of, write_sums


def test_a_sum_is_the_size_and_zlibs_crc(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123456789" * 200_000)  # in two blocks
    (tmp_path / "b").write_bytes(b"123456789")
    assert file_sum(tmp_path / "b") == "9 cbf43926"  # the known check
    assert file_sum(tmp_path / "a") == sum_of(b"123456789" * 200_000)
    write_sums(tmp_path, ["b"])
    assert read_sums(tmp_path) == {"b": "9 cbf43926"}
    write_sums(tmp_path)
    assert set(read_sums(tmp_path)) == {"a", "b"}


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    write_sums(tmp_path)
    check_file(path)
    path.write_bytes(b"abd")
    with pytest.raises(FileError, match=rf"^{path}: damaged: its content is not what was written \(another CRC-32\)$"):
        check_file(path)
    check_sum(path, read_sums(tmp_path)["a"], up_to=2)
    path.write_bytes(b"ab")
    with pytest.raises(FileError, match=f"^{path}: damaged: it has 2 bytes, and was written with 3$"):
        check_sum(path, read_sums(tmp_path)["a"], up_to=2)
    path.unlink()
    with pytest.raises(MissingFile, match=f"^{path}: missing$"):
        check_file(path)
    (tmp_path / "b").touch()
    with pytest.raises(FileError, match=r"b: damaged: sums\.json has no sum of it$"):
        check_file(tmp_path / "b")


def test_not_one_bit_of_the_sums_may_flip(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    write_sums(tmp_path)
    path = tmp_path / "sums.json"
    content, said = path.read_bytes(), []
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            check_file(tmp_path / "a")
        except FileError as error:
            said.append(str(error))
    assert not any("\n" in line for line in said)
    assert len(said) > 7 * len(content)  # a space is as good as a tab


def test_sums_are_of_files_of_their_folder(tmp_path: Path) -> None:
    for content in ('{"../x": "1 00000000"}', "[]", "5"):
        (tmp_path / "sums.json").write_text(content)
        with pytest.raises(FileError, match=r"sums\.json: damaged: it should name files of this folder$"):
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
def test_what_is_no_json_says_where(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=f"^{path}: {message}"):
        read_json(path)


def test_only_files_are_read_and_only_small_ones(tmp_path: Path) -> None:
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


def test_a_value_is_shown_on_one_short_line() -> None:
    assert shown("a\nb") == "'a\\nb'"
    assert shown([1] * 100) == "[" + "1, " * 19 + "1,…"
