"""Parallel text → a dataset on disk: its fingerprint, its manifest, and what looks wrong in it.

What looks wrong and is not surely wrong (overlaps, swapped sides, text that is not plain) is one warning for each kind
of thing, never an error.
"""

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from operator import eq
from pathlib import Path
from typing import Any

from transformer_cli.adapters.corpora.cleaning import MARKUP
from transformer_cli.adapters.corpora.corpora import Corpus, gather, gathered, open_corpus
from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.data.dataset import (
    FORMAT_VERSION,
    Dataset,
    count,
    read_manifest,
    shaping_settings,
    without_places,
)
from transformer_cli.data.encoding import encode_by_subwords, encode_by_words
from transformer_cli.errors import DataError
from transformer_cli.system.files import new_folder, sum_of, write_json, write_sums
from transformer_cli.text.codec import SIDES, Codecs, codec_sums
from transformer_cli.text.forms import CUT, form_of
from transformer_cli.text.subwords import SENTENCEPIECE_VERSION
from transformer_cli.text.vocabulary import UNK
from transformer_cli.text.words import SPACY_VERSION

BY_CHANCE = 0.01  # short sentences recur with another translation: up to this share of a split's is no warning
LOOKED_AT = 1_000  # lines of each side of each split
MOST = 0.5  # the share of lines that makes one kind of text of it
FEW = 0.1  # the share of lines with signs of subwords, or of unknown tokens, of which other text has hardly any
MANY_TIMES = 4  # the unknown words of training
BYTE = re.compile("<0x[0-9A-F]{2}>")  # of a character that has no subword

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A dataset on disk, and whether this call made it."""

    folder: Path
    manifest: dict[str, Any]
    created: bool


def make_dataset(
    config: Config, *, source_dir: Path | None = None, data_dir: Path = Path("data"), codec_dir: Path | None = None
) -> Prepared:
    """Make the dataset that `config.data` describes, unless it exists already.

    Either way, a warning says if pairs of its held-out splits occur in its training split; where it is made, others say
    what else looks wrong.

    source_dir: a folder with Multi30k's files, instead of the download. codec_dir: with data.codec, the folder of the
    run that it names, as `runs.run.find_codec` finds it. Raises DataError or ConfigError; DataError
    also if the config pins the fingerprint of another dataset. The fingerprint is a hash of all that shapes the files.
    """
    data = config.data
    assert bool(codec_dir) == bool(data.codec), "`find_codec` finds the run"
    corpus = open_corpus(data, source_dir=source_dir)
    given = {"codec": codec_sums(codec_dir, data)} if codec_dir else {}  # not where they are: what is in them
    library, version = ("spaCy", SPACY_VERSION) if data.tokens == "words" else ("SentencePiece", SENTENCEPIECE_VERSION)
    shaped_by = {
        "format": FORMAT_VERSION,
        "settings": without_places(shaping_settings(data)),
        "sums": corpus.sums,
        library.lower(): version,  # another one may cut text in other ways
        **given,
        **({"rules": corpus.rules} if corpus.rules else {}),
    }
    fingerprint = sum_of(json.dumps(shaped_by, sort_keys=True).encode())[:8]
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
        return Prepared(folder, manifest, created=False)
    try:  # another `tfm prepare` may make the same: the faster one's stays
        with new_folder(folder) as unfinished:
            manifest = _write_dataset(unfinished, data, corpus, codec_dir, {"fingerprint": fingerprint, **given})
    except OSError:
        if not folder.is_dir():
            raise
        return Prepared(folder, read_manifest(folder), created=False)  # the other one was faster
    return Prepared(folder, manifest, created=True)


def _write_dataset(
    folder: Path, data: DataConfig, corpus: Corpus, codec_dir: Path | None, identity: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the manifest. identity: what it keeps of the fingerprint."""
    facts_of_text = gather(corpus.splits, data, folder)
    splits = facts_of_text["splits"]
    encode = encode_by_words if data.tokens == "words" else encode_by_subwords
    codecs, facts = encode(folder, data, splits, Codecs.load(codec_dir, data) if codec_dir else None)
    codecs.into(data.to)  # refuses a language that they do not have
    codecs.save(folder)
    manifest = {
        "format_version": FORMAT_VERSION,
        "settings": shaping_settings(data),
        "sources": corpus.sums,
        "vocabulary": {"source": len(codecs.source), "target": len(codecs.target)},
        "splits": {name: count(folder, name) for name in splits},
        "overlap": count_overlap(folder, splits, codecs),
        **facts,
        **({"cleaning": facts_of_text} if corpus.rules or facts_of_text["left_out"] else {}),
        **identity,
    }
    warn_of_overlap(manifest)
    warn_of_text(folder, manifest)
    if codec_dir:
        warn_of_codecs(folder, codecs, data)
    write_json(folder / "manifest.json", manifest)
    write_sums(folder)
    return manifest


def count_overlap(folder: Path, splits: Iterable[str], codecs: Codecs) -> dict[str, dict[str, int]]:
    """Count, for each split but train, how many of its pairs and source sentences occur in the training split.

    folder: a dataset's, with the raw text of `splits`. What counts is what the codecs read of a line, whatever its case
    or spacing. Returns split → {"pairs": …, "sources": …}; `sources` also
    counts those that training has with another translation.
    """

    def read(split: str) -> Iterator[tuple[int, int]]:
        for source, target in gathered(folder, split):
            yield hash(codecs.source.content(source)), hash(codecs.target.content(target))

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
        if overlap["pairs"] or overlap["sources"] > BY_CHANCE * sentences:
            found.append(f"{split} {overlap['pairs']:,} of {sentences:,} pairs ({overlap['sources']:,} sources)")
    if found:
        log.warning(
            "also in the training text: %s; a model can learn them by heart, so scores there say less about new text; "
            "leave them out of the training text, and prepare again",
            ", ".join(found),
        )


def warn_of_text(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Warn of text that is the same on both sides, swapped, unlike the training text, or no plain text.

    folder, manifest: a dataset's.
    """
    texts = {
        (split, side): lines
        for split in manifest["splits"]
        for side, lines in zip(SIDES, zip(*islice(gathered(folder, split), LOOKED_AT), strict=True), strict=True)
    }
    formats: dict[str, list[str]] = {}
    cut: list[str] = []
    for (split, side), lines in texts.items():
        found = Counter(form_of(line.encode()) or ("markup" if MARKUP.search(line) else None) for line in lines)
        name, n = found.most_common(1)[0]
        if found[CUT] > FEW * len(lines):
            cut.append(f"{split}, {side}")
        elif name and n >= MOST * len(lines):
            formats.setdefault(name, []).append(f"{split}, {side}: {n:,} of the first {len(lines):,} lines")
    for name, where in formats.items():
        log.warning(
            "text that looks like %s (%s); files are read as plain text, one sentence per line", name, "; ".join(where)
        )
    if cut:
        log.warning("%s already (%s): give it as it was before, since tfm cuts it itself", CUT, "; ".join(cut))
    same = [
        split
        for split in manifest["splits"]
        if sum(map(eq, texts[split, "source"], texts[split, "target"])) > MOST * len(texts[split, "source"])
    ]
    if same:
        log.warning("source and target are the same text: %s; correct data.files", ", ".join(same))
    parts = {
        key: {line[start : start + 3] for line in lines for start in range(len(line))} for key, lines in texts.items()
    }
    held_out = [split for split in manifest["splits"] if split != "train"]
    swapped = [
        split
        for split in held_out
        if all(
            _shared(parts[split, side], parts["train", other]) > _shared(parts[split, side], parts["train", side])
            for side, other in (SIDES, SIDES[::-1])
        )
    ]
    if swapped:
        log.warning("source and target seem to be swapped, beside train: %s; correct data.files", ", ".join(swapped))
    for side in SIDES:
        rates = {split: counts[side]["unknown_rate"] for split, counts in manifest["splits"].items()}
        for split in held_out if not swapped else ():
            if rates[split] > max(0.05, MANY_TIMES * rates["train"]):
                what = "%s, %s: %.0f %% of the words are unknown, in train %.1f %%: is it text of the same kind?"
                log.warning(what, split, side, 100 * rates[split], 100 * rates["train"])


def warn_of_codecs(folder: Path, codecs: Codecs, data: DataConfig) -> None:
    """Warn of training text that codecs of another run, which data.codec names, know little of."""
    texts = zip(*islice(gathered(folder, "train"), LOOKED_AT), strict=True)
    for side, codec, lines in zip(SIDES, (codecs.source, codecs.target), texts, strict=True):
        tokens = [each for read in map(codec.encode, lines) for each in zip(read.ids, read.tokens, strict=True)]
        n_unknown = sum(index == UNK or BYTE.fullmatch(token) is not None for index, token in tokens)
        if n_unknown > FEW * len(tokens):
            what = "train, %s: %.0f %% of the tokens are unknown to the codec of %s: is it text of the same kind?"
            log.warning(what, side, 100 * n_unknown / len(tokens), data.codec)


def _shared(parts: set[str], others: set[str]) -> float:
    return len(parts & others) / max(1, len(parts))
