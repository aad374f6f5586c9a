"""Cuts sentence pairs into words chunk by chunk, in order: in this process, or in worker processes on several cores.

Knows nothing of vocabularies or files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.compute.threads import SideBySide
from transformer_cli.errors import DataError
from transformer_cli.system.workers import workers_of
from transformer_cli.text.words import Tokenizer

CHUNK = 1_000  # pairs that a worker gets at once; it tokenises them in a tenth of a second

Pair = tuple[str, str]
Settings = tuple[str, str, bool]  # language of the source, of the target, whether to lower-case
Texts = tuple[tuple[str, ...], ...]  # (source texts, target texts) of a chunk


@dataclass(frozen=True)
class CutSide:
    """One side of some sentences, cut into words.

    "Ein Hund, ein Mann." and "Ein Hund", in lower case, are

        forms    ein  hund  ,  mann  .
        ids      0  1  2  0  3  4    0  1
        lengths  6                   2
        glued    -  x  -  -  x  x    -  x
    """

    ids: NDArray[np.int32]
    """(tokens,): all sentences end to end; word i is forms[ids[i]]"""
    lengths: NDArray[np.int64]
    """(sentences,): how many tokens each sentence has"""
    forms: list[str]
    """the distinct words, in the order in which they first appear"""
    glued: NDArray[np.bool_]
    """(tokens,): True if no space follows the word in the text: glued to the next one, or at the end of the text"""

    def sentences(self) -> Iterator[list[str]]:
        """Yield the words of each sentence."""
        words = [self.forms[index] for index in self.ids.tolist()]
        start = 0
        for length in self.lengths.tolist():
            yield words[start : start + length]
            start += length


Chunk = tuple[Texts, list[CutSide]]
"""The texts of some sentence pairs, and their words: [source, target]"""


def open_cutter(settings: Settings) -> Callable[[Texts], list[tuple[Any, ...]]]:
    """Returns a function from the texts of a chunk to the fields of [source, target], arrays as bytes.

    Raises ConfigError as Tokenizer does.
    """
    *languages, lowercase = settings
    tokenizers = [Tokenizer(str(language), lowercase=bool(lowercase)) for language in languages]
    return lambda texts: [_cut(*side) for side in zip(tokenizers, texts, strict=True)]


def _cut(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[bytes, bytes, list[str], bytes]:
    known: dict[str, int] = {}
    ids: list[int] = []
    lengths: list[int] = []
    glued: list[bool] = []
    for text in texts:
        tokens = tokenizer.split(text)
        ids += [known.setdefault(word, len(known)) for word in tokens.words]
        lengths.append(len(tokens.words))
        glued += tokens.glued
    return np.array(ids, np.int32).tobytes(), np.array(lengths, np.int64).tobytes(), list(known), bytes(glued)


@contextmanager
def cutting(settings: Settings, processes: int) -> Iterator[Callable[[Iterable[Pair]], Iterator[Chunk]]]:
    """Yields a function from pairs to chunks of them, in order, with their words: the same for any `processes`.

    If `processes` is 1, this process does the work; otherwise that many workers do, each with a thread that waits for
    it, and none of them is left at the end of the block.

    Raises ConfigError as Tokenizer does (with workers, at the first chunk), and DataError if a worker dies.
    """
    with ExitStack() as held:
        cut = (
            open_cutter(settings)
            if processes == 1
            else held.enter_context(workers_of(open_cutter, settings, processes))
        )
        threads = held.enter_context(SideBySide(processes))
        yield lambda pairs: threads.run(lambda texts: (texts, _sides(cut, texts)), chunks(pairs))


def _sides(cut: Callable[[Texts], Any], texts: Texts) -> list[CutSide]:
    """Returns the words of a chunk. Raises DataError if the worker that cuts them is dead or dies."""
    try:
        found = cut(texts)
    except EOFError as how:
        raise DataError(
            f"a process that tokenised {how}; if memory ran out, run it again on fewer cores, for example with "
            "`taskset --cpu-list 0 tfm prepare`"
        ) from None
    return [
        CutSide(np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int64), forms, np.frombuffer(glued, np.bool_))
        for ids, lengths, forms, glued in found
    ]


def chunks(pairs: Iterable[Pair]) -> Iterator[Texts]:
    """Yield the source texts and the target texts of CHUNK pairs at a time."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, CHUNK)):
        yield tuple(zip(*chunk, strict=True))
