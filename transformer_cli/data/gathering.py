"""Text of one's own in any format → plain text, split by split: read, cleaned, and shared out between the splits.

Pairs come from formats.py, go through the rules of cleaning.py, and are held out here. What is left out goes to one
writer, which counts it. Knows no tokens and no datasets.
"""

import gzip
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformer_cli.config.schema import DataConfig, HeldOutConfig
from transformer_cli.data.cleaning import TOO_LONG, cleaned, fingerprint
from transformer_cli.data.formats import WITHOUT, read_text
from transformer_cli.data.lines import Place, Placed, is_too_long
from transformer_cli.errors import DataError
from transformer_cli.system import progress
from transformer_cli.system.terminal import counted

TEXT, LEFT_OUT = "text", "left-out.tsv.gz"
N_EXAMPLES = 2
WANTED, MOST_SHARE = 1_000, 0.02  # pairs of a held-out split, and the most that it may take
ENOUGH = 1_000  # pairs, with which there is also a test split


@dataclass
class LeftOut:
    """Counts what is left out and by which rule, and writes it to a file."""

    file: gzip.GzipFile | None = None
    counts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __call__(self, rule: str, source: str, target: str, place: Place) -> None:
        """Note a pair."""
        found = self.counts.setdefault(rule, {"pairs": 0, "examples": []})
        found["pairs"] += 1
        if len(found["examples"]) < N_EXAMPLES:
            found["examples"].append([str(place), source, target])
        if self.file:
            cells = (rule, str(place.source), f"{place.unit} {place.number}", source, target)
            self.file.write(("\t".join(cell.replace("\t", " ") for cell in cells) + "\n").encode())


def gather(data: DataConfig, folder: Path | None) -> dict[str, Any]:
    """Write {split}.source and {split}.target into TEXT below a folder, and what was left out into LEFT_OUT beside it.

    folder: None writes nothing. Returns how many pairs were read of the training text, were left out (with examples)
    and are in each split. Raises DataError as `read_text` does, for a split without a pair, and for a held-out pair
    with a side that is empty or too long.
    """
    assert data.files is not None
    with ExitStack() as opened:
        packed = opened.enter_context(open(folder / LEFT_OUT, "wb")) if folder else None
        left_out = LeftOut(opened.enter_context(gzip.GzipFile("", "wb", fileobj=packed, mtime=0)) if packed else None)
        held_out = set[int]()
        splits = dict.fromkeys(["train", "valid", *data.files, *(name for name, share in data.held_out if share)], 0)
        write = {split: _writer(folder, split, opened) for split in splits}
        for split in [split for split in data.files if split != "train"]:
            for source, target, _ in _checked(_pairs(data, split, left_out), data, left_out, is_held_out=True):
                write[split](source, target)
                splits[split] += 1
                held_out.add(fingerprint(source, data.source))
        n_read = 0

        def read() -> Iterator[Placed]:
            nonlocal n_read
            with progress.bar("read train", None, " pairs") as bar:
                for pair in _pairs(data, "train", left_out):
                    n_read += 1
                    bar.update(1)
                    yield pair

        for source, target, _ in _checked(cleaned(read(), data, left_out, held_out), data, left_out):
            split = split_of(source, data) if data.held_out.valid or data.held_out.test else "train"
            write[split](source, target)
            splits[split] += 1
    n_read += left_out.counts.get(WITHOUT, {}).get("pairs", 0)
    for split, n_pairs in splits.items():
        if not n_pairs:
            raise DataError(_none_left(split, sum(splits.values()), left_out.counts, data))
    return {"read": n_read, "left_out": left_out.counts, "splits": splits}


def split_of(source: str, data: DataConfig) -> str:
    """Returns the split that a pair is in. Its hash is between 0 and 1: valid takes the beginning, test the end.

    For example, with valid 0.01 and test 0.02 a hash of 0.004 is valid, one of 0.985 is test, all others are train. A
    larger share takes the same sentences, and more.
    """
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


def count_pairs(data: DataConfig) -> int:
    """Returns how many pairs the training text has. Raises DataError as `read_text` does."""
    return sum(1 for _ in _pairs(data, "train", LeftOut()))


def _pairs(data: DataConfig, split: str, left_out: LeftOut) -> Iterator[Placed]:
    assert data.files is not None
    texts = data.files[split]
    for text in texts if isinstance(texts, tuple) else (texts,):
        yield from read_text(text, data, left_out)


def _checked(
    pairs: Iterable[Placed], data: DataConfig, left_out: LeftOut, *, is_held_out: bool = False
) -> Iterator[Placed]:
    """Yield pairs. Raises DataError for what no rule has left out and a dataset cannot have."""
    for source, target, place in pairs:
        if is_too_long(source) or is_too_long(target):
            assert is_held_out, TOO_LONG
            raise place.of_long_side(source)
        if source.strip() and target.strip():
            yield source, target, place
        elif data.skip_empty:
            left_out("empty", source, target, place)
        else:
            raise place.of_empty_side(source)


def _writer(folder: Path | None, split: str, opened: ExitStack) -> Any:
    if folder is None:
        return lambda source, target: None
    (folder / TEXT).mkdir(exist_ok=True)
    one, other = (opened.enter_context(open(folder / TEXT / f"{split}.{side}", "wb")) for side in ("source", "target"))

    def write(source: str, target: str) -> None:
        one.write(f"{source}\n".encode())
        other.write(f"{target}\n".encode())

    return write


def _none_left(split: str, n_left: int, left_out: dict[str, dict[str, Any]], data: DataConfig) -> str:
    reasons = ", ".join(f"{rule} {found['pairs']:,}" for rule, found in left_out.items())
    of_rules = f" (left out: {reasons})" if reasons else ""
    if split == "train" or split in (data.files or {}):
        return f"data.files.{split}: not one pair of sentences{of_rules}; a split needs at least one"
    share = f"{getattr(data.held_out, split):g} of {counted(n_left, 'pair')}"
    remedy = f"raise it, or name files for {split}"
    return f"data.held_out.{split}: {share}{of_rules} is not one pair; {remedy}"
