"""The embedded corpus: captions in German and English that come with the package. Needs no network.

scripts/captions holds the grammar that wrote them.
"""

import bz2
import hashlib
from functools import partial
from pathlib import Path

from transformer_cli.config.schema import DataConfig
from transformer_cli.data.corpora.corpus import Corpus

CAPTIONS = Path(__file__).with_name("captions.bz2")
"""UTF-8: all German lines, then the English ones; first valid, then test, then train"""
HELD_OUT = 500  # pairs of valid, and of test


def read_captions(sentences: int) -> dict[str, list[tuple[str, str]]]:
    """Returns the (German, English) pairs of train (the first `sentences`), valid and test.

    No sentence occurs twice in either language. test has constructions that train and valid do not have.
    """
    lines = bz2.decompress(CAPTIONS.read_bytes()).decode("utf-8").splitlines()
    pairs = list(zip(lines[: len(lines) // 2], lines[len(lines) // 2 :], strict=True))
    valid, test, train = pairs[:HELD_OUT], pairs[HELD_OUT : 2 * HELD_OUT], pairs[2 * HELD_OUT :]
    return {"train": train[:sentences], "valid": valid, "test": test}


def open_captions(data: DataConfig) -> Corpus:
    """Open the captions. Their SHA-256 is taken over both languages, whichever of them is the source."""
    total, splits, sizes = hashlib.sha256(), {}, {}
    for split, pairs in read_captions(data.captions.sentences).items():
        for german, english in pairs:
            total.update(f"{split}\t{german}\t{english}\n".encode())
        splits[split] = partial(iter, pairs if data.source == "de" else [(en, de) for de, en in pairs])
        sizes[split] = len(pairs)
    return Corpus({"captions": total.hexdigest()}, splits, sizes)
