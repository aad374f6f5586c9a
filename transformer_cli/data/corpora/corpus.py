"""What all corpora look like once they are open, and the one of the user's own files, plain or .gz."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from transformer_cli.config.schema import DataConfig, FilePair
from transformer_cli.data.lines import Pairs, count_lines, read_pairs, unreadable
from transformer_cli.errors import DataError
from transformer_cli.system.files import kind_of, sha256

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Corpus:
    """Parallel text, split by split."""

    sums: dict[str, str]
    """origin of the text → SHA-256: `train.de.gz` (Multi30k), `train.source` (files), `captions`; never a folder"""
    splits: Mapping[str, Callable[[], Pairs]]
    """train, valid, then test sets → a function that starts a new pass over the (source, target) lines, without line
    ends"""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """split → number of pairs, those with an empty side included; only if it is known before the split is read"""
    left_out: tuple[str, ...] = ()
    """test sets that exist for this pair of languages, but not in the folder that was named"""


def file_sum(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal. Raises DataError if the file cannot be read."""
    try:
        return sha256(path)
    except OSError as error:
        raise unreadable(path, error) from None


def open_files(data: DataConfig) -> Corpus:
    """Find the files that `data.files` names. Raises DataError if one is missing or unreadable."""
    assert data.files is not None  # the config ensures it
    sums, splits, sizes = {}, {}, {}
    for split in dict.fromkeys(["train", "valid", *data.files]):
        pair = data.files[split]
        for side in FilePair.model_fields:  # source, target
            path: Path = getattr(pair, side)
            if (kind := kind_of(path)) != "a file":
                remedy = "correct the path in the config"
                if kind in ("a pipe", "a device"):
                    remedy = "a corpus is read several times, so write the text into a file and name that"
                raise DataError(f"data.files.{split}.{side}: {path}: {kind}; {remedy}")
            sums[f"{split}.{side}"] = file_sum(path)
        if pair.source.resolve() == pair.target.resolve():
            log.warning("data.files.%s: source and target are the same file, %s", split, pair.source)
        splits[split] = partial(read_pairs, pair.source, pair.target, data.skip_empty, split == "train")
        if pair.source.suffix != ".gz":  # such a file would have to be unpacked first
            sizes[split] = count_lines(pair.source)
    return Corpus(sums, splits, sizes)
