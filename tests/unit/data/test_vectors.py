"""Word vectors: every kind of file, which words are taken, and what is wrong with a file."""

import gzip
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from transformer_cli.data import vectors as module
from transformer_cli.data.vectors import Vectors, read_vectors
from transformer_cli.errors import DataError

WORDS = ("hund", "läuft", "der", "katze")
PLAIN = "der 0.5 -1 2e-1\nläuft 1 2 3\nDer 7 7 7\nHund 4 5 6\nHUND 8 8 8\n"


def write(path: Path, content: str | bytes) -> Path:
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(path: Path, *, lowercase: bool = False) -> Vectors:
    return read_vectors(str(path), WORDS, lowercase=lowercase)


def numbers(vectors: Vectors) -> dict[str, list[float]]:
    assert all(vector.shape == (vectors.dimension,) for vector in vectors.found.values())
    assert all(vector.dtype == np.float32 for vector in vectors.found.values())
    return {word: vector.tolist() for word, vector in vectors.found.items()}


def test_numbers_may_have_many_digits(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "long.vec", np.full((1, 1000), 1 / 3), fmt="%.18e", header="hund", comments="", newline=" ")
    text = (tmp_path / "long.vec").read_text("utf-8").replace("\n", " ")
    assert len(text) > 20_000
    assert read(write(tmp_path / "long.vec", text)).dimension == 1000


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"5 3\n{PLAIN}",
        f"\ufeff5 3\n{PLAIN}",
        f"\ufeff{PLAIN}",
        f"5 3 \n{PLAIN}".replace("\n", " \n"),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace(" ", "\t"),
        f"{PLAIN}\n",
        PLAIN.removesuffix("\n"),
    ],
    ids=["GloVe", "word2vec", "mark header", "mark", "fastText", "CRLF", "tabs", "empty line", "no last end"],
)
def test_text_files_of_every_kind(tmp_path: Path, text: str) -> None:
    vectors = read(write(tmp_path / "vectors.txt", text))
    assert numbers(vectors) == {"läuft": [1, 2, 3], "der": [0.5, -1, pytest.approx(0.2)]}
    assert list(vectors.found) == ["läuft", "der"]  # in the order of the wanted words
    assert (vectors.dimension, vectors.n_other_case) == (3, 0)


def test_lower_cased_words_take_an_exact_match_or_else_the_first_of_another_case(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", f"DER 9 9 9\nLÄUFT 1 1 1\n{PLAIN}")
    vectors = read(path, lowercase=True)
    assert numbers(vectors) == {"hund": [4, 5, 6], "läuft": [1, 2, 3], "der": [0.5, -1, pytest.approx(0.2)]}
    assert list(vectors.found) == ["hund", "läuft", "der"]
    assert vectors.n_other_case == 1


def test_a_word_that_is_not_utf_8_is_not_wanted(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", b"hund 1 2 3\nhund 4 5 6\nhund seven\nl\xe4uft 4 5 6\nder 7 8 9\n")
    assert numbers(read(path, lowercase=True)) == {"hund": [1, 2, 3], "der": [7, 8, 9]}  # of hund the first


def test_a_word_with_spaces_is_not_its_first_part(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", "läuft 1 2 3\nder name@domain.com 1 2 3\nder . . 4 5 6\n 7 8 9\nder 1 1 1\n")
    assert numbers(read(path)) == {"läuft": [1, 2, 3], "der": [1, 1, 1]}


def test_only_wanted_lines_are_parsed(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", "5 3\nhaus 1 x 3\nhund 1 2 3\nkind\nbaum 1 2\nweg nan 1 2\n")
    assert numbers(read(path)) == {"hund": [1, 2, 3]}


@pytest.mark.parametrize(
    "line",
    ["hund 1 2", "hund", "hund 1 zwei 3", "hund 1 2 nan", "hund -inf 2 3", "hund 1 2 1e39", "Hund 1 2"],
)
@pytest.mark.parametrize("header", ["", "2 3\n"])
def test_a_damaged_vector_of_a_wanted_word_is_named(tmp_path: Path, line: str, header: str) -> None:
    path = write(tmp_path / "v.txt", f"{header}haus 1 2 3\n{line}\n")
    problem = f"line {3 if header else 2}: '{line.split()[0]}' should be a word with 3 finite numbers"
    with pytest.raises(DataError, match=f"^{path}: {problem}; fetch the file again, or delete the line$"):
        read(path, lowercase=True)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "not one word vector; a line is a word and its numbers"),
        ("\n\n", "not one word vector"),
        ("ein Hund läuft\n", "line 1: 'ein' should be a word with 2 finite numbers"),
        ("hund\n", "line 1: 'hund' should be a word with its finite numbers"),
        ("2 0\nhund\n", "line 2: 'hund' should be a word with its finite numbers"),
    ],
)
def test_a_file_without_vectors(tmp_path: Path, content: str | bytes, problem: str) -> None:
    path = write(tmp_path / "v.gz", content)
    with pytest.raises(DataError, match=f"^{path}: {problem}"):
        read(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("none.txt", "none.bin", "none.gz"):
        with pytest.raises(DataError, match=rf"^{tmp_path / name}: cannot be read: No such file"):
            read(tmp_path / name)
    (tmp_path / "half.gz").write_bytes(gzip.compress(PLAIN.encode())[:-3])
    with pytest.raises(DataError, match=rf"^{tmp_path / 'half.gz'}: not a whole gzip file"):
        read(tmp_path / "half.gz")


def test_memory_holds_only_the_wanted_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n_lines = 20_000

    def lines(path: Path, most: int) -> Iterator[bytes]:
        for number in range(n_lines):
            yield b"%s %s\n" % (b"hund" if number == n_lines - 1 else b"w%d" % number, b"0.25 " * 100)

    monkeypatch.setattr(module, "byte_lines", lines)
    tracemalloc.start()
    vectors = read(tmp_path / "v.txt", lowercase=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(vectors.found) == ["hund"]
    assert peak < 1_000_000  # bytes, of the 10 million that went by


def test_binary_vectors_are_refused(tmp_path: Path) -> None:
    content = b"1 3\nhund " + np.array([1, 2, 3], np.float32).tobytes() + b"\n"
    for name in ("v.bin", "v.bin.gz"):
        with pytest.raises(DataError, match=rf"^{tmp_path / name}: binary vectors; write them as text"):
            read(write(tmp_path / name, content))
