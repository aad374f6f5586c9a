"""Reads pretrained vectors of wanted words, from a file or by a name that gensim's downloader knows.

Knows words and numbers, nothing of embeddings. The one owner of gensim, which is imported only for a binary file or a
name. A text file is read line by line, so memory holds only the wanted words.
"""

import difflib
import logging
import math
import sys
import zlib
from collections.abc import Collection
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.config.schema import is_file
from transformer_cli.data.lines import byte_lines
from transformer_cli.errors import DataError, DownloadError
from transformer_cli.system.files import kind_of

FASTTEXT_MODEL = (793712314).to_bytes(4, "little")  # the first bytes of fastText's own .bin
LARGEST = float(np.finfo(np.float32).max)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vectors:
    """The vectors of the wanted words that were found in a file."""

    found: dict[str, NDArray[np.float32]]
    """wanted word → its vector (dimension,), in the order of the wanted words"""
    dimension: int
    """how many numbers each vector has"""
    n_other_case: int
    """how many words were found only in another case: the vector of Hund for hund"""


def read_vectors(where: str, words: Collection[str], *, lowercase: bool) -> Vectors:
    """Returns the vectors of `words`. If a file has several vectors for a word, the first one counts.

    where: a path, or a name such as glove-wiki-gigaword-100 (see `schema.is_file`). A file is text, with one word and
    its numbers per line, with or without word2vec's header (GloVe has none, fastText's .vec has one), or has
    word2vec's binary form (.bin); both may be plain or .gz.
    lowercase: a word that the file has only in another case gets the first vector of the other spellings.

    Raises DataError for a file that cannot be read, holds no vectors, or has a damaged one for a wanted word, and
    if gensim is needed but missing; DownloadError for an unknown name or if there is no network.
    """
    path = Path(where) if is_file(where) else _download(where)
    if (kind := kind_of(path)) in ("a pipe", "a device"):
        raise DataError(f"{path}: {kind}; vectors are read twice, so write them into a file and name that")
    found = _Found(words, lowercase)
    dimension = _read_binary(path, found) if _is_binary(path) else _read_text(path, found)
    return found.vectors(dimension)


class _Found:
    """The vectors found so far; decides which words of a file are needed."""

    def __init__(self, words: Collection[str], lowercase: bool) -> None:
        self.wanted = dict.fromkeys(words)
        self.lowercase = lowercase
        self.exact: dict[str, NDArray[np.float32]] = {}
        self.other_case: dict[str, NDArray[np.float32]] = {}

    def lacks(self, word: str) -> bool:
        """Whether `word`, spelled as in the file, brings the first vector for a wanted word."""
        if word in self.wanted:
            return word not in self.exact
        return self.lowercase and (lower := word.lower()) in self.wanted and lower not in self.other_case

    def add(self, word: str, vector: NDArray[np.float32]) -> None:
        """Keep the vector of a word that was lacking."""
        if word in self.wanted:
            self.exact[word] = vector
        else:
            self.other_case[word.lower()] = vector

    def vectors(self, dimension: int) -> Vectors:
        found = {**self.other_case, **self.exact}
        in_order = {word: found[word] for word in self.wanted if word in found}
        return Vectors(in_order, dimension, len(in_order) - len(self.exact))


def _is_binary(path: Path) -> bool:
    """Whether a file is called .bin or has zero bytes near its beginning (the downloader's binary files are .gz)."""
    with closing(byte_lines(path)) as lines:
        head = b"".join(islice(lines, 100))
    if head.startswith(FASTTEXT_MODEL):
        raise DataError(f"{path}: a fastText model, not word vectors; give the .vec file that belongs to it")
    return path.name.removesuffix(".gz").endswith(".bin") or b"\0" in head


def _read_text(path: Path, found: _Found) -> int:
    """Add the vectors that `found` lacks; returns the dimension."""
    promised = dimension = n_vectors = 0
    with closing(byte_lines(path)) as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.removeprefix(b"\xef\xbb\xbf").split() if number == 1 else line.split(maxsplit=1)
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                promised, dimension = int(fields[0]), int(fields[1])
                continue
            n_vectors += bool(fields)
            if not fields or line[:1].isspace():
                continue  # an empty line, or the vector of a space
            word = fields[0].decode("utf-8", "surrogateescape")  # not UTF-8: then it is not a wanted word
            if not dimension:  # without a header the first vector tells the dimension
                dimension = len(line.split()) - 1
                _parse(line, dimension, path, number)
            if found.lacks(word) and (vector := _parse(line, dimension, path, number)) is not None:
                found.add(word, vector)
    if not n_vectors:
        raise DataError(f"{path}: not one word vector; a line is a word and its numbers, separated by spaces")
    if n_vectors < promised:
        log.warning("%s: %d vectors, but its first line says %d; the file may be incomplete", path, n_vectors, promised)
    return dimension


def _parse(line: bytes, dimension: int, path: Path, number: int) -> NDArray[np.float32] | None:
    """Returns the numbers after a line's first word, or None if the word contains a space, as some in GloVe 840B do."""
    first, *fields = line.split()
    where = f"{path}: line {number}: {first.decode('utf-8', 'replace')!r}"
    remedy = "fetch the file again, or delete the line"
    if len(fields) > dimension and math.isnan(_number(fields[0])):
        return None
    if len(fields) != dimension or not fields:
        raise DataError(f"{where} has {len(fields)} numbers, not {dimension or 'one or more'}; {remedy}")
    values = [_number(field) for field in fields]
    for index, value in enumerate(values):
        if math.isnan(value):
            text = fields[index].decode("utf-8", "replace")
            raise DataError(f"{where}: value {index + 1} is {text!r}, which is not a finite number; {remedy}")
    return np.array(values, np.float32)


def _number(field: bytes) -> float:
    """Returns the number, or nan if the field is not a number or does not fit in a float32."""
    try:
        value = float(field)
    except ValueError:
        return math.nan
    return value if abs(value) <= LARGEST else math.nan


def _read_binary(path: Path, found: _Found) -> int:
    """Add the vectors that `found` lacks; returns the dimension. gensim holds the whole file in memory meanwhile."""
    _require_gensim(path)
    from gensim.models import KeyedVectors

    try:
        # "replace": a word that is cut within a letter is not a wanted word
        file = KeyedVectors.load_word2vec_format(str(path), binary=True, unicode_errors="replace")
    except (ValueError, EOFError, OSError, MemoryError, AssertionError, zlib.error) as error:
        problem = str(error) or type(error).__name__
        remedy = "fetch it again, or give a text file another ending than .bin"
        raise DataError(f"{path}: not a complete binary word2vec file ({problem}); {remedy}") from None
    for word in file.index_to_key:
        if found.lacks(word):
            vector = np.array(file[word], np.float32)
            if not np.isfinite(vector).all():
                raise DataError(
                    f"{path}: the vector of {word!r} has a value that is not a finite number; fetch it again"
                )
            found.add(word, vector)
    if not len(file):
        raise DataError(f"{path}: not one word vector")
    return int(file.vector_size)


def _download(name: str) -> Path:
    """Returns the file that gensim's downloader has under a name, fetched into GENSIM_DATA_DIR if it is not there."""
    _require_gensim(name)
    from gensim import downloader

    known: dict[str, Any] = {}
    try:
        with redirect_stdout(sys.stderr):  # gensim prints its progress
            known = downloader.info()["models"]
            if name in known:
                # only the path: without return_path gensim would run code that it has downloaded
                return Path(downloader.load(name, return_path=True))
    except Exception as error:  # for a wrong sum gensim raises Exception itself
        raise DownloadError(
            f"{name}: gensim could not fetch these vectors ({error}); try again with a network, or give a file (with a "
            "folder or an ending)"
        ) from None
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.3) or sorted(known)
    raise DownloadError(
        f"{name}: gensim's downloader has no vectors of this name; it has {', '.join(near)} …; "
        "to name a file, give its folder or its ending too"
    )


def _require_gensim(what: object) -> None:
    try:
        import gensim  # noqa: F401
    except ImportError:
        raise DataError(f"{what}: binary files and names need gensim; run `pip install 'gensim>=4.3'`") from None
