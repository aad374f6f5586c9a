"""Text → tokens → vocabulary (from the training split only) → arrays and a manifest.

Streams: a corpus is read once, and memory holds its word forms, not its sentences. The training split gets
provisional ids in the order of first sight; when its counts are known, one pass turns them into the final ones.
"""

import hashlib
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli import progress
from transformer_cli.config import Config, DataConfig
from transformer_cli.data.corpora import Corpus, open_corpus
from transformer_cli.data.dataset import FORMAT_VERSION, SIDES, read_manifest, settings
from transformer_cli.data.tokenizer import SPACY_VERSION, JoinLearner, Tokenizer, share_restored
from transformer_cli.data.vocabulary import SPECIALS, UNK, Vocabulary
from transformer_cli.files import new_folder, write_json

log = logging.getLogger(__name__)

REMAP_CHUNK = 1 << 20  # ids held in memory while they are renumbered
JOIN_SENTENCES = 200_000  # joins are learned from so many sentences at most; more would teach only rare pairs


@dataclass(frozen=True)
class Prepared:
    """A dataset on disk, and whether this call made it."""

    folder: Path
    manifest: dict[str, Any]
    created: bool


def prepare(config: Config, *, source_dir: Path | None = None, data_dir: Path = Path("data")) -> Prepared:
    """Make the dataset that `config.data` describes, unless it is there already.

    source_dir: a folder with Multi30k's files, instead of the download. Raises DataError or ConfigError.
    """
    corpus = open_corpus(config.data, source_dir=source_dir)
    fingerprint = _fingerprint(config.data, corpus)
    folder = data_dir / f"{config.data.corpus}.{config.data.source}-{config.data.target}-{fingerprint}"
    if folder.exists():
        manifest = read_manifest(folder)
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
    tokenizers = [Tokenizer(language, lowercase=data.lowercase) for language in (data.source, data.target)]
    joins = JoinLearner()
    counters = [_FormCounter(), _FormCounter()]
    if data.joint_vocabulary:
        counters[1] = counters[0]
    sentences = {"train": _encode_split(folder, "train", corpus, tokenizers, counters, joins)}
    vocabularies = _build_vocabularies(folder, counters, data.min_freq)
    for name in corpus.splits:
        if name != "train":
            sentences[name] = _encode_split(folder, name, corpus, tokenizers, vocabularies, None)
    table = joins.learn()
    write_json(folder / "target.joins.json", table.as_json())
    manifest = {
        "format_version": FORMAT_VERSION,
        "fingerprint": fingerprint,
        "settings": settings(data),
        "sources": corpus.sums,
        "tokenizer": {"library": "spacy", "version": SPACY_VERSION, "source": data.source, "target": data.target},
        "vocabulary": {side: len(vocabulary) for side, vocabulary in zip(SIDES, vocabularies, strict=True)},
        "splits": {name: _split_counts(folder, name, count) for name, count in sentences.items()},
        "left_out": list(corpus.left_out),
        "joins": {"valid_restored": share_restored(table, tokenizers[1], (t for _, t in corpus.splits["valid"]()))},
    }
    write_json(folder / "manifest.json", manifest)
    return manifest


class _FormCounter:
    """Gives word forms provisional ids in the order of first sight, and counts them."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._counts: list[int] = []

    def encode(self, tokens: Sequence[str]) -> list[int]:
        ids = [self._ids.setdefault(token, len(self._ids)) for token in tokens]
        self._counts.extend([0] * (len(self._ids) - len(self._counts)))
        for index in ids:
            self._counts[index] += 1
        return ids

    def counts(self) -> dict[str, int]:
        return dict(zip(self._ids, self._counts, strict=True))

    def final_ids(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        """final_ids[provisional] = id in the vocabulary."""
        return np.array(vocabulary.encode(self._ids), dtype=np.int32)


def _encode_split(
    folder: Path,
    name: str,
    corpus: Corpus,
    tokenizers: Sequence[Tokenizer],
    encoders: Sequence[_FormCounter | Vocabulary],
    joins: JoinLearner | None,
) -> int:
    """Write a split's raw text and arrays; returns how many sentences it has."""
    sides = [_SideWriter(folder / f"{name}.{side}") for side in SIDES]
    count = 0
    with sides[0], sides[1], progress.bar(f"prepare {name}", total=None, unit=" sentences") as bar:
        for pair in corpus.splits[name]():
            for index, (text, tokenizer, encoder) in enumerate(zip(pair, tokenizers, encoders, strict=True)):
                tokens = tokenizer.split(text)
                sides[index].add(text, encoder.encode(tokens.words))
                if index == 1 and joins is not None and count < JOIN_SENTENCES:
                    joins.add(tokens)
            count += 1
            bar.update()
    return count


def _build_vocabularies(folder: Path, counters: Sequence[_FormCounter], min_freq: int) -> list[Vocabulary]:
    """Build, save, and renumber the training split's arrays."""
    vocabularies: list[Vocabulary] = []
    for side, counter in zip(SIDES, counters, strict=True):
        joint = bool(vocabularies) and counter is counters[0]
        vocabulary = vocabularies[0] if joint else Vocabulary.build(counter.counts(), min_freq=min_freq)
        vocabulary.save(folder / f"{side}.vocab.txt")
        if len(vocabulary) == len(SPECIALS):
            log.warning("the %s vocabulary is empty: no word occurs %d times; lower data.min_freq", side, min_freq)
        final_ids = counter.final_ids(vocabulary)
        ids = np.load(folder / f"train.{side}.ids.npy", mmap_mode="r+")
        for start in range(0, len(ids), REMAP_CHUNK):
            ids[start : start + REMAP_CHUNK] = final_ids[ids[start : start + REMAP_CHUNK]]
        ids.flush()
        vocabularies.append(vocabulary)
    return vocabularies


def _split_counts(folder: Path, name: str, sentences: int) -> dict[str, Any]:
    counts: dict[str, Any] = {"sentences": sentences}
    for side in SIDES:
        ids = np.load(folder / f"{name}.{side}.ids.npy", mmap_mode="r")
        offsets = np.load(folder / f"{name}.{side}.offsets.npy", mmap_mode="r")
        unknown = int(np.count_nonzero(ids == UNK))
        longest = int(np.diff(offsets).max(initial=0))
        counts[side] = {"tokens": len(ids), "unknown_rate": unknown / max(1, len(ids)), "longest": longest}
    return counts


class _SideWriter:
    """One side of a split, growing: raw text, ids and offsets."""

    def __init__(self, stem: Path) -> None:
        self._text = open(f"{stem}.txt", "w", encoding="utf-8", newline="\n")
        self._ids = _ArrayWriter(Path(f"{stem}.ids.npy"), np.dtype(np.int32))
        self._offsets = _ArrayWriter(Path(f"{stem}.offsets.npy"), np.dtype(np.int64))
        self._offsets.extend([0])

    def add(self, text: str, ids: Sequence[int]) -> None:
        self._text.write(f"{text}\n")
        self._ids.extend(ids)
        self._offsets.extend([self._ids.length])

    def __enter__(self) -> "_SideWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._text.close()
        self._ids.close()
        self._offsets.close()


class _ArrayWriter:
    """A one-dimensional .npy file that grows. NumPy pads the header so that a longer length still fits in it."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.length = 0
        self._dtype = dtype
        self._file = open(path, "wb")
        self._write_header()

    def extend(self, values: Sequence[int]) -> None:
        self._file.write(np.array(values, dtype=self._dtype).tobytes())
        self.length += len(values)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self._file, header)
