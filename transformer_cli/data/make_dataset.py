"""A corpus → a dataset on disk: its fingerprint, its manifest, and warnings of held-out text that training has, too."""

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.data.corpus import Corpus, read_pairs
from transformer_cli.data.dataset import (
    FORMAT_VERSION,
    Dataset,
    count_split,
    dataset_settings,
    read_manifest,
    without_paths,
)
from transformer_cli.data.encoding import encode_by_subwords, encode_by_words
from transformer_cli.errors import DataError
from transformer_cli.system.files import atomic_folder, sha256_of_bytes, write_checksums, write_json
from transformer_cli.text.codec import SIDES, Codecs, codec_checksums
from transformer_cli.text.subwords import SENTENCEPIECE_VERSION
from transformer_cli.text.vocabulary import UNK
from transformer_cli.text.words import SPACY_VERSION

MAX_CHANCE_OVERLAP = 0.01  # short sentences recur with another translation: up to this share of a split's is no warning
SAMPLE_LINES = 1_000  # lines of each side, whose tokens another run's codecs should know
MAX_UNKNOWN_RATE = 0.1  # the share of unknown tokens that text of the same kind hardly has
BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")  # of a character that has no subword

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreparedDataset:
    """A dataset on disk, and whether this call made it."""

    folder: Path
    manifest: dict[str, Any]
    created: bool


def make_dataset(
    config: Config, corpus: Corpus, *, data_dir: Path = Path("data"), codec_dir: Path | None = None
) -> PreparedDataset:
    """Make a dataset of a corpus as `config.data` says, unless it exists already.

    Either way, a warning says if pairs of its held-out splits occur in its training split.

    codec_dir: with data.tokenizer_from, the folder of the run that it names, which `find_tokenizer_run` finds. Raises
    DataError or ConfigError; DataError also if the config pins the fingerprint of another dataset. The fingerprint is a
    hash of all that shapes the files.
    """
    data = config.data
    assert bool(codec_dir) == bool(data.tokenizer_from), "`find_tokenizer_run` finds the run"
    given = {"codec": codec_checksums(codec_dir, data)} if codec_dir else {}  # not where they are: what is in them
    library, version = ("spaCy", SPACY_VERSION) if data.tokens == "words" else ("SentencePiece", SENTENCEPIECE_VERSION)
    shaped_by = {
        "format": FORMAT_VERSION,
        "settings": without_paths(dataset_settings(data)),
        "sums": corpus.checksums,
        library.lower(): version,  # another one may cut text in other ways
        **given,
        **({"rules": corpus.rules} if corpus.rules else {}),
    }
    fingerprint = sha256_of_bytes(json.dumps(shaped_by, sort_keys=True).encode())[:8]
    if data.fingerprint not in (None, fingerprint):
        raise DataError(
            f"data.fingerprint is {data.fingerprint}, but this text with {library} {version} makes {fingerprint}; use "
            f"the same files and the same {library}, copy the dataset's folder to {data_dir}/, or for other text take "
            "data.fingerprint out of the config"
        )
    folder = data_dir / f"{data.corpus}.{data.source}-{data.target}-{fingerprint}"
    if folder.exists():
        manifest = Dataset.open(folder).manifest
        warn_of_overlap(manifest)
        with suppress(OSError):  # the folder may be somebody else's, or read-only
            os.utime(folder)  # `tfm train` uses the dataset that was prepared last
        return PreparedDataset(folder, manifest, created=False)
    try:  # another `tfm prepare` may make the same: the faster one's stays
        with atomic_folder(folder) as unfinished:
            manifest = _write_dataset(unfinished, data, corpus, codec_dir, {"fingerprint": fingerprint, **given})
    except OSError:
        if not folder.is_dir():
            raise
        return PreparedDataset(folder, read_manifest(folder), created=False)  # the other one was faster
    return PreparedDataset(folder, manifest, created=True)


def _write_dataset(
    folder: Path, data: DataConfig, corpus: Corpus, codec_dir: Path | None, fingerprinted: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the manifest. fingerprinted: what it keeps of the fingerprint."""
    splits, cleaning = corpus.write(folder)
    encode = encode_by_words if data.tokens == "words" else encode_by_subwords
    codecs, facts = encode(folder, data, splits, Codecs.load(codec_dir, data) if codec_dir else None)
    codecs.for_target(data.to)  # refuses a language that they do not have
    codecs.save(folder)
    manifest = {
        "format_version": FORMAT_VERSION,
        "settings": dataset_settings(data),
        "sources": corpus.checksums,
        "vocabulary": {"source": len(codecs.source), "target": len(codecs.target)},
        "splits": {name: count_split(folder, name) for name in splits},
        "overlap": count_overlap(folder, splits, codecs),
        **facts,
        **({"cleaning": cleaning} if cleaning else {}),
        **fingerprinted,
    }
    warn_of_overlap(manifest)
    if codec_dir:
        warn_of_unknown_tokens(folder, codecs, data)
    write_json(folder / "manifest.json", manifest)
    write_checksums(folder)
    return manifest


def count_overlap(folder: Path, splits: Iterable[str], codecs: Codecs) -> dict[str, dict[str, int]]:
    """Count, for each split but train, how many of its pairs and source sentences occur in the training split.

    folder: a dataset's, with the raw text of `splits`. What counts is what the codecs read of a line, whatever its case
    or spacing. Returns split → {"pairs": …, "sources": …}; `sources` also
    counts those that training has with another translation.
    """

    def read(split: str) -> Iterator[tuple[int, int]]:
        for source, target in read_pairs(folder, split):
            yield hash(codecs.source.dedup_key(source)), hash(codecs.target.dedup_key(target))

    held_out = {split: [*read(split)] for split in splits if split != "train"}
    wanted = {source for found in held_out.values() for source, _ in found}
    pairs = {pair for pair in read("train") if pair[0] in wanted}
    sources = {source for source, _ in pairs}
    return {
        split: {
            "pairs": sum(pair in pairs for pair in found),
            "sources": sum(source in sources for source, _ in found),
        }
        for split, found in held_out.items()
    }


def warn_of_overlap(manifest: dict[str, Any]) -> None:
    """Warn, in one line, of a dataset's splits of which whole pairs or many sources are in the training text."""
    found = []
    for split, overlap in manifest["overlap"].items():
        sentences = manifest["splits"][split]["sentences"]
        if overlap["pairs"] or overlap["sources"] > MAX_CHANCE_OVERLAP * sentences:
            found.append(f"{split} {overlap['pairs']:,} of {sentences:,} pairs ({overlap['sources']:,} sources)")
    if found:
        log.warning(
            "also in the training text: %s; a model can learn them by heart, so scores there say less about new text; "
            "leave them out of the training text, and prepare again",
            ", ".join(found),
        )


def warn_of_unknown_tokens(folder: Path, codecs: Codecs, data: DataConfig) -> None:
    """Warn of training text that codecs of another run, which data.tokenizer_from names, know little of."""
    texts = zip(*islice(read_pairs(folder, "train"), SAMPLE_LINES), strict=True)
    for side, codec, lines in zip(SIDES, (codecs.source, codecs.target), texts, strict=True):
        tokens = [each for read in map(codec.encode, lines) for each in zip(read.ids, read.tokens, strict=True)]
        n_unknown = sum(index == UNK or BYTE_TOKEN.fullmatch(token) is not None for index, token in tokens)
        if n_unknown > MAX_UNKNOWN_RATE * len(tokens):
            what = "train, %s: %.0f %% of the tokens are unknown to the codec of %s: is it text of the same kind?"
            log.warning(what, side, 100 * n_unknown / len(tokens), data.tokenizer_from)
