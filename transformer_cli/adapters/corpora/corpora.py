"""Where parallel text comes from, and how it becomes plain text, split by split: read, cleaned, held out, written.

It comes from Multi30k, from files of the user's own, or from the captions that come with the package. A new kind of
corpus is a function here, from the settings to an OpenedCorpus, and a case in `open_corpus`; a format of the user's
files is a function in formats.py. What is left out goes to one writer, which counts it. Knows no tokens.
"""

import bz2
import gzip
import hashlib
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli.adapters.corpora import multi30k
from transformer_cli.adapters.corpora.cleaning import RULES, apply_rule, clean_pairs, rule_parameters, sentence_hash
from transformer_cli.adapters.corpora.formats import TABLE, LeaveOut, pair_format, read_texts, require_files
from transformer_cli.config.schema import DataConfig, HeldOutConfig
from transformer_cli.errors import DataError
from transformer_cli.system import progress
from transformer_cli.system.files import sha256_of_file
from transformer_cli.system.terminal import pluralize, shorten
from transformer_cli.text.codec import SIDES
from transformer_cli.text.file_formats import JSON
from transformer_cli.text.lines import TOO_LONG, LocatedPair, Location, is_too_long

CAPTIONS = Path(__file__).with_name("captions.bz2")
"""UTF-8: all German lines, then the English ones; first valid, then test, then train. a grammar wrote it from a seed"""
HELD_OUT_CAPTIONS = 500  # pairs of valid, and of test
LEFT_OUT_FILE = "left-out.tsv.gz"
MAX_EXAMPLES = 2
MAX_SHOWN_CHARS = 50  # characters of a side
TARGET_HELD_OUT_PAIRS, MAX_HELD_OUT_SHARE = 1_000, 0.02  # pairs of a held-out split, and the most that it may take
MIN_EXPECTED_PAIRS = 5  # pairs that a share of a text means, so that there is one at all, but in one of 150 texts
MAX_SHARE_OF_SMALL_TEXT = 0.4
MIN_PAIRS_FOR_TEST = 1_000  # pairs, with which there is also a test split

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenedCorpus:
    """A `data.corpus.Corpus` that is read from its origin at each pass."""

    data: DataConfig
    checksums: Mapping[str, str]
    splits: Mapping[str, Callable[[LeaveOut], Iterator[LocatedPair]]]
    """split → a function that starts a pass over its pairs, as `formats.read_texts` describes it"""
    rules: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> tuple[dict[str, int], dict[str, Any]]:
        """Write what cleaning and holding out leave of each split, and what it was that they left out, into a folder.

        Raises DataError as `clean_and_split` does.
        """
        report = clean_and_split(self, folder)
        return report["splits"], report if self.rules or report["left_out"] else {}


def open_corpus(data: DataConfig, *, multi30k_dir: Path | None = None) -> OpenedCorpus:
    """Find, if necessary fetch, and verify the text that `data` names.

    multi30k_dir: a folder with the files of Multi30k; for any other corpus it is ignored with a warning.

    Raises DataError if a file is missing or not the expected one, DownloadError if it could not be fetched, OSError if
    it cannot be read.
    """
    if data.corpus == "imported":
        raise DataError("data.corpus: imported has no text here; prepare your own, as in `tfm prepare FILE --like RUN`")
    if data.corpus == "pairs":
        raise DataError("data.corpus: pairs are given in Python, as in prepare(config, pairs={…}); name another corpus")
    if multi30k_dir is not None and data.corpus != "multi30k":
        log.warning("--multi30k-dir %s is ignored: it applies to corpus multi30k, not to %s", multi30k_dir, data.corpus)
    if data.corpus == "captions":
        return _open_captions(data)
    if data.corpus == "multi30k":
        pairs = multi30k.find_files(data.source, data.target, multi30k_dir)
        sums = {
            path.name: multi30k.checksums()[path.name] for pair in pairs.values() for path in (pair.source, pair.target)
        }
        return OpenedCorpus(data, sums, {split: partial(read_texts, [pair], data) for split, pair in pairs.items()})
    assert data.files is not None  # the config ensures it
    require_files((f"data.files.{name}", path) for name, path in data.texts)
    sums = {name: sha256_of_file(path) for name, path in data.texts}
    texts = {split: text if isinstance(text, tuple) else (text,) for split, text in data.files.items()}
    whole = [text for split in texts.values() for text in split if isinstance(text, Path)]
    if data.columns and not any(pair_format(text, data) in (TABLE, JSON) for text in whole):
        raise DataError(
            f"data.columns (--columns {','.join(data.columns)}): no file is a table or JSON lines; leave it out"
        )
    return OpenedCorpus(
        data, sums, {split: partial(read_texts, text, data) for split, text in texts.items()}, rule_parameters(data)
    )


def _open_captions(data: DataConfig) -> OpenedCorpus:
    """Needs no network. The SHA-256 is taken over both languages, whichever of them is the source."""
    total, splits = hashlib.sha256(), {}
    for split, pairs in read_captions(data.captions.sentences).items():
        for german, english in pairs:
            total.update(f"{split}\t{german}\t{english}\n".encode())
        splits[split] = partial(_with_places, pairs if data.source == "de" else [(en, de) for de, en in pairs])
    return OpenedCorpus(data, {"captions": total.hexdigest()}, splits)


def _with_places(pairs: list[tuple[str, str]], leave_out: LeaveOut) -> Iterator[LocatedPair]:
    return ((*pair, Location(CAPTIONS, CAPTIONS, number, "pair")) for number, pair in enumerate(pairs, start=1))


def read_captions(sentences: int) -> dict[str, list[tuple[str, str]]]:
    """Returns the (German, English) pairs of train (the first `sentences`), valid and test.

    No sentence occurs twice in either language. test has constructions that train and valid do not have.
    """
    lines = bz2.decompress(CAPTIONS.read_bytes()).decode("utf-8").splitlines()
    pairs = list(zip(lines[: len(lines) // 2], lines[len(lines) // 2 :], strict=True))
    valid, test, train = (
        pairs[:HELD_OUT_CAPTIONS],
        pairs[HELD_OUT_CAPTIONS : 2 * HELD_OUT_CAPTIONS],
        pairs[2 * HELD_OUT_CAPTIONS :],
    )
    return {"train": train[:sentences], "valid": valid, "test": test}


def clean_and_split(corpus: OpenedCorpus, folder: Path | None) -> dict[str, Any]:
    """Write {split}.source.txt and {split}.target.txt into a dataset's folder, and into LEFT_OUT what was left out.

    folder: None writes nothing. Returns how many pairs of the training text were read, left out (with examples) and
    had entities decoded, and how many each split has. Raises DataError as `read_texts` does,
    for a split without a pair, for an empty side that no rule leaves out, and for a held-out pair with a side that is
    too long.
    """
    data, texts = corpus.data, corpus.splits
    splits = dict.fromkeys(["train", "valid", *texts, *(name for name, share in data.held_out if share)], 0)
    counts: dict[str, dict[str, Any]] = {}
    held_out = set[int]()
    with ExitStack() as opened:

        def new_file(name: str) -> BinaryIO:
            return opened.enter_context(open(folder / name if folder else os.devnull, "wb"))

        left_out = opened.enter_context(gzip.GzipFile("", "wb", fileobj=new_file(LEFT_OUT_FILE), mtime=0))
        files = {split: [new_file(f"{split}.{side}.txt") for side in SIDES] for split in splits}

        def leave_out(rule: str, source: str, target: str, place: Location) -> None:
            found = counts.setdefault(rule, {"pairs": 0, "examples": []})
            found["pairs"] += 1
            found["examples"] += [[str(place), source, target]] if len(found["examples"]) < MAX_EXAMPLES else []
            cells = (rule, str(place.source), f"{place.unit} {place.number}", source, target)
            left_out.write(("\t".join(cell.replace("\t", " ") for cell in cells) + "\n").encode())

        def add(split: str, source: str, target: str, place: Location) -> None:
            for side, path in ((source, place.source), (target, place.target)):
                if is_too_long(side):
                    raise DataError(f"{place._replace(source=path)} has {TOO_LONG}; split it, or take the pair out")
                if not side.strip():
                    remedy = "mend it, or set data.skip_empty: true to leave such pairs out"
                    raise DataError(f"{place._replace(source=path)} is empty; {remedy}")
            splits[split] += 1
            for file, side in zip(files[split], (source, target), strict=True):
                file.write(f"{side}\n".encode())

        def n_pairs() -> int:
            return sum(splits.values()) + sum(found["pairs"] for found in counts.values())

        for split in [split for split in texts if split != "train"]:
            pairs = texts[split](leave_out)
            if data.skip_empty:
                pairs = apply_rule("empty", RULES["empty"], pairs, leave_out)
            for source, target, place in pairs:
                add(split, source, target, place)
                if "held_out" in data.clean:
                    held_out.add(sentence_hash(source, data.source))
        decoded = Counter[str]()
        before, shown = n_pairs(), set[Path]()
        with progress.bar("read train", None, " pairs") as bar:
            for pair in clean_pairs(texts["train"](leave_out), data, leave_out, held_out, decoded):
                add(assign_split(pair[0], data), *pair)
                bar.update(1)
                if (
                    data.corpus == "files" and pair[2].source not in shown
                ):  # so whoever reads it sees what the sides are
                    shown.add(pair[2].source)
                    log.info("%s: %s | %s", pair[2], *(shorten(side, MAX_SHOWN_CHARS) for side in pair[:2]))
    if folder and not counts:
        (folder / LEFT_OUT_FILE).unlink()
    reasons = ", ".join(
        f"{rule} {found['pairs']:,}, such as {found['examples'][0][1][:40]!r}" for rule, found in counts.items()
    )
    for split in [split for split, size in splits.items() if not size]:
        where, remedy = f"data.files.{split}", "a split needs at least one"
        if share := dict(data.held_out).get(split):
            where = f"data.held_out.{split}: {share:g} of {pluralize(sum(splits.values()), 'pair')}"
            remedy = (
                f"give at least {math.ceil(MIN_EXPECTED_PAIRS / share):,} pairs, a larger share, or files for {split}"
            )
        elif any(share for _, share in data.held_out):
            remedy = f"all were held out; give at least {MIN_EXPECTED_PAIRS} pairs"
            if sum(splits.values()) >= MIN_EXPECTED_PAIRS:
                remedy = "all were held out together, since they differ in numbers and marks alone; give others"
        if set(counts) - {"empty"} and n_pairs() > 2 * sum(splits.values()):  # so not the share is too small
            remedy = "see that neither the sides nor the columns (data.columns) are mistaken, or name fewer rules"
        raise DataError(f"{where}: not one pair of sentences{reasons and f' (left out: {reasons})'}; {remedy}")
    report = {"read": n_pairs() - before, "left_out": counts, "splits": splits}
    return {**report, **decoded}


def assign_split(source: str, data: DataConfig) -> str:
    """Returns the split that a training pair is in, by a hash between 0 and 1: valid has the beginning, test the end.

    For example, with valid 0.01 and test 0.02 a hash of 0.004 is valid, one of 0.985 is test, all others are train. A
    larger share takes the same sentences, and more.
    """
    if not data.held_out.valid and not data.held_out.test:
        return "train"
    place = sentence_hash(source, data.source) / 2**64
    return "valid" if place < data.held_out.valid else "test" if place >= 1 - data.held_out.test else "train"


def held_out_shares(n_pairs: int, data: DataConfig) -> HeldOutConfig:
    """Returns the shares that hold out about WANTED pairs for each split without files, but at most MOST_SHARE.

    Of very few pairs, a larger share is held out, so that there is one at all.
    """
    share = min(MAX_HELD_OUT_SHARE, float(f"{TARGET_HELD_OUT_PAIRS / max(1, n_pairs):.2g}"))
    share = max(share, min(MAX_SHARE_OF_SMALL_TEXT, float(f"{MIN_EXPECTED_PAIRS / max(1, n_pairs):.2g}")))
    given = data.files or {}
    return HeldOutConfig(
        valid=0.0 if "valid" in given else share,
        test=0.0 if n_pairs < MIN_PAIRS_FOR_TEST or {*given} - {"train", "valid"} else share,
    )
