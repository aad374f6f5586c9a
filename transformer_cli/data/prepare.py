"""Text → tokens → vocabulary (from the training split only) → arrays and a manifest.

Streams: a corpus is read once, here, and tokenised by workers; memory holds its word forms, not its sentences. The
training split gets provisional ids in the order of first sight; when its counts are known, one pass turns them into the
final ones.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli import progress
from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.data.corpora import Corpus, open_corpus
from transformer_cli.data.dataset import FORMAT_VERSION, SIDES, read_manifest, settings
from transformer_cli.data.vocabulary import SPECIALS, UNK, Vocabulary, import_torchtext
from transformer_cli.data.words import SPACY_VERSION, Joins, learn_joins
from transformer_cli.data.workers import TokenizedPairs, TokenizedSide, available_cores, tokenizing
from transformer_cli.errors import DataError
from transformer_cli.files import new_folder, write_json

log = logging.getLogger(__name__)

FEW = 5_000  # pairs that one process tokenises before workers would have started
MOST_WORKERS = 16  # one process reads and counts what they tokenise: two keep it busy for a seventh of its time
RENUMBER_CHUNK = 1 << 20  # ids held in memory while they are renumbered
JOIN_SENTENCES = 200_000  # joins are learned from so many sentences at most; more would teach only rare pairs


@dataclass(frozen=True)
class Prepared:
    """A dataset on disk, and whether this call made it."""

    folder: Path
    manifest: dict[str, Any]
    created: bool


def prepare(config: Config, *, source_dir: Path | None = None, data_dir: Path = Path("data")) -> Prepared:
    """Make the dataset that `config.data` describes, unless it is there already.

    source_dir: a folder with Multi30k's files, instead of the download. Raises DataError or ConfigError, also if the
    dataset would not be the one that the config pins.
    """
    corpus = open_corpus(config.data, source_dir=source_dir)
    fingerprint = _fingerprint(config.data, corpus)
    if config.data.fingerprint not in (None, fingerprint):
        raise DataError(
            f"data.fingerprint is {config.data.fingerprint}, but this text with spaCy {SPACY_VERSION} makes "
            f"{fingerprint}; take the same files and the same spaCy, or copy the dataset's folder to {data_dir}/"
        )
    folder = data_dir / f"{config.data.corpus}.{config.data.source}-{config.data.target}-{fingerprint}"
    if folder.exists():
        manifest = read_manifest(folder)
        with suppress(PermissionError):  # somebody else's
            os.utime(folder)  # `tfm train` takes the dataset prepared last
        return Prepared(folder, manifest, created=False)
    try:
        with new_folder(folder) as unfinished:
            manifest = _write_dataset(unfinished, config.data, corpus, fingerprint)
    except FileExistsError:
        if not folder.is_dir():
            raise
        # another `tfm prepare` was faster
        return Prepared(folder, read_manifest(folder), created=False)
    return Prepared(folder, manifest, created=True)


def _fingerprint(data: DataConfig, corpus: Corpus) -> str:
    shaped_by = {"format": FORMAT_VERSION, "settings": settings(data), "sums": corpus.sums, "spacy": SPACY_VERSION}
    return hashlib.sha256(json.dumps(shaped_by, sort_keys=True).encode()).hexdigest()[:8]


def _write_dataset(folder: Path, data: DataConfig, corpus: Corpus, fingerprint: str) -> dict[str, Any]:
    pairs = corpus.splits["train"]()
    first = list(islice(pairs, FEW + 1))
    processes = min(available_cores(), MOST_WORKERS) if len(first) > FEW else 1
    counters = [_FormCounter()] if data.joint_vocabulary else [_FormCounter(), _FormCounter()]
    restored = {}
    with tokenizing(data.source, data.target, lowercase=data.lowercase, processes=processes) as tokenize:
        import_torchtext()  # while the workers start
        with _SplitWriter(folder, "train", corpus.sizes.get("train")) as split:
            joins = _encode_training(split, tokenize(chain(first, pairs)), counters)
        vocabularies = _build_vocabularies(folder, split, counters, data.min_freq)
        splits = {"train": split.counts()}
        for name in corpus.splits:
            if name != "train":
                with _SplitWriter(folder, name, corpus.sizes.get(name)) as split:
                    chunks = tokenize(corpus.splits[name]())
                    restored[name] = _encode_held_out(split, chunks, vocabularies, joins, lowercase=data.lowercase)
                splits[name] = split.counts()
    write_json(folder / "target.joins.json", joins.as_json())
    manifest = {
        "format_version": FORMAT_VERSION,
        "fingerprint": fingerprint,
        "settings": settings(data),
        "sources": corpus.sums,
        "tokenizer": {"library": "spacy", "version": SPACY_VERSION, "source": data.source, "target": data.target},
        "vocabulary": {side: len(vocabulary) for side, vocabulary in zip(SIDES, vocabularies, strict=True)},
        "splits": splits,
        "left_out": list(corpus.left_out),
        "joins": {"valid_restored": restored["valid"] / splits["valid"]["sentences"]},
    }
    write_json(folder / "manifest.json", manifest)
    return manifest


def _encode_training(
    split: "_SplitWriter", chunks: Iterable[TokenizedPairs], counters: Sequence["_FormCounter"]
) -> Joins:
    """Write the split with provisional ids; returns the joins that its target side teaches."""
    neighbours = _Neighbours()
    for chunk in chunks:
        ids = [counter.encode(side) for counter, side in zip((counters[0], counters[-1]), chunk.sides, strict=True)]
        neighbours.add(ids[1], chunk.sides[1])
        split.add(chunk, ids)
    return neighbours.learn(counters[-1].forms())


def _build_vocabularies(
    folder: Path, train: "_SplitWriter", counters: list["_FormCounter"], min_freq: int
) -> list[Vocabulary]:
    """Build, save, and renumber the training split. A counter is large: each is taken off the list when it is read."""
    vocabularies: list[Vocabulary] = []
    for index, side in enumerate(SIDES):
        if counters:
            counter = counters.pop(0)
            vocabulary = Vocabulary.build(counter.counts(), min_freq=min_freq)
            final_ids = counter.final_ids(vocabulary)
            del counter
        vocabulary.save(folder / f"{side}.vocab.txt")
        if len(vocabulary) == len(SPECIALS):
            log.warning("the %s vocabulary is empty: no word occurs %d times; lower data.min_freq", side, min_freq)
        train.renumber(index, final_ids)
        vocabularies.append(vocabulary)
    return vocabularies


def _encode_held_out(
    split: "_SplitWriter",
    chunks: Iterable[TokenizedPairs],
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
    """Gives word forms provisional ids in the order of first sight, and counts them."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._counts = np.zeros(0, dtype=np.int64)  # longer than need be: it grows by doubling

    def encode(self, side: TokenizedSide) -> NDArray[np.int32]:
        """The provisional id of each token."""
        ids = np.array([self._ids.setdefault(form, len(self._ids)) for form in side.forms], dtype=np.int32)
        if len(self._counts) < len(self._ids):
            self._counts = np.append(self._counts, np.zeros(len(self._ids), dtype=np.int64))
        self._counts[ids] += np.bincount(side.ids, minlength=len(ids))
        return ids[side.ids]

    def forms(self) -> list[str]:
        """By provisional id."""
        return list(self._ids)

    def counts(self) -> dict[str, int]:
        return dict(zip(self._ids, self._counts.tolist(), strict=False))

    def final_ids(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """final_ids[provisional] = id in the vocabulary."""
        return np.array(vocabulary.encode(self._ids), dtype=np.int32)


class _Neighbours:
    """Which tokens stand side by side in the first sentences, by id."""

    def __init__(self) -> None:
        self._sentences = 0
        self._chunks: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]] = []

    def add(self, ids: NDArray[np.int32], side: TokenizedSide) -> None:
        """Look at the next sentences, while they are among the first JOIN_SENTENCES."""
        ends = np.cumsum(side.lengths[: JOIN_SENTENCES - self._sentences])
        self._sentences += len(ends)
        if len(ends):
            left = np.delete(np.arange(ends[-1]), ends - 1)  # all tokens but the last of each sentence
            self._chunks.append((ids[left], ids[left + 1], side.glued[left]))

    def learn(self, forms: Sequence[str]) -> Joins:
        """forms: by id."""
        left, right, glued = map(np.concatenate, zip(*self._chunks, strict=True))
        return learn_joins(forms, left, right, glued)


class _SplitWriter:
    """Both sides of a split, growing. Its `with` block ends when all is added."""

    def __init__(self, folder: Path, name: str, size: int | None) -> None:
        """size: about how many pairs there will be, if that is known."""
        self._sides = [_SideWriter(folder / f"{name}.{side}") for side in SIDES]
        self._bar = progress.bar(f"prepare {name}", size, " sentences")
        self._sentences = 0

    def add(self, chunk: TokenizedPairs, ids: Sequence[NDArray[np.int32]]) -> None:
        """ids of [source, target], as TokenizedSide.ids."""
        for writer, texts, side, side_ids in zip(self._sides, chunk.texts, chunk.sides, ids, strict=True):
            writer.add(texts, side_ids, side.lengths)
        self._sentences += len(chunk)
        self._bar.update(len(chunk))

    def renumber(self, side: int, final_ids: NDArray[np.int32]) -> None:
        """Turn the provisional ids of a side (0: source, 1: target) into final ones, on disk."""
        self._sides[side].renumber(final_ids)

    def counts(self) -> dict[str, Any]:
        """What the manifest says of the split."""
        sides = {side: writer.counts() for side, writer in zip(SIDES, self._sides, strict=True)}
        return {"sentences": self._sentences, **sides}

    def __enter__(self) -> "_SplitWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        for writer in self._sides:
            writer.close()


class _SideWriter:
    """One side of a split, growing: raw text, ids and offsets."""

    def __init__(self, stem: Path) -> None:
        self._text = open(f"{stem}.txt", "wb")
        self._ids = _ArrayWriter(Path(f"{stem}.ids.npy"), np.dtype(np.int32))
        self._offsets = _ArrayWriter(Path(f"{stem}.offsets.npy"), np.dtype(np.int64))
        self._offsets.extend(np.zeros(1))
        self._unknown = self._longest = 0

    def add(self, texts: Sequence[str], ids: NDArray[np.int32], lengths: NDArray[np.int64]) -> None:
        """texts, lengths (sentences,); ids (tokens,)."""
        self._text.write("".join(f"{text}\n" for text in texts).encode())
        self._offsets.extend(self._ids.length + np.cumsum(lengths))
        self._ids.extend(ids)
        self._unknown += int(np.count_nonzero(ids == UNK))
        self._longest = max(self._longest, int(lengths.max()))

    def renumber(self, final_ids: NDArray[np.int32]) -> None:
        """Turn provisional ids into final ones."""
        self._unknown = self._ids.renumber(final_ids)

    def counts(self) -> dict[str, Any]:
        tokens = self._ids.length
        return {"tokens": tokens, "unknown_rate": self._unknown / max(1, tokens), "longest": self._longest}

    def close(self) -> None:
        self._text.close()
        self._ids.close()
        self._offsets.close()


class _ArrayWriter:
    """A one-dimensional .npy file that grows. NumPy pads the header so that a longer length still fits in it."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.length = 0
        self._path = path
        self._dtype = dtype
        self._file = open(path, "wb")
        self._write_header()
        self._start = self._file.tell()

    def extend(self, values: NDArray[Any]) -> None:
        self._file.write(values.astype(self._dtype).tobytes())
        self.length += len(values)

    def renumber(self, table: NDArray[np.int32]) -> int:
        """Replace each id by table[id], after the file was closed; returns how many are UNK then."""
        n_unknown = 0
        with self._path.open("r+b") as file:
            file.seek(self._start)
            while block := file.read(RENUMBER_CHUNK * self._dtype.itemsize):
                ids = table[np.frombuffer(block, self._dtype)]
                file.seek(-len(block), os.SEEK_CUR)
                file.write(ids.tobytes())
                n_unknown += int(np.count_nonzero(ids == UNK))
        return n_unknown

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self._file, header)
