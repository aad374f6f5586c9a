"""Makes a dataset on disk from a corpus. Warns if the training text has pairs of the validation and test sets, too."""

import json
import logging
import os
import random
import re
from collections import defaultdict
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
    MIN_WARNED_OVERLAP,
    Dataset,
    count_split,
    dataset_settings,
    read_manifest,
    without_paths,
)
from transformer_cli.data.encoding import encode_by_subwords, encode_by_words
from transformer_cli.errors import DataError
from transformer_cli.system.files import atomic_folder, sha256_of_bytes, write_checksums, write_json
from transformer_cli.system.terminal import pluralize
from transformer_cli.text.codec import SIDES, Codecs, codec_checksums
from transformer_cli.text.languages import target_token_end, target_token_of
from transformer_cli.text.lengths import LengthBounds, width
from transformer_cli.text.subwords import SENTENCEPIECE_VERSION
from transformer_cli.text.vocabulary import UNK
from transformer_cli.text.words import SPACY_VERSION, join_subwords

SAMPLE_LINES = 1_000  # lines of each side in which unknown tokens are counted
MAX_UNKNOWN_RATE = 0.1  # share of unknown tokens; for more, a warning
SAMPLED_LENGTHS = 100_000  # pairs of the training text whose lengths are measured
MIN_LENGTHS = 500  # with fewer pairs of a direction, their deciles would be too uncertain
BYTE_TOKEN = re.compile("<0x[0-9A-F]{2}>")  # stands for a byte of a character that has no subword

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
    """Make the dataset of a corpus that `config.data` describes, unless it exists already.

    Either way, warns if pairs of its validation or test sets are in its training text.

    codec_dir: with data.tokenizer_from, the folder of the run that it names (`find_tokenizer_run`). Raises DataError,
    also if data.fingerprint is that of another dataset, or ConfigError.
    """
    data = config.data
    assert bool(codec_dir) == bool(data.tokenizer_from), "`find_tokenizer_run` finds the run"
    given = {"codec": codec_checksums(codec_dir, data)} if codec_dir else {}
    versions = {"words": ("spaCy", SPACY_VERSION), "subwords": ("SentencePiece", SENTENCEPIECE_VERSION)}
    library, version = versions.get(data.tokens, ("spaces", "1"))
    origin = {  # all that the files depend on
        "format": FORMAT_VERSION,
        "settings": without_paths(dataset_settings(data)),
        "sums": corpus.checksums,
        library.lower(): version,
        **given,
        **({"rules": corpus.rules} if corpus.rules else {}),
    }
    fingerprint = sha256_of_bytes(json.dumps(origin, sort_keys=True).encode())[:8]
    if data.fingerprint not in (None, fingerprint):
        raise DataError(
            f"data.fingerprint: {data.fingerprint} names another dataset: this text, cut by {library} {version}, has "
            f"{fingerprint}; use the files and the {library} of that dataset, or copy its folder to {data_dir}/; for "
            "this text, take data.fingerprint out of the config"
        )
    folder = data_dir / f"{data.corpus}.{data.source}-{data.target}-{fingerprint}"
    if folder.exists():
        manifest = Dataset.open(folder).manifest
        warn_of_overlap(manifest)
        with suppress(OSError):  # the folder may belong to another user, or be read-only
            os.utime(folder)  # `tfm train` uses the dataset that was prepared last
        return PreparedDataset(folder, manifest, created=False)
    try:
        with atomic_folder(folder) as unfinished:
            manifest = _write_dataset(unfinished, data, corpus, codec_dir, {"fingerprint": fingerprint, **given})
    except OSError:
        if not folder.is_dir():
            raise
        return PreparedDataset(folder, read_manifest(folder), created=False)  # another process was faster
    return PreparedDataset(folder, manifest, created=True)


def _write_dataset(
    folder: Path, data: DataConfig, corpus: Corpus, codec_dir: Path | None, fingerprint: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the manifest. fingerprint: its entries on the dataset's identity."""
    splits, cleaning = corpus.write(folder)
    if data.both_directions:
        splits = {**splits, "train": _add_other_direction(folder, data, splits["train"])}
    encode = encode_by_subwords if data.tokens == "subwords" else encode_by_words
    codecs, tokenization = encode(folder, data, splits, Codecs.load(codec_dir, data) if codec_dir else None)
    default_token = target_token_of(data.to, codecs.target_languages) if data.to else ""
    codecs.save(folder)
    manifest = {
        "format_version": FORMAT_VERSION,
        "settings": dataset_settings(data),
        "sources": corpus.checksums,
        "vocabulary": {"source": len(codecs.source), "target": len(codecs.target)},
        "splits": {name: count_split(folder, name) for name in splits},
        "overlap": count_overlap(folder, splits, codecs),
        "lengths": fit_lengths(folder, splits["train"], default_token, data.joiner),
        **tokenization,
        **({"cleaning": cleaning} if cleaning else {}),
        **fingerprint,
    }
    warn_of_overlap(manifest)
    if codec_dir:
        warn_of_unknown_tokens(folder, codecs, data)
    write_json(folder / "manifest.json", manifest)
    write_checksums(folder)
    return manifest


def _add_other_direction(folder: Path, data: DataConfig, n_pairs: int) -> int:
    """Append the training pairs in the other direction, with its target token. Returns how many pairs there are then.

    A pair that has a target token already says its direction, and stays as it is.
    """
    added = 0
    with open(folder / "train.source.txt", "ab") as sources, open(folder / "train.target.txt", "ab") as targets:
        for source, target in islice(read_pairs(folder, "train"), n_pairs):
            if not target_token_end(source):
                sources.write(f"<2{data.source}> {target}\n".encode())
                targets.write(f"{source}\n".encode())
                added += 1
    return n_pairs + added


def fit_lengths(folder: Path, n_pairs: int, default_token: str, joiner: str | None) -> dict[str, LengthBounds]:
    """Returns the bounds of lengths of each target token in the training text ("": none) that has enough pairs."""
    widths, generator = defaultdict[str, list[tuple[int, int]]](list), random.Random(0)
    for source, target in read_pairs(folder, "train"):
        if generator.random() * n_pairs < SAMPLED_LENGTHS:
            end = target_token_end(source)
            lengths = width(source[end:].strip()), width(join_subwords(target.strip(), joiner))
            widths[source[:end] or default_token].append(lengths)
    return {token: LengthBounds.fit(pairs) for token, pairs in widths.items() if len(pairs) >= MIN_LENGTHS}


def count_overlap(folder: Path, splits: Iterable[str], codecs: Codecs) -> dict[str, dict[str, int]]:
    """Count how many pairs, sources and targets of each other split are in the training split, too.

    folder: has the raw text of `splits`. Lines are compared as normalised lines, whatever their case or spacing.
    Returns split → {"pairs": …, "sources": …, "references": …}; "sources" also counts sources with another translation,
    and "references" targets of another source.
    """

    def hashes(split: str) -> Iterator[tuple[int, int]]:
        for source, target in read_pairs(folder, split):
            yield hash(codecs.source.dedup_key(source)), hash(codecs.target.dedup_key(target))

    held_out = {split: [*hashes(split)] for split in splits if split != "train"}
    held_out_sources, held_out_targets = (
        {pair[side] for pairs in held_out.values() for pair in pairs} for side in (0, 1)
    )
    in_training, targets = set[tuple[int, int]](), set[int]()
    for source, target in hashes("train"):
        if source in held_out_sources:
            in_training.add((source, target))
        if target in held_out_targets:
            targets.add(target)
    sources = {source for source, _ in in_training}
    return {
        split: {
            "pairs": sum(pair in in_training for pair in pairs),
            "sources": sum(source in sources for source, _ in pairs),
            "references": sum(target in targets for _, target in pairs),
        }
        for split, pairs in held_out.items()
    }


def warn_of_overlap(manifest: dict[str, Any]) -> None:
    """Warn, in one line, of splits that have pairs, or many sources or references, of the training text."""
    overlapping = []
    for split, overlap in manifest["overlap"].items():
        sentences = manifest["splits"][split]["sentences"]
        n_references = overlap.get("references", 0)  # older datasets did not count them
        if overlap["pairs"] or max(overlap["sources"], n_references) >= MIN_WARNED_OVERLAP * sentences:
            sides = f"{pluralize(overlap['sources'], 'source')}, {pluralize(n_references, 'reference')}"
            overlapping.append(f"{split} {overlap['pairs']:,} of {sentences:,} pairs ({sides})")
    if overlapping:
        log.warning(
            "also in the training text: %s; a model may know them by heart, so their scores say little about new text; "
            "take them out of the training text, and prepare again",
            ", ".join(overlapping),
        )


def warn_of_unknown_tokens(folder: Path, codecs: Codecs, data: DataConfig) -> None:
    """Warn if many tokens of the training text are unknown to the codecs of the run data.tokenizer_from."""
    texts = zip(*islice(read_pairs(folder, "train"), SAMPLE_LINES), strict=True)
    for side, codec, lines in zip(SIDES, (codecs.source, codecs.target), texts, strict=True):
        tokens = [each for line in map(codec.encode, lines) for each in zip(line.ids, line.tokens, strict=True)]
        n_unknown = sum(index == UNK or BYTE_TOKEN.fullmatch(token) is not None for index, token in tokens)
        if n_unknown > MAX_UNKNOWN_RATE * len(tokens):
            what = "train, %s: %.0f %% of the tokens are unknown to the codec of %s: is it text of the same kind?"
            log.warning(what, side, 100 * n_unknown / len(tokens), data.tokenizer_from)
