"""Word vectors: every kind of text, which words are taken, and what is wrong with a file."""

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tables import read_table
from transformer_cli.errors import DataError
from transformer_cli.text.vectors import Vectors, read_vectors

NO_VECTORS = read_table(Path(__file__).with_name("no_vectors.txt"))
WORDS = ("hund", "läuft", "der", "katze")
PLAIN = "der 0.5 -1 2e-1\nläuft 1 2 3\nDer 7 7 7\nHund 4 5 6\nHUND 8 8 8\n"


def write(path: Path, content: str | bytes) -> Path:
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(path: Path, *, lowercase: bool = False) -> Vectors:
    return read_vectors(path, WORDS, lowercase=lowercase)


def numbers(vectors: Vectors) -> dict[str, list[float]]:
    assert all(vector.shape == (vectors.dimension,) for vector in vectors.by_word.values())
    assert all(vector.dtype == np.float32 for vector in vectors.by_word.values())
    return {word: vector.tolist() for word, vector in vectors.by_word.items()}


@pytest.mark.parametrize(
    "text",
    [
        *(PLAIN, f"{PLAIN}\n", PLAIN.removesuffix("\n"), f"\ufeff{PLAIN}"),  # as of GloVe
        *(f"5 3\n{PLAIN}", f"\ufeff5 3\n{PLAIN}"),  # word2vec
        f"5 3 \n{PLAIN}".replace("\n", " \n"),  # fastText
        *(PLAIN.replace("\n", "\r\n"), PLAIN.replace(" ", "\t")),
    ],
)
def test_read_vectors_of_each_text_format(tmp_path: Path, text: str) -> None:
    vectors = read(write(tmp_path / "vectors.txt", text))
    assert numbers(vectors) == {"läuft": [1, 2, 3], "der": [0.5, -1, pytest.approx(0.2)]}
    assert list(vectors.by_word) == ["läuft", "der"]  # in the order of the wanted words
    assert (vectors.dimension, vectors.n_other_case) == (3, 0)


def test_read_vectors_lowercase_prefers_the_exact_case(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", f"DER 9 9 9\nLÄUFT 1 1 1\n{PLAIN}")
    vectors = read(path, lowercase=True)
    assert numbers(vectors) == {"hund": [4, 5, 6], "läuft": [1, 2, 3], "der": [0.5, -1, pytest.approx(0.2)]}
    assert list(vectors.by_word) == ["hund", "läuft", "der"]
    assert vectors.n_other_case == 1


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"hund 1 2 3\nhund 4 5 6\nl\xe4uft 4 5 6\nder 7 8 9\n", {"hund": [1, 2, 3], "der": [7, 8, 9]}),  # not UTF-8
        ("hund 1 2 3\nder name@domain.com 1 2 3\nder . . 4 5 6\n 7 8 9\n", {"hund": [1, 2, 3]}),  # words with spaces
        ("5 3\nhaus 1 x 3\nhund 1 2 3\nkind\nbaum 1 2\nweg nan 1 2\n", {"hund": [1, 2, 3]}),  # damage that nobody wants
    ],
)
def test_read_vectors_skips_other_words_and_non_words(
    tmp_path: Path, content: str | bytes, found: dict[str, list[int]]
) -> None:
    assert numbers(read(write(tmp_path / "v.txt", content))) == found


@pytest.mark.parametrize(
    "line", ["hund 1 2", "hund", "hund 1 zwei 3", "hund 1 2 nan", "hund -inf 2 3", "hund 1 2 1e39", "Hund 1 2"]
)
@pytest.mark.parametrize("header", ["", "2 3\n"])
def test_read_vectors_names_a_damaged_vector(tmp_path: Path, line: str, header: str) -> None:
    path = write(tmp_path / "v.txt", f"{header}haus 1 2 3\n{line}\n")
    problem = f"line {3 if header else 2}: '{line.split()[0]}' should be a word with 3 finite numbers"
    with pytest.raises(DataError, match=f"^{path}: {problem}; fetch the file again, or delete the line$"):
        read(path, lowercase=True)


@pytest.mark.parametrize(("content", "problem"), [*NO_VECTORS, ("", "no word vectors; each line must be a word and")])
def test_read_vectors_without_vectors_raises_data_error(tmp_path: Path, content: str | bytes, problem: str) -> None:
    path = write(tmp_path / "v.gz", content)
    with pytest.raises(DataError, match=f"^{path}: {problem}"):
        read(path)


def test_read_vectors_keeps_memory_small_with_long_lines(tmp_path: Path) -> None:
    lines = [*(f"w{n}{' 0' * 1_000}\n" for n in range(2_500)), f"hund{f' {1 / 3:.18e}' * 1_000}\n"]  # of 25,000 bytes
    path = write(tmp_path / "v.txt", "".join(lines))
    tracemalloc.start()
    vectors = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (list(vectors.by_word), vectors.dimension) == (["hund"], 1_000)
    assert peak < 1_000_000  # bytes, of the 5 million that went by


@pytest.mark.parametrize("name", ["v.bin", "v.bin.gz", "v.txt"])
def test_read_vectors_binary_raises_data_error(tmp_path: Path, name: str) -> None:
    vectors = np.array([[0.5, -1.0, 0.25], [4.0, 5.0, 6.0]], np.float32)
    words = b"".join(word + vector.tobytes() for word, vector in zip((b"der ", b"hund "), vectors, strict=True))
    path = write(tmp_path / name, b"2 3\n" + words)
    with pytest.raises(DataError, match=f"^{path}: binary word vectors; give them as text, such as fastText's .vec"):
        read(path)
