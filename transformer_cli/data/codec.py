"""Text ↔ ids: the only place that knows both. A dataset owns a codec for each side, and a run keeps a copy.

Knows nothing of models, batches or search: ids here are those of a line's own tokens, without <sos> and <eos>.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from transformer_cli.config.schema import DataConfig
from transformer_cli.data.vocabulary import UNK, Vocabulary
from transformer_cli.data.words import Joins, Tokenizer
from transformer_cli.errors import DataError
from transformer_cli.files import write_json

SIDES = ("source", "target")


@dataclass(frozen=True)
class Encoded:
    """A line of text, cut into tokens."""

    tokens: list[str]
    """as they stand in the line, also those that the codec has no id for"""
    ids: list[int]
    """of each token"""

    def __len__(self) -> int:
        return len(self.tokens)

    def first(self, n: int) -> "Encoded":
        """The line cut off after n tokens."""
        return Encoded(self.tokens[:n], self.ids[:n])


class Codec(Protocol):
    """One side's way from text to ids and back."""

    def __len__(self) -> int:
        """How many ids there are, those of <unk>, <pad>, <sos> and <eos> included."""

    def encode(self, line: str) -> Encoded:
        """The tokens of a line and their ids; none for a blank line."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The token of each id, as the model writes it: `<unk>` for an unknown one."""

    def text(self, ids: Sequence[int], instead: Sequence[str] | None = None) -> str:
        """Plain text. instead: for each id a token that replaces it where it is `<unk>` (None: `<unk>` stays)."""

    def save(self, folder: Path, side: str) -> None:
        """Write all that `load` of the same class needs, under names that begin with the side's."""


@dataclass(frozen=True)
class WordCodec:
    """Text by words: a spaCy tokeniser, a vocabulary, and learned joins that put tokens together again."""

    language: str
    lowercase: bool
    vocabulary: Vocabulary
    joins: Joins

    @staticmethod
    def load(folder: Path, side: str, *, language: str, lowercase: bool) -> "WordCodec":
        """Read what `save` wrote. Raises DataError if a file is missing or damaged."""
        vocabulary = Vocabulary.load(folder / f"{side}.vocab.txt")
        joins = _read_joins(folder / f"{side}.joins.json") if side == "target" else Joins()
        return WordCodec(language, lowercase, vocabulary, joins)

    def save(self, folder: Path, side: str) -> None:
        """Write the vocabulary and, of the target, the joins: nothing is ever written in the source language."""
        self.vocabulary.save(folder / f"{side}.vocab.txt")
        if side == "target":
            write_json(folder / f"{side}.joins.json", self.joins.as_json())

    def __len__(self) -> int:
        return len(self.vocabulary)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Made when it is first asked for: spaCy takes half a second to import, and not every command needs it."""
        return Tokenizer(self.language, lowercase=self.lowercase)

    def encode(self, line: str) -> Encoded:
        """The words of a line; those that the vocabulary lacks keep their form and get the id of `<unk>`."""
        words = self.tokenizer.tokens(line)
        return Encoded(words, self.vocabulary.encode(words))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The word of each id."""
        return self.vocabulary.decode(ids)

    def text(self, ids: Sequence[int], instead: Sequence[str] | None = None) -> str:
        """The words of these ids, joined as in the text that the joins were learned from."""
        words = self.vocabulary.decode(ids)
        if instead is not None:
            words = [other if id_ == UNK else word for id_, word, other in zip(ids, words, instead, strict=True)]
        return self.joins.join(words)


@dataclass(frozen=True)
class Codecs:
    """Those of both sides."""

    source: Codec
    target: Codec

    @staticmethod
    def load(folder: Path, data: DataConfig) -> "Codecs":
        """Read what `save` wrote, of a dataset or a run. Raises DataError if a file is missing or damaged."""
        sides = zip(SIDES, (data.source, data.target), strict=True)
        return Codecs(*(WordCodec.load(folder, side, language=of, lowercase=data.lowercase) for side, of in sides))

    def save(self, folder: Path) -> None:
        """Write both codecs into a folder."""
        self.source.save(folder, "source")
        self.target.save(folder, "target")


def _read_joins(path: Path) -> Joins:
    try:
        return Joins.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: damaged: {error}") from None
