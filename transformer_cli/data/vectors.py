"""Reads pretrained vectors of wanted words from a text file. Knows words and numbers, nothing of embeddings.

The file is read line by line, so memory holds only the wanted words.
"""

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_cli.data.lines import byte_lines
from transformer_cli.errors import DataError

Vector = NDArray[np.float32]
LINE_BYTES = 1 << 20  # more than the numbers of any vector need


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

    where: the path of text, plain or packed, with one word and its numbers per line, with or without word2vec's header
    (GloVe has none, fastText's .vec has one). A line with more numbers than the others is a word with a space, as some
    in GloVe 840B are; it is left out.
    lowercase: a word that the file has only in another case gets the first vector of the other spellings.

    Raises DataError for a file that cannot be read, holds no vectors, or has a damaged one for a wanted word.
    """
    path, wanted = Path(where), dict.fromkeys(words)
    exact: dict[str, Vector] = {}
    other_case: dict[str, Vector] = {}
    dimension = 0
    with closing(byte_lines(path, LINE_BYTES)) as lines:
        for number, line in enumerate(lines, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
                header = line.split()
                if len(header) == 2 and all(field.isdigit() for field in header):
                    dimension = int(header[1])
                    continue
            if number <= 2 and b"\0" in line:
                raise DataError(f"{path}: binary vectors; write them as text (docs/train.md says how)")
            if not line.strip() or line[:1].isspace():
                continue  # an empty line, or the vector of a space
            word = line.split(maxsplit=1)[0].decode("utf-8", "surrogateescape")  # not UTF-8: then it is not wanted
            found, key = (exact, word) if word in wanted else (other_case, word.lower())
            is_new = key in wanted and key not in found and (lowercase or found is exact)
            if not is_new and dimension:
                continue
            numbers = line.split()[1:]
            dimension = dimension or len(numbers)  # without a header the first vector tells it
            if len(numbers) > dimension:
                continue
            vector = _vector(numbers)
            if len(numbers) != dimension or not dimension or not np.isfinite(vector).all():
                shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                raise DataError(
                    f"{path}: line {number}: {shown!r} should be a word with {dimension or 'its'} finite numbers; "
                    "fetch the file again, or delete the line"
                )
            if is_new:
                found[key] = vector
    if not dimension:
        raise DataError(f"{path}: not one word vector; a line is a word and its numbers, separated by spaces")
    both = {**other_case, **exact}
    in_order = {word: both[word] for word in wanted if word in both}
    return Vectors(in_order, dimension, len(in_order) - len(exact))


def _vector(numbers: list[bytes]) -> Vector:
    """Returns numbers as a vector; what is too large becomes inf, and what is no number makes it [nan]."""
    try:
        with np.errstate(over="ignore"):
            return np.array([float(number) for number in numbers], np.float32)
    except ValueError:
        return np.full(1, np.nan, np.float32)
