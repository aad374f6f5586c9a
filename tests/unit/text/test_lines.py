"""Lines of text: where they end, what is taken off them, and what cannot be read."""

import gzip
from pathlib import Path

import pytest

from transformer_cli.config.schema import MAX_LINE_CHARS
from transformer_cli.errors import DataError
from transformer_cli.text.lines import MAX_LINE_BYTES, count_lines, is_too_long, read_lines, truncated_lines, zip_lines


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        *(("", []), ("\n", [""]), ("a\nb\n", ["a", "b"]), ("a\nb", ["a", "b"]), ("a\r\nb\r", ["a", "b"])),
        ("a\r\r\n b\rc ", ["a\r", " b\rc "]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n", ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"]),
        ("\ufeffa\n\ufeffb\n", ["a", "\ufeffb"]),
        ("\ufeff\ufeffa", ["\ufeffa"]),
    ],
)
def test_read_lines_splits_at_line_feeds_only(tmp_path: Path, name: str, text: str, lines: list[str]) -> None:
    path = write(tmp_path / name, text.encode())
    assert list(read_lines(path)) == lines
    assert path.suffix == ".gz" or count_lines(path) == len(lines)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.txt", None, "cannot be read: No such file or directory; correct the path or its permissions"),
        ("plain.gz", b"plain",
         r"incomplete or damaged gzip file \(Not a gzipped file.*\); copy it again, or take \.gz off"),
        ("half.gz", gzip.compress(b"text", mtime=0)[:-3], r"incomplete or damaged gzip file \(Compressed file ended"),
    ],
)  # fmt: skip
def test_truncated_lines_unreadable_file_raises_data_error(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"^{tmp_path / name}: {message}"):
        list(read_lines(tmp_path / name))


@pytest.mark.parametrize(("n_source", "n_target"), [(2, 3), (3, 2), (0, 1)])
def test_zip_lines_of_unequal_files_reports_both_counts(tmp_path: Path, n_source: int, n_target: int) -> None:
    source, target = write(tmp_path / "s", b"a\n" * n_source), write(tmp_path / "t", b"b\n" * n_target)
    message = rf"^{source} has {n_source} lines, {target} has {n_target}; line n must translate line n$"
    with pytest.raises(DataError, match=message):
        list(zip_lines(source, target, read_lines))


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("letter", ["a", "ä", "犬", "🐕"])
def test_read_lines_one_character_too_long_raises_data_error(tmp_path: Path, name: str, end: str, letter: str) -> None:
    longest = letter * MAX_LINE_CHARS
    path = write(tmp_path / name, f"\ufeff{longest}\r\nb\n{longest}{end}".encode())
    assert list(read_lines(path)) == [longest, "b", longest]
    path = write(tmp_path / name, f"\ufeff{longest}b\r\nb\n{longest}{letter}{end}".encode())
    assert list(truncated_lines(path)) == [f"{longest}b", "b", longest + letter]
    with pytest.raises(DataError, match=rf"^{path}: line 1 has more than 4,000 characters; split it$"):
        list(read_lines(path))


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
@pytest.mark.parametrize("letter", ["a", "🐕"])
@pytest.mark.parametrize("excess", [0, 3 * MAX_LINE_BYTES - 1, 1 << 20])
def test_truncated_lines_truncates_a_long_line(tmp_path: Path, name: str, letter: str, excess: int) -> None:
    long = letter * (MAX_LINE_BYTES // len(letter.encode()) + excess)
    path = write(tmp_path / name, f"a\n{long}\n\n{long}".encode())
    lines = list(truncated_lines(path))
    assert lines == ["a", letter * (MAX_LINE_CHARS + 1), "", letter * (MAX_LINE_CHARS + 1)]
    assert [is_too_long(line) for line in lines] == [False, True, False, True]
