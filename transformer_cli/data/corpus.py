"""The text of a dataset: sentence pairs, split by split. Knows neither file formats nor tokens."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from transformer_cli.config.schema import NAME
from transformer_cli.errors import DataError
from transformer_cli.system.files import sha256_of_bytes
from transformer_cli.text.codec import SIDES
from transformer_cli.text.lines import TOO_LONG, PairIterator, is_too_long, refuse_lone_surrogates


class Corpus(Protocol):
    """Parallel text that can be written into a dataset's folder, wherever it comes from."""

    @property
    def checksums(self) -> Mapping[str, str]:
        """Name of each source of text, such as `train.source`, `train.de.gz`, `captions`, without folders → SHA-256."""

    @property
    def rules(self) -> Mapping[str, Any]:
        """The thresholds, besides the settings, by which cleaning leaves pairs out; {} without cleaning."""

    def write(self, folder: Path) -> tuple[dict[str, int], dict[str, Any]]:
        """Write the lines of each split into {split}.source.txt and {split}.target.txt, which `read_pairs` reads.

        Returns how many pairs each split has, at least one, and the manifest's entry on cleaning ({}: none).
        Two splits are named train and valid; the others are test sets. Raises DataError.
        """


@dataclass(frozen=True)
class PairCorpus:
    """Pairs in memory: {"train": [("Ein Hund.", "A dog."), …], "valid": […], "test": […]}.

    Raises DataError if train or valid has no pair, or if a side is empty, too long or not one line of text.
    """

    splits: Mapping[str, Sequence[tuple[str, str]]]
    rules: Mapping[str, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for split in dict.fromkeys(("train", "valid", *self.splits)):
            if not NAME.fullmatch(split):
                raise DataError(f"pairs: {split!r} cannot name a split; use letters, digits, '.', '_' and '-'")
            if not self.splits.get(split):
                raise DataError(f"pairs: {split} has no pair; a dataset needs train and valid, with at least one each")
            for number, pair in enumerate(self.splits[split]):
                _check_pair(pair, f"pairs[{split!r}][{number}]")

    @property
    def checksums(self) -> dict[str, str]:
        """The SHA-256 of each split's lines: source, target, source, …"""
        lines = {split: (f"{one}\n{other}\n" for one, other in pairs) for split, pairs in self.splits.items()}
        return {split: sha256_of_bytes("".join(each).encode()) for split, each in lines.items()}

    def write(self, folder: Path) -> tuple[dict[str, int], dict[str, Any]]:
        """Write all pairs as `Corpus.write` describes it."""
        sizes = {split: len(self.splits[split]) for split in ("train", "valid", *self.splits)}
        for split in sizes:
            for side, lines in zip(SIDES, zip(*self.splits[split], strict=True), strict=True):
                (folder / f"{split}.{side}.txt").write_bytes("".join(f"{line}\n" for line in lines).encode())
        return sizes, {}


def _check_pair(pair: object, where: str) -> None:
    """Raises DataError unless a pair is two lines of text."""
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(side, str) for side in pair)):
        raise DataError(f"{where} is not a pair of a source and a target, but {str(pair)[:60]!r}")
    for name, side in zip(SIDES, pair, strict=True):
        if not side.strip():
            raise DataError(f"{where}: the {name} is empty; take the pair out")
        if "\n" in side:
            raise DataError(f"{where}: the {name} has a line end; a side is one line")
        if is_too_long(side):
            raise DataError(f"{where}: the {name} has {TOO_LONG}; split it, or take the pair out")
        refuse_lone_surrogates(side, f"{where}: the {name}: ")


def read_pairs(folder: Path, split: str) -> PairIterator:
    """Yield the pairs of a split, as `Corpus.write` has written them."""
    with ExitStack() as opened:
        paths = [folder / f"{split}.{side}.txt" for side in SIDES]
        source, target = (opened.enter_context(open(path, encoding="utf-8", newline="\n")) for path in paths)
        for one, other in zip(source, target, strict=True):
            yield one[:-1], other[:-1]
