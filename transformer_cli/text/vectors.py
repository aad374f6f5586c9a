"""Reads the word vectors of some words from a text file: GloVe's, fastText's .vec or word2vec's.

A file is read line by line, so memory holds only the wanted words. Knows words and numbers, but no embeddings.
"""

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_cli.errors import DataError
from transformer_cli.text.lines import MAX_RECORD_BYTES, byte_lines

BINARY_CHECK_LINES = 100  # in which a zero byte shows that a file is binary
Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Vectors:
    by_word: dict[str, Vector]
    """wanted word → its vector (dimension,), in the order of the wanted words"""
    dimension: int
    """length of each vector"""
    n_other_case: int
    """number of words found only in another case: the vector of Hund for hund"""


def read_vectors(path: Path, words: Collection[str], *, lowercase: bool) -> Vectors:
    """Returns the vectors of `words`; the first one, if a file has several for a word.

    path: text, perhaps compressed, with one word and its numbers per line, with or without word2vec's header (GloVe has
    none, fastText's .vec has one).
    lowercase: a word that the file has only in another case gets the first vector of the other spellings.

    Raises DataError if the file cannot be read, is binary, has no vectors, or has a damaged one of a wanted word.
    """
    wanted, dimension = dict.fromkeys(words), 0
    exact: dict[str, Vector] = {}
    other_case: dict[str, Vector] = {}
    with closing(byte_lines(path, MAX_RECORD_BYTES)) as lines:
        for number, line in enumerate(lines, start=1):
            if number <= BINARY_CHECK_LINES and b"\0" in line:
                raise DataError(f"{path}: binary word vectors; give them as text, such as fastText's .vec file")
            fields = line.removeprefix(b"\xef\xbb\xbf").split() if number == 1 else line.split(maxsplit=1)
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                dimension = int(fields[1])  # word2vec's header
                continue
            if not fields or line[:1].isspace():
                continue  # an empty line, or the vector of a space
            word = fields[0].decode("utf-8", "surrogateescape")  # other bytes are not in a wanted word
            found, key = (other_case, word.lower()) if lowercase and word not in wanted else (exact, word)
            is_needed = key in wanted and key not in found
            if dimension and not is_needed:
                continue
            _, *texts = line.split()
            dimension = dimension or len(texts)  # without a header, that of the first vector
            if len(texts) > dimension:
                continue  # a word with a space, as in GloVe 840B: its line seems to have more numbers
            try:
                with np.errstate(over="ignore"):  # too large numbers become inf
                    vector = np.array([float(text) for text in texts], np.float32)
            except ValueError:
                vector = np.full(1, np.nan, np.float32)
            if len(texts) != dimension or not dimension or not np.isfinite(vector).all():
                name = fields[0].decode("utf-8", "replace")
                raise DataError(
                    f"{path}: line {number}: {name!r} should be a word with {dimension or 'its'} finite numbers; fetch "
                    "the file again, or delete the line"
                )
            if is_needed:
                found[key] = vector
    if not dimension:
        raise DataError(f"{path}: no word vectors; each line must be a word and its numbers, separated by spaces")
    by_word = {**other_case, **exact}
    in_order = {word: by_word[word] for word in wanted if word in by_word}
    return Vectors(in_order, dimension, len(in_order) - len(exact))
