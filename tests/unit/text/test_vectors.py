"""Word vectors: every kind of file, which words are taken, what is wrong with a file, and what needs gensim."""

import gzip
import json
import sys
import tracemalloc
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest

from transformer_cli.errors import DataError, DownloadError
from transformer_cli.text.vectors import Vectors, read_vectors

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


def write_binary(path: Path, words: dict[str, list[float]]) -> Path:
    from gensim.models import KeyedVectors

    vectors = KeyedVectors(3)
    vectors.add_vectors(list(words), np.array(list(words.values()), np.float32))
    vectors.save_word2vec_format(str(path), binary=True)
    return path


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
def test_read_vectors_text_of_every_kind_gives_the_wanted_words(tmp_path: Path, text: str) -> None:
    vectors = read(write(tmp_path / "vectors.txt", text))
    assert numbers(vectors) == {"läuft": [1, 2, 3], "der": [0.5, -1, pytest.approx(0.2)]}
    assert list(vectors.found) == ["läuft", "der"]  # in the order of the wanted words
    assert (vectors.dimension, vectors.n_other_case) == (3, 0)


def test_read_vectors_lower_cased_words_take_an_exact_match_or_else_the_first_of_another_case(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", f"DER 9 9 9\nLÄUFT 1 1 1\n{PLAIN}")
    vectors = read(path, lowercase=True)
    assert numbers(vectors) == {"hund": [4, 5, 6], "läuft": [1, 2, 3], "der": [0.5, -1, pytest.approx(0.2)]}
    assert list(vectors.found) == ["hund", "läuft", "der"]
    assert vectors.n_other_case == 1


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"hund 1 2 3\nhund 4 5 6\nl\xe4uft 4 5 6\nder 7 8 9\n", {"hund": [1, 2, 3], "der": [7, 8, 9]}),  # not UTF-8
        ("hund 1 2 3\nder name@domain.com 1 2 3\nder . . 4 5 6\n 7 8 9\n", {"hund": [1, 2, 3]}),  # words with spaces
        ("5 3\nhaus 1 x 3\nhund 1 2 3\nkind\nbaum 1 2\nweg nan 1 2\n", {"hund": [1, 2, 3]}),  # damage that nobody wants
    ],
)
def test_read_vectors_leaves_out_what_is_not_wanted_or_no_word(
    tmp_path: Path, content: str | bytes, found: dict[str, list[int]]
) -> None:
    assert numbers(read(write(tmp_path / "v.txt", content))) == found


@pytest.mark.parametrize(
    "line",
    ["hund 1 2", "hund", "hund 1 zwei 3", "hund 1 2 nan", "hund -inf 2 3", "hund 1 2 1e39", "Hund 1 2"],
)
@pytest.mark.parametrize("header", ["", "2 3\n"])
def test_read_vectors_damaged_vector_of_a_wanted_word_is_named(tmp_path: Path, line: str, header: str) -> None:
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
def test_read_vectors_file_without_vectors_is_refused(tmp_path: Path, content: str | bytes, problem: str) -> None:
    path = write(tmp_path / "v.gz", content)
    with pytest.raises(DataError, match=f"^{path}: {problem}"):
        read(path)


def test_read_vectors_holds_only_the_wanted_words_and_lines_of_any_length(tmp_path: Path) -> None:
    lines = [*(f"w{n}{' 0' * 1_000}\n" for n in range(2_500)), f"hund{f' {1 / 3:.18e}' * 1_000}\n"]  # of 25,000 bytes
    path = write(tmp_path / "v.txt", "".join(lines))
    tracemalloc.start()
    vectors = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (list(vectors.found), vectors.dimension) == (["hund"], 1_000)
    assert peak < 1_000_000  # bytes, of the 5 million that went by


@pytest.mark.parametrize("name", ["v.bin", "v.bin.gz"])
def test_read_vectors_binary_gives_what_gensim_wrote(tmp_path: Path, name: str) -> None:
    words = {"der": [0.5, -1.0, 0.25], "Hund": [4.0, 5.0, 6.0], "HUND": [1.0, 1.0, 1.0], "läuft": [1.0, 2.0, 3.0]}
    path = write_binary(tmp_path / name, words)
    vectors = read(path, lowercase=True)
    assert numbers(vectors) == {"hund": words["Hund"], "läuft": words["läuft"], "der": words["der"]}
    assert (vectors.dimension, vectors.n_other_case) == (3, 1)
    assert list(read(path).found) == ["läuft", "der"]
    assert all(vector.base is None for vector in vectors.found.values())  # the whole matrix can go


@pytest.mark.parametrize("content", [b"", b"hund 1 2 3\n", b"4 3\nhund 1234", b"99999999999999 300\n", b"\xff\xff\0"])
def test_read_vectors_binary_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "v.bin", content)
    with pytest.raises(DataError, match=rf"^{path}: not a complete binary word2vec file \(.+\); fetch it again"):
        read(path)


def test_read_vectors_binary_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    path = write_binary(tmp_path / "v.bin", {"haus": [np.nan, 0, 0], "hund": [0, np.inf, 0]})
    with pytest.raises(DataError, match=rf"^{path}: the vector of 'hund' has a value that is not a finite number"):
        read(path)
    assert list(read_vectors(str(path), ["weg"], lowercase=False).found) == []


@pytest.mark.parametrize("where", ["v.bin", "glove-twitter-25"])
def test_read_vectors_without_gensim_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    where = str(write(tmp_path / where, "")) if "." in where else where
    monkeypatch.setitem(sys.modules, "gensim", None)
    message = rf"^{where}: binary files and names need gensim; run `pip install 'gensim>=4\.4'`$"
    with pytest.raises(DataError, match=message):
        read_vectors(where, WORDS, lowercase=False)
    assert list(read(write(tmp_path / "v.vec", PLAIN)).found) == ["läuft", "der"]  # text needs none


class TestNames:
    """gensim's downloader without a network: what it has fetched before lies in a folder."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        from gensim import downloader

        def fail(*_: object) -> None:
            raise URLError("no network")

        monkeypatch.setattr(downloader, "BASE_DIR", str(tmp_path))
        monkeypatch.setattr(downloader, "urlopen", fail)
        monkeypatch.setattr(downloader.urllib, "urlretrieve", fail)
        models = {name: {"file_name": f"{name}.gz"} for name in ("glove-tiny-3", "word2vec-tiny-3", "glove-absent-3")}
        known = {"models": models, "corpora": {"text8": {"file_name": "text8.gz"}}}
        (tmp_path / "information.json").write_text(json.dumps(known), encoding="utf-8")
        return tmp_path

    def test_read_vectors_by_name_takes_text_and_binary_files_both_called_gz(self, folder: Path) -> None:
        for name in ("glove-tiny-3", "word2vec-tiny-3"):
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text("raise AssertionError('downloaded code was run')")
        write(folder / "glove-tiny-3/glove-tiny-3.gz", f"5 3\n{PLAIN}")
        write_binary(folder / "word2vec-tiny-3/word2vec-tiny-3.gz", {"der": [0, 0, 1], "hund": [1, 2, 3]})
        assert list(read_vectors("glove-tiny-3", WORDS, lowercase=False).found) == ["läuft", "der"]
        assert numbers(read_vectors("word2vec-tiny-3", WORDS, lowercase=False)) == {"hund": [1, 2, 3], "der": [0, 0, 1]}

    def test_read_vectors_by_name_downloads_without_standard_output(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from gensim import downloader

        def load(name: str, return_path: bool) -> str:
            print("100.0%")  # noqa: T201 (as gensim does)
            assert return_path  # else it runs code that it has downloaded
            return str(write(folder / "far.gz", PLAIN))

        monkeypatch.setattr(downloader, "load", load)
        assert list(read_vectors("glove-absent-3", WORDS, lowercase=False).found) == ["läuft", "der"]
        assert capsys.readouterr() == ("", "100.0%\n")

    def test_read_vectors_by_a_name_that_is_unknown_or_cannot_be_fetched_is_one_line(self, folder: Path) -> None:
        said = "^text8: gensim's downloader has no vectors of this name; it has glove-.*word2vec-tiny-3; to "
        with pytest.raises(DownloadError, match=said):
            read_vectors("text8", WORDS, lowercase=False)
        for _ in range(2):  # with the list of names and without it
            with pytest.raises(DownloadError, match=r"^glove-absent-3: gensim could not fetch these .*\(.+\); try"):
                read_vectors("glove-absent-3", WORDS, lowercase=False)
            (folder / "information.json").unlink(missing_ok=True)
