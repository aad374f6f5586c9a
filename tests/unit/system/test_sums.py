"""Sums of files and of JSON, and the reader of small files: what comes back, and what is refused with which words."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.errors import FileError, MissingFile
from transformer_cli.system.reading import as_record, look_up, parse_json, read_json, read_text, shown
from transformer_cli.system.sums import check_file, file_sum, file_sums, read_sealed, text_sum, write_sealed


def test_a_sum_is_the_size_and_zlibs_crc(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123456789" * 200_000)  # in two blocks
    (tmp_path / "b").write_bytes(b"123456789")
    assert file_sum(tmp_path / "b") == {"bytes": 9, "crc32": "cbf43926"} == file_sums(tmp_path)["b"]  # the known check
    assert file_sum(tmp_path / "a")["crc32"] == text_sum("123456789" * 200_000)
    check_file(tmp_path / "b", file_sums(tmp_path, ["b"]))


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    sums = file_sums(tmp_path)
    path.write_bytes(b"abd")
    with pytest.raises(FileError, match=rf"^{path}: damaged: its content is not what was written \(another CRC-32\)$"):
        check_file(path, sums)
    check_file(path, sums, up_to=2)
    path.write_bytes(b"ab")
    with pytest.raises(FileError, match=f"^{path}: damaged: it has 2 bytes, and was written with 3$"):
        check_file(path, sums, up_to=2)
    path.unlink()
    with pytest.raises(MissingFile, match=f"^{path}: missing$"):
        check_file(path, sums)
    with pytest.raises(FileError, match="b: there is no sum of it"):
        check_file(tmp_path / "b", sums)


def test_what_is_sealed_comes_back_and_not_one_bit_may_flip(tmp_path: Path) -> None:
    path = tmp_path / "sealed.json"
    value = {"b": [1, 0.1, None, "ä"], "a": {"x": True}, "files": {"f": {"bytes": 1, "crc32": "0"}}}
    assert read_sealed_after(path, value) == {**value, "sum": read_sealed(path)["sum"]}
    content, said = path.read_bytes(), []
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert read_sealed(path) == {**value, "sum": json.loads(content)["sum"]}  # a space is as good as a tab
        except FileError as error:
            said.append(str(error))
    assert len(said) > 6 * len(content)
    assert all(line.startswith(f"{path}: ") and "\n" not in line for line in said)


def read_sealed_after(path: Path, value: dict[str, Any]) -> dict[str, Any]:
    write_sealed(path, value)
    return read_sealed(path)


@dataclass
class Inner:
    a: float


@dataclass
class Outer:
    n: int
    x: float | None
    inner: Inner
    numbers: list[int]


GOOD = {"n": 1, "x": 0.5, "inner": {"a": 2}, "numbers": [1, 2]}


def test_a_record_has_its_fields_and_their_types() -> None:
    assert as_record(Outer, GOOD) == Outer(1, 0.5, Inner(2.0), [1, 2])
    assert as_record(Outer, {**GOOD, "x": None}).x is None
    assert type(as_record(Outer, GOOD).inner.a) is float


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": "x"}, "n: 'x' should be a whole number"),
        ({"n": 1.0}, "n: 1.0 should be a whole number"),
        ({"n": True}, "n: true should be a whole number"),
        ({"n": -5}, "n: -5 should be at least 0"),
        ({"n": None}, "n: null should be a whole number"),
        ({"x": float("inf")}, "x: Infinity should be at least 0"),
        ({"x": float("nan")}, "x: NaN should be at least 0"),
        ({"x": 10**400}, "x: 1000"),
        ({"x": []}, r"x: \[\] should be a number or null"),
        ({"inner": {}}, "inner.a is missing"),
        ({"inner": 5}, "inner: 5 should be an object with keys"),
        ({"inner": {"a": 1, "b": 2}}, "inner.'b' is not a key that belongs here"),
        ({"numbers": 5}, "numbers: 5 should be a list"),
        ({"numbers": [1, "x"]}, "numbers: 'x' should be a whole number"),
        ({"more": 5}, "'more' is not a key that belongs here"),
    ],
    ids=str,
)
def test_anything_else_is_no_record(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        as_record(Outer, {**GOOD, **change})


def test_what_is_looked_up_is_of_its_type() -> None:
    assert look_up({"a": {"b": 3}}, "a.b", int) == 3
    for value, message in (
        ({}, "a.b is missing"),
        ({"a": 1}, "a.b is missing"),
        ({"a": {"b": "x"}}, "a.b: 'x' should"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            look_up(value, "a.b", int)
    with pytest.raises(ValueError, match="a: 5 should be an object with keys"):
        look_up({"a": 5}, "a", dict)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty, but should be JSON"),
        (b"{", "not JSON at line 1, column 2"),
        (b"\n\xff", "line 2: byte 0xff is not UTF-8"),
        (b"[" * 100_000, "not JSON that tfm has written: its brackets are nested too deeply"),
        (b"[NaN]", "NaN is not a number that JSON has"),
        (b"9" * 5000, "Exceeds the limit"),
    ],
    ids=["empty", "cut", "not UTF-8", "deep", "NaN", "long number"],
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
    assert shown(parse_json("[" * 900 + "]" * 900)).startswith("[[[")
