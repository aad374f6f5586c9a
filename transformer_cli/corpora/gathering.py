"""A corpus → plain text, split by split: read, cleaned, shared out between the splits, and written into a dataset.

What is left out goes to one writer, which counts it. Knows no formats and no tokens.
"""

import gzip
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from transformer_cli.config.schema import DataConfig, HeldOutConfig
from transformer_cli.corpora.cleaning import RULES, cleaned, fingerprint, without
from transformer_cli.corpora.formats import LeaveOut
from transformer_cli.errors import DataError
from transformer_cli.system import progress
from transformer_cli.text.codec import SIDES
from transformer_cli.text.lines import TOO_LONG, Pairs, Place, Placed, is_too_long

LEFT_OUT = "left-out.tsv.gz"
N_EXAMPLES = 2
WANTED, MOST_SHARE = 1_000, 0.02  # pairs of a held-out split, and the most that it may take
ENOUGH = 1_000  # pairs, with which there is also a test split


def gather(
    corpus: Mapping[str, Callable[[LeaveOut], Iterator[Placed]]], data: DataConfig, folder: Path | None
) -> dict[str, Any]:
    """Write {split}.source.txt and {split}.target.txt into a dataset's folder, and into LEFT_OUT what was left out.

    corpus: see `Corpus.splits`. folder: None writes nothing. Returns how many pairs were read of the training text,
    were left out (with examples) and are in each split. Raises DataError as `read_texts` does, for a split without a
    pair, for an empty side that no rule leaves out, and for a held-out pair with a side that is too long.
    """
    splits = dict.fromkeys(["train", "valid", *corpus, *(name for name, share in data.held_out if share)], 0)
    counts: dict[str, dict[str, Any]] = {}
    held_out = set[int]()
    with ExitStack() as opened:

        def new_file(name: str) -> BinaryIO:
            return opened.enter_context(open(folder / name if folder else os.devnull, "wb"))

        left_out = opened.enter_context(gzip.GzipFile("", "wb", fileobj=new_file(LEFT_OUT), mtime=0))
        files = {split: [new_file(f"{split}.{side}.txt") for side in SIDES] for split in splits}

        def leave_out(rule: str, source: str, target: str, place: Place) -> None:
            found = counts.setdefault(rule, {"pairs": 0, "examples": []})
            found["pairs"] += 1
            found["examples"] += [[str(place), source, target]] if len(found["examples"]) < N_EXAMPLES else []
            cells = (rule, str(place.source), f"{place.unit} {place.number}", source, target)
            left_out.write(("\t".join(cell.replace("\t", " ") for cell in cells) + "\n").encode())

        def add(split: str, source: str, target: str, place: Place) -> None:
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

        for split in [split for split in corpus if split != "train"]:
            pairs = corpus[split](leave_out)
            if data.skip_empty:
                pairs = without("empty", RULES["empty"], pairs, leave_out)
            for source, target, place in pairs:
                add(split, source, target, place)
                if "held_out" in data.clean:
                    held_out.add(fingerprint(source, data.source))
        before = n_pairs()
        with progress.bar("read train", None, " pairs") as bar:
            for pair in cleaned(corpus["train"](leave_out), data, leave_out, held_out):
                add(split_of(pair[0], data), *pair)
                bar.update(1)
    if folder and not counts:
        (folder / LEFT_OUT).unlink()
    reasons = ", ".join(
        f"{rule} {found['pairs']:,}, such as {found['examples'][0][1][:40]!r}" for rule, found in counts.items()
    )
    for split in [split for split, size in splits.items() if not size]:
        where, remedy = f"data.files.{split}", "a split needs at least one"
        if split not in corpus:
            where, remedy = f"data.held_out.{split}", f"raise it, or name files for {split}"
        if set(counts) - {"empty"} and n_pairs() > 2 * sum(splits.values()):  # so not the share is too small
            remedy = "see that neither the sides nor the columns (data.columns) are mistaken, or name fewer rules"
        raise DataError(f"{where}: not one pair of sentences{reasons and f' (left out: {reasons})'}; {remedy}")
    return {"read": n_pairs() - before, "left_out": counts, "splits": splits}


def gathered(folder: Path, split: str) -> Pairs:
    """Yield the pairs of a split that were written into a folder."""
    with ExitStack() as opened:
        source, target = (
            opened.enter_context(open(folder / f"{split}.{side}.txt", encoding="utf-8", newline="\n")) for side in SIDES
        )
        for one, other in zip(source, target, strict=True):
            yield one[:-1], other[:-1]


def split_of(source: str, data: DataConfig) -> str:
    """Returns the split that a training pair is in, by a hash between 0 and 1: valid has the beginning, test the end.

    For example, with valid 0.01 and test 0.02 a hash of 0.004 is valid, one of 0.985 is test, all others are train. A
    larger share takes the same sentences, and more.
    """
    if not data.held_out.valid and not data.held_out.test:
        return "train"
    place = fingerprint(source, data.source) / 2**64
    return "valid" if place < data.held_out.valid else "test" if place >= 1 - data.held_out.test else "train"


def shares_for(n_pairs: int, data: DataConfig) -> HeldOutConfig:
    """Returns the shares that hold out about WANTED pairs for each split without files, but at most MOST_SHARE."""
    share = min(MOST_SHARE, float(f"{WANTED / max(1, n_pairs):.2g}"))
    given = data.files or {}
    return HeldOutConfig(
        valid=0.0 if "valid" in given else share,
        test=0.0 if n_pairs < ENOUGH or {*given} - {"train", "valid"} else share,
    )
