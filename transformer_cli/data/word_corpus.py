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

from transformer_cli.config.schema import DataConfig
from transformer_cli.data.codec import SIDES, Codecs, WordCodec
from transformer_cli.data.corpora import Corpus
from transformer_cli.data.vocabulary import SPECIALS, Vocabulary, import_torchtext
from transformer_cli.data.words import SPACY_VERSION, Joins, learn_joins
from transformer_cli.data.workers import Chunk, TokenizedSide, available_cores, tokenizing
from transformer_cli.data.writer import EncodedCorpus, SplitWriter

log = logging.getLogger(__name__)

FEW = 5_000  # one process has tokenised this many pairs before workers would have started
MOST_WORKERS = 16  # one process reads and counts what they tokenise; two workers keep it busy a seventh of the time
MANY_WORDS = 50_000  # above which a warning speaks of subwords
JOIN_SENTENCES = 200_000  # joins are learned from at most this many sentences; more would teach only rare pairs


def encode_by_words(folder: Path, data: DataConfig, corpus: Corpus, given: Codecs | None = None) -> EncodedCorpus:
    """Make both codecs from the training split, unless they are given, and write every split of the corpus."""
    pairs = corpus.splits["train"]()
    first = list(islice(pairs, FEW + 1))
    processes = min(available_cores(), MOST_WORKERS) if len(first) > FEW else 1
    splits, restored = {}, {}
    with tokenizing(data.source, data.target, lowercase=data.lowercased, processes=processes) as tokenize:
        training = tokenize(chain(first, pairs))
        if given is None:
            import_torchtext()  # while the workers start
            split = SplitWriter(folder, "train", corpus.sizes.get("train"))
            codecs = _learn(split, training, data)
            splits["train"] = split.counts()
        else:
            codecs = [codec for codec in (given.source, given.target) if isinstance(codec, WordCodec)]
        for name in corpus.splits:
            if name not in splits:
                chunks = training if name == "train" else tokenize(corpus.splits[name]())
                with SplitWriter(folder, name, corpus.sizes.get(name)) as split:
                    restored[name] = _encode(codecs, split, chunks)
                splits[name] = split.counts()
    tokenizer = {"library": "spacy", "version": SPACY_VERSION, "source": data.source, "target": data.target}
    joined = {"valid_restored": restored["valid"] / splits["valid"]["sentences"]}
    return EncodedCorpus(Codecs(*codecs), splits, tokenizer, {"joins": joined})


def _learn(split: SplitWriter, chunks: Iterable[Chunk[TokenizedSide]], data: DataConfig) -> list[WordCodec]:
    """Write the training split; returns the codecs learned from it, [source, target]."""
    counters = [_FormCounter()] if data.joint_vocabulary else [_FormCounter(), _FormCounter()]
    with split:
        joins = _encode_training(split, chunks, counters)
    source, target = _build_vocabularies(split, counters, data)
    return [
        WordCodec(data.source, data.lowercased, source, Joins()),
        WordCodec(data.target, data.lowercased, target, joins),
    ]


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


def _build_vocabularies(train: SplitWriter, counters: list["_FormCounter"], data: DataConfig) -> list[Vocabulary]:
    """Build the vocabularies, and renumber the training split.

    A counter is large, so each one is taken off the list, and freed, once it has been read.
    """
    vocabularies: list[Vocabulary] = []
    for index, side in enumerate(SIDES):
        if counters:
            counter = counters.pop(0)
            vocabulary = Vocabulary.build(counter.counts(), min_freq=data.min_freq, max_words=data.max_words)
            final_ids = counter.final_ids(vocabulary)
            del counter
        if len(vocabulary) == len(SPECIALS):
            log.warning("the %s vocabulary is empty: no word occurs %d times; lower data.min_freq", side, data.min_freq)
        if (n_words := len(vocabulary) - len(SPECIALS)) > MANY_WORDS and (index == 0 or not data.joint_vocabulary):
            log.warning(
                "the %s vocabulary has %s words, each with rows of its own in the model: data.max_words keeps the most "
                "frequent, and data.tokens: subwords writes any text with far fewer",
                "joint" if data.joint_vocabulary else side,
                f"{n_words:,}",
            )
        train.renumber(index, final_ids)
        vocabularies.append(vocabulary)
    return vocabularies


def _encode(codecs: Sequence[WordCodec], split: SplitWriter, chunks: Iterable[Chunk[TokenizedSide]]) -> int:
    """Write a split; returns how many of its target sentences come back exactly from their tokens."""
    target = codecs[1]
    n_restored = 0
    for chunk in chunks:
        ids = [_ids(codec.vocabulary, side) for codec, side in zip(codecs, chunk.sides, strict=True)]
        split.add(chunk, ids)
        for text, tokens in zip(chunk.texts[1], chunk.sides[1].sentences(), strict=True):
            n_restored += target.joins.restores(text, tokens, lowercase=target.lowercase)
    return n_restored


def _ids(vocabulary: Vocabulary, side: TokenizedSide) -> NDArray[np.int32]:
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
