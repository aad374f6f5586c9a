"""Chunks of sentence pairs, and what cuts their text into tokens: spaCy's tokenisers, or SentencePiece's pieces.

Knows nothing of processes, vocabularies or files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from transformer_cli.data.subwords import Pieces
from transformer_cli.data.words import Tokenizer

Pair = tuple[str, str]
Texts = tuple[tuple[str, ...], ...]  # (source texts, target texts) of a chunk


@dataclass(frozen=True)
class CutSide:
    """One side of some sentences, as the ids of its tokens."""

    ids: NDArray[np.int32]
    """(tokens,): all sentences end to end"""
    lengths: NDArray[np.int64]
    """(sentences,): how many tokens each sentence has"""

    def pack(self) -> tuple[Any, ...]:
        """Returns what `unpack_subwords` reads, in types that marshal knows."""
        return self.ids.tobytes(), self.lengths.tobytes()


@dataclass(frozen=True)
class TokenizedSide(CutSide):
    """One side of some sentences: the distinct tokens, and which of them is where.

    For example, "Ein Hund, ein Mann." and "Ein Hund", in lower case, are

        forms    ein  hund  ,  mann  .
        ids      0  1  2  0  3  4    0  1
        lengths  6                   2
        glued    -  x  -  -  x  x    -  x
    """

    forms: list[str]
    """the distinct tokens, in the order in which they first appear; token i is forms[ids[i]]"""
    glued: NDArray[np.bool_]
    """(tokens,): True if no space follows the token in the text: glued to the next one, or at the end of the text"""

    def sentences(self) -> Iterator[list[str]]:
        """Yield the tokens of each sentence."""
        words = [self.forms[index] for index in self.ids.tolist()]
        start = 0
        for length in self.lengths.tolist():
            yield words[start : start + length]
            start += length

    def pack(self) -> tuple[Any, ...]:
        """Returns what `unpack_words` reads, in types that marshal knows."""
        return *super().pack(), self.forms, self.glued.tobytes()


SideT = TypeVar("SideT", bound=CutSide, covariant=True)


@dataclass(frozen=True)
class Chunk(Generic[SideT]):
    """Some sentence pairs and their tokens."""

    texts: Texts
    sides: Sequence[SideT]
    """[source, target]"""

    def __len__(self) -> int:
        return len(self.texts[0])


class WordCutter:
    """The spaCy tokenisers of both sides."""

    def __init__(self, source: str, target: str, lowercase: bool) -> None:
        """source and target are languages. Raises ConfigError as Tokenizer does."""
        self._tokenizers = [Tokenizer(language, lowercase=lowercase) for language in (source, target)]

    def cut(self, texts: Texts) -> list[TokenizedSide]:
        """Tokenise both sides of a chunk; returns [source, target]."""
        return [_tokenize(*side) for side in zip(self._tokenizers, texts, strict=True)]


class SubwordCutter:
    """The pieces of both sides."""

    def __init__(self, source: bytes, target: bytes, lowercase: bool) -> None:
        """source and target are models of SentencePiece."""
        self._lowercase = lowercase
        self._pieces = [Pieces(model) for model in (source, target)]

    def cut(self, texts: Texts) -> list[CutSide]:
        """Cut both sides of a chunk into pieces; returns [source, target]."""
        return [self._cut(*side) for side in zip(self._pieces, texts, strict=True)]

    def _cut(self, pieces: Pieces, texts: Sequence[str]) -> CutSide:
        lines = [pieces.encode(text.lower() if self._lowercase else text) for text in texts]
        ids = [index for line in lines for index in line]
        return CutSide(np.array(ids, dtype=np.int32), np.array([len(line) for line in lines], dtype=np.int64))


def unpack_words(ids: bytes, lengths: bytes, forms: list[str], glued: bytes) -> TokenizedSide:
    """The inverse of `TokenizedSide.pack`."""
    side = unpack_subwords(ids, lengths)
    return TokenizedSide(side.ids, side.lengths, forms, np.frombuffer(glued, np.bool_))


def unpack_subwords(ids: bytes, lengths: bytes) -> CutSide:
    """The inverse of `CutSide.pack`."""
    return CutSide(np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int64))


def _tokenize(tokenizer: Tokenizer, texts: Sequence[str]) -> TokenizedSide:
    known: dict[str, int] = {}
    ids: list[int] = []
    lengths: list[int] = []
    glued: list[bool] = []
    for text in texts:
        tokens = tokenizer.split(text)
        ids += [known.setdefault(word, len(known)) for word in tokens.words]
        lengths.append(len(tokens.words))
        glued += tokens.glued
    return TokenizedSide(
        np.array(ids, dtype=np.int32), np.array(lengths, dtype=np.int64), list(known), np.array(glued, dtype=np.bool_)
    )
