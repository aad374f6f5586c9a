"""Reads pretrained vectors of wanted words, from a file or by a name that gensim's downloader knows.

Knows words and numbers, nothing of embeddings. The one owner of gensim, which is imported only for a binary file or a
name. A text file is read line by line, so memory holds only the wanted words.
"""

import difflib
import logging
import math
import sys
import zlib
from collections.abc import Callable, Collection
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
Vector = NDArray[np.float32]
Slot = tuple[dict[str, Vector], str]
LARGEST = float(np.finfo(np.float32).max)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vectors:
    """The vectors of the wanted words that were found in a file."""

    found: dict[str, Vector]
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
    with closing(byte_lines(path)) as lines:
        head = b"".join(islice(lines, 100))
    if head.startswith(FASTTEXT_MODEL):
        raise DataError(f"{path}: a fastText model, not word vectors; give the .vec file that belongs to it")
    wanted = dict.fromkeys(words)
    exact: dict[str, Vector] = {}
    other_case: dict[str, Vector] = {}

    def slot(word: str) -> Slot | None:
        """Where the vector of a word of the file goes, if it is the first one for a wanted word."""
        if word in wanted:
            return None if word in exact else (exact, word)
        lower = word.lower()
        return (other_case, lower) if lowercase and lower in wanted and lower not in other_case else None

    is_binary = path.name.removesuffix(".gz").endswith(".bin") or b"\0" in head  # the downloader's are called .gz
    dimension = _read_binary(path, slot) if is_binary else _read_text(path, slot)
    found = {**other_case, **exact}
    in_order = {word: found[word] for word in wanted if word in found}
    return Vectors(in_order, dimension, len(in_order) - len(exact))


def _read_text(path: Path, slot: Callable[[str], Slot | None]) -> int:
    """Put the vectors of a text file where they go; returns their dimension."""
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
            place = slot(fields[0].decode("utf-8", "surrogateescape"))  # not UTF-8: then it is not a wanted word
            if place or not dimension:
                vector = _parse(line, dimension, path, number)
                dimension = dimension or len(line.split()) - 1  # without a header the first vector tells it
                if place and vector is not None:
                    place[0][place[1]] = vector
    if not n_vectors:
        raise DataError(f"{path}: not one word vector; a line is a word and its numbers, separated by spaces")
    if n_vectors < promised:
        log.warning("%s: %d vectors, but its first line says %d; the file may be incomplete", path, n_vectors, promised)
    return dimension


def _parse(line: bytes, dimension: int, path: Path, number: int) -> Vector | None:
    """Returns the numbers after a line's first word, or None if the word contains a space, as some in GloVe 840B do.

    dimension: how many numbers there should be (0: any, but at least one).
    """
    first, *fields = line.split()
    values = [_number(field) for field in fields]
    where = f"{path}: line {number}: {first.decode('utf-8', 'replace')!r}"
    remedy = "fetch the file again, or delete the line"
    if 0 < dimension < len(fields) and math.isnan(values[0]):
        return None
    if len(fields) != (dimension or len(fields)) or not fields:
        raise DataError(f"{where} has {len(fields)} numbers, not {dimension or 'one or more'}; {remedy}")
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


def _read_binary(path: Path, slot: Callable[[str], Slot | None]) -> int:
    """The same for a binary file, which gensim holds in memory meanwhile."""
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
        if place := slot(word):
            vector = np.array(file[word], np.float32)
            if not np.isfinite(vector).all():
                what = f"the vector of {word!r} has a value that is not a finite number"
                raise DataError(f"{path}: {what}; fetch it again")
            place[0][place[1]] = vector
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
        raise DataError(f"{what}: binary files and names need gensim; run `pip install 'gensim>=4.3.3'`") from None
