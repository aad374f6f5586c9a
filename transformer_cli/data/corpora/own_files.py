"""A corpus of the user's own files, plain or .gz, with one file for each side of each split."""

import logging
from functools import partial
from pathlib import Path

from transformer_cli.config.data import DataConfig, FilePair
from transformer_cli.data.corpora.corpus import Corpus, file_sum
from transformer_cli.data.lines import count_lines, read_pairs
from transformer_cli.errors import DataError
from transformer_cli.system.files import kind_of

log = logging.getLogger(__name__)


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
