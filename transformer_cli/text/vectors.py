"""Reads pretrained vectors of wanted words, from a file or by a name that gensim's downloader knows.

Knows words and numbers, nothing of embeddings. The one owner of gensim, which is imported only for a binary file or a
name. A text file is read line by line, so memory holds only the wanted words.
"""

import sys
import zlib
from collections.abc import Callable, Collection
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_cli.config.schema import is_file
from transformer_cli.errors import DataError, DownloadError
from transformer_cli.text.lines import WIDEST, byte_lines

Vector = NDArray[np.float32]
Slot = tuple[dict[str, Vector], str]


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
    with closing(byte_lines(path, WIDEST)) as lines:
        head = b"".join(islice(lines, 100))
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
    if not dimension:
        raise DataError(f"{path}: not one word vector; a line is a word and its numbers, separated by spaces")
    found = {**other_case, **exact}
    in_order = {word: found[word] for word in wanted if word in found}
    return Vectors(in_order, dimension, len(in_order) - len(exact))


def _read_text(path: Path, slot: Callable[[str], Slot | None]) -> int:
    """Put the vectors of a text file where they go; returns their dimension, 0 if there are none.

    A line with more numbers than the others is a word with a space, as some in GloVe 840B are; it is left out.
    """
    dimension = 0
    with closing(byte_lines(path, WIDEST)) as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.removeprefix(b"\xef\xbb\xbf").split() if number == 1 else line.split(maxsplit=1)
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                dimension = int(fields[1])  # word2vec's header
                continue
            if not fields or line[:1].isspace():
                continue  # an empty line, or the vector of a space
            place = slot(fields[0].decode("utf-8", "surrogateescape"))  # not UTF-8: then it is not a wanted word
            if not place and dimension:
                continue
            word, *texts = line.split()
            dimension = dimension or len(texts)  # without a header the first vector tells it
            if len(texts) > dimension:
                continue
            try:
                with np.errstate(over="ignore"):  # what is too large becomes inf
                    vector = np.array([float(text) for text in texts], np.float32)
            except ValueError:
                vector = np.full(1, np.nan, np.float32)
            if len(texts) != dimension or not dimension or not np.isfinite(vector).all():
                name = word.decode("utf-8", "replace")
                raise DataError(
                    f"{path}: line {number}: {name!r} should be a word with {dimension or 'its'} finite numbers; fetch "
                    "the file again, or delete the line"
                )
            if place:
                place[0][place[1]] = vector
    return dimension


def _read_binary(path: Path, slot: Callable[[str], Slot | None]) -> int:
    """The same for a binary file, which gensim holds in memory meanwhile."""
    _require_gensim(path)
    from gensim.models import KeyedVectors

    try:
        # "replace": a word that is cut within a letter is not a wanted word
        file = KeyedVectors.load_word2vec_format(str(path), binary=True, unicode_errors="replace")
    except (ValueError, EOFError, OSError, MemoryError, AssertionError, zlib.error) as error:
        problem = str(error) or type(error).__name__
        remedy = "fetch it again; of fastText give the .vec file, and call a text file other than .bin"
        raise DataError(f"{path}: not a complete binary word2vec file ({problem}); {remedy}") from None
    for word in file.index_to_key:
        if place := slot(word):
            vector = np.array(file[word], np.float32)
            if not np.isfinite(vector).all():
                what = f"the vector of {word!r} has a value that is not a finite number"
                raise DataError(f"{path}: {what}; fetch it again")
            place[0][place[1]] = vector
    return int(file.vector_size)


def _download(name: str) -> Path:
    """Returns the file that gensim's downloader has under a name, fetched into GENSIM_DATA_DIR if it is not there."""
    _require_gensim(name)
    from gensim import downloader

    known: list[str] = []
    try:
        with redirect_stdout(sys.stderr):  # gensim prints its progress
            known = sorted(downloader.info()["models"])
            if name in known:
                # only the path: without return_path gensim would run code that it has downloaded
                return Path(downloader.load(name, return_path=True))
    except Exception as error:  # for a wrong sum gensim raises Exception itself
        raise DownloadError(
            f"{name}: gensim could not fetch these vectors ({error}); try again with a network, or give a file (with a "
            "folder or an ending)"
        ) from None
    raise DownloadError(
        f"{name}: gensim's downloader has no vectors of this name; it has {', '.join(known)}; to name a file, give its "
        "folder or its ending too"
    )


def _require_gensim(what: object) -> None:
    try:
        import gensim  # noqa: F401
    except ImportError:
        raise DataError(f"{what}: binary files and names need gensim; run `pip install 'gensim>=4.4'`") from None
