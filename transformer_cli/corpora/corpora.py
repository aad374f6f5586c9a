"""Where parallel text comes from: Multi30k, files of the user's own, or the captions that come with the package.

A new kind of corpus is a function here, from the settings to a Corpus, and a case in `open_corpus`. A format of
the user's files is a function in formats.py.
"""

import bz2
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from transformer_cli.config.schema import DataConfig
from transformer_cli.corpora import multi30k
from transformer_cli.corpora.cleaning import shaped_by
from transformer_cli.corpora.formats import LeaveOut, read_texts, require_files
from transformer_cli.errors import DataError
from transformer_cli.system.files import sha256
from transformer_cli.text.lines import Place, Placed

CAPTIONS = Path(__file__).with_name("captions.bz2")
"""UTF-8: all German lines, then the English ones; first valid, then test, then train. a grammar wrote it from a seed"""
HELD_OUT = 500  # pairs of valid, and of test

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Corpus:
    """Parallel text, split by split."""

    sums: Mapping[str, str]
    """origin of the text → SHA-256: `train.de.gz` (Multi30k), `train.source` (files), `captions`; never a folder"""
    splits: Mapping[str, Callable[[LeaveOut], Iterator[Placed]]]
    """split → a function that starts a pass over its pairs, as `formats.read_texts` describes it"""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """what decides on what is left out, beside the settings"""


def open_corpus(data: DataConfig, *, source_dir: Path | None = None) -> Corpus:
    """Find, if necessary fetch, and verify the text that `data` names.

    source_dir: a folder with the files of Multi30k; for any other corpus it is ignored with a warning.

    Raises DataError if a file is missing or not the expected one, DownloadError if it could not be fetched, OSError if
    it cannot be read.
    """
    if data.corpus == "imported":
        raise DataError("data.corpus: imported has no text here; prepare your own, as in `tfm prepare FILE --like RUN`")
    if source_dir is not None and data.corpus != "multi30k":
        log.warning("--source-dir %s is ignored: it applies to corpus multi30k, not to %s", source_dir, data.corpus)
    if data.corpus == "captions":
        return _open_captions(data)
    if data.corpus == "multi30k":
        pairs = multi30k.find_files(data.source, data.target, source_dir)
        sums = {path.name: multi30k.sums()[path.name] for pair in pairs.values() for path in (pair.source, pair.target)}
        return Corpus(sums, {split: partial(read_texts, [pair], data) for split, pair in pairs.items()})
    assert data.files is not None  # the config ensures it
    require_files((f"data.files.{name}", path) for name, path in data.texts)
    sums = {name: sha256(path) for name, path in data.texts}
    texts = {split: text if isinstance(text, tuple) else (text,) for split, text in data.files.items()}
    return Corpus(sums, {split: partial(read_texts, text, data) for split, text in texts.items()}, shaped_by(data))


def _open_captions(data: DataConfig) -> Corpus:
    """Needs no network. The SHA-256 is taken over both languages, whichever of them is the source."""
    total, splits = hashlib.sha256(), {}
    for split, pairs in read_captions(data.captions.sentences).items():
        for german, english in pairs:
            total.update(f"{split}\t{german}\t{english}\n".encode())
        splits[split] = partial(_in_memory, pairs if data.source == "de" else [(en, de) for de, en in pairs])
    return Corpus({"captions": total.hexdigest()}, splits)


def _in_memory(pairs: list[tuple[str, str]], leave_out: LeaveOut) -> Iterator[Placed]:
    return ((*pair, Place(CAPTIONS, CAPTIONS, number, "pair")) for number, pair in enumerate(pairs, start=1))


def read_captions(sentences: int) -> dict[str, list[tuple[str, str]]]:
    """Returns the (German, English) pairs of train (the first `sentences`), valid and test.

    No sentence occurs twice in either language. test has constructions that train and valid do not have.
    """
    lines = bz2.decompress(CAPTIONS.read_bytes()).decode("utf-8").splitlines()
    pairs = list(zip(lines[: len(lines) // 2], lines[len(lines) // 2 :], strict=True))
    valid, test, train = pairs[:HELD_OUT], pairs[HELD_OUT : 2 * HELD_OUT], pairs[2 * HELD_OUT :]
    return {"train": train[:sentences], "valid": valid, "test": test}
