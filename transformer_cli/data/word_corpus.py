"""Encodes a corpus by words: counts the tokens of the training split, makes the codecs, and encodes every split.

The training split is read once. Its tokens get provisional ids in the order in which they first appear; when all are
counted, one pass over the ids on disk turns them into the final ones. Memory holds word forms, not sentences.
"""

import logging
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_cli.config.data import DataConfig
from transformer_cli.data.chunks import Chunk, TokenizedSide
from transformer_cli.data.codec import SIDES, Codecs, WordCodec
from transformer_cli.data.corpora import Corpus
from transformer_cli.data.specials import SPECIALS
from transformer_cli.data.vocabulary import Vocabulary, import_torchtext
from transformer_cli.data.words import SPACY_VERSION, Joins, learn_joins
from transformer_cli.data.workers import available_cores, tokenizing
from transformer_cli.data.writer import EncodedCorpus, SplitWriter

log = logging.getLogger(__name__)

FEW = 5_000  # one process has tokenised this many pairs before workers would have started
MOST_WORKERS = 16  # one process reads and counts what they tokenise; two workers keep it busy a seventh of the time
JOIN_SENTENCES = 200_000  # joins are learned from at most this many sentences; more would teach only rare pairs


def encode_by_words(folder: Path, data: DataConfig, corpus: Corpus) -> EncodedCorpus:
    """Make both codecs from the training split, and write every split of the corpus into `folder`."""
    pairs = corpus.splits["train"]()
    first = list(islice(pairs, FEW + 1))
    processes = min(available_cores(), MOST_WORKERS) if len(first) > FEW else 1
    counters = [_FormCounter()] if data.joint_vocabulary else [_FormCounter(), _FormCounter()]
    restored = {}
    with tokenizing(data.source, data.target, lowercase=data.lowercased, processes=processes) as tokenize:
        import_torchtext()  # while the workers start
        with SplitWriter(folder, "train", corpus.sizes.get("train")) as split:
            joins = _encode_training(split, tokenize(chain(first, pairs)), counters)
        vocabularies = _build_vocabularies(split, counters, data.min_freq)
        codecs = Codecs(
            WordCodec(data.source, data.lowercased, vocabularies[0], Joins()),
            WordCodec(data.target, data.lowercased, vocabularies[1], joins),
        )
        splits = {"train": split.counts()}
        for name in corpus.splits:
            if name != "train":
                with SplitWriter(folder, name, corpus.sizes.get(name)) as split:
                    chunks = tokenize(corpus.splits[name]())
                    restored[name] = _encode_held_out(split, chunks, vocabularies, joins, lowercase=data.lowercased)
                splits[name] = split.counts()
    tokenizer = {"library": "spacy", "version": SPACY_VERSION, "source": data.source, "target": data.target}
    joined = {"valid_restored": restored["valid"] / splits["valid"]["sentences"]}
    return EncodedCorpus(codecs, splits, tokenizer, {"joins": joined})


def _encode_training(
    split: SplitWriter, chunks: Iterable[Chunk[TokenizedSide]], counters: Sequence["_FormCounter"]
) -> Joins:
    """Write the split with provisional ids; returns the joins learned from its target side."""
    neighbours = _Neighbours()
    for chunk in chunks:
        ids = [counter.encode(side) for counter, side in zip((counters[0], counters[-1]), chunk.sides, strict=True)]
        neighbours.add(ids[1], chunk.sides[1])
        split.add(chunk, ids)
    return neighbours.learn(counters[-1].forms())


def _build_vocabularies(train: SplitWriter, counters: list["_FormCounter"], min_freq: int) -> list[Vocabulary]:
    """Build the vocabularies, and renumber the training split.

    A counter is large, so each one is taken off the list, and freed, once it has been read.
    """
    vocabularies: list[Vocabulary] = []
    for index, side in enumerate(SIDES):
        if counters:
            counter = counters.pop(0)
            vocabulary = Vocabulary.build(counter.counts(), min_freq=min_freq)
            final_ids = counter.final_ids(vocabulary)
            del counter
        if len(vocabulary) == len(SPECIALS):
            log.warning("the %s vocabulary is empty: no word occurs %d times; lower data.min_freq", side, min_freq)
        train.renumber(index, final_ids)
        vocabularies.append(vocabulary)
    return vocabularies


def _encode_held_out(
    split: SplitWriter,
    chunks: Iterable[Chunk[TokenizedSide]],
    vocabularies: Sequence[Vocabulary],
    joins: Joins,
    *,
    lowercase: bool,
) -> int:
    """Write a split; returns how many of its target sentences come back exactly from their tokens."""
    n_restored = 0
    for chunk in chunks:
        ids = [_encode(vocabulary, side) for vocabulary, side in zip(vocabularies, chunk.sides, strict=True)]
        split.add(chunk, ids)
        for text, tokens in zip(chunk.texts[1], chunk.sides[1].sentences(), strict=True):
            n_restored += joins.restores(text, tokens, lowercase=lowercase)
    return n_restored


def _encode(vocabulary: Vocabulary, side: TokenizedSide) -> NDArray[np.int32]:
    return np.array(vocabulary.encode(side.forms), dtype=np.int32)[side.ids]


class _FormCounter:
    """Gives word forms provisional ids, in the order in which they first appear, and counts them."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._counts = np.zeros(0, dtype=np.int64)  # longer than need be: it grows by doubling

    def encode(self, side: TokenizedSide) -> NDArray[np.int32]:
        """Returns the provisional id of each token, and counts it."""
        ids = np.array([self._ids.setdefault(form, len(self._ids)) for form in side.forms], dtype=np.int32)
        if len(self._counts) < len(self._ids):
            self._counts = np.append(self._counts, np.zeros(len(self._ids), dtype=np.int64))
        self._counts[ids] += np.bincount(side.ids, minlength=len(ids))
        return ids[side.ids]

    def forms(self) -> list[str]:
        """Returns the word forms; their indices are the provisional ids."""
        return list(self._ids)

    def counts(self) -> dict[str, int]:
        return dict(zip(self._ids, self._counts.tolist(), strict=False))

    def final_ids(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """Returns an array with final_ids[provisional id] = id in the vocabulary."""
        return np.array(vocabulary.encode(self._ids), dtype=np.int32)


class _Neighbours:
    """Which tokens stand side by side in the first sentences, by id."""

    def __init__(self) -> None:
        self._sentences = 0
        self._chunks: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]] = []

    def add(self, ids: NDArray[np.int32], side: TokenizedSide) -> None:
        """Note the neighbours in the next sentences, as long as these are among the first JOIN_SENTENCES."""
        ends = np.cumsum(side.lengths[: JOIN_SENTENCES - self._sentences])
        self._sentences += len(ends)
        if len(ends):
            left = np.delete(np.arange(ends[-1]), ends - 1)  # all tokens but the last of each sentence
            self._chunks.append((ids[left], ids[left + 1], side.glued[left]))

    def learn(self, forms: Sequence[str]) -> Joins:
        """Learn joins from the neighbours noted. forms: the word form of each id."""
        left, right, glued = map(np.concatenate, zip(*self._chunks, strict=True))
        return learn_joins(forms, left, right, glued)
