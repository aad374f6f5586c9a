"""A prepared dataset on disk: memory-mapped ids and offsets. Refuses files that do not match the manifest.

data/multi30k.de-en-1a2b3c4d/
    manifest.json                   what it was made from, its counts, and the sums of all other files and of itself
    source.vocab.txt                the codecs: one token per line (target.vocab.txt likewise),
    target.joins.json                   and the rules that turn target tokens into plain text;
    source.subwords.model               for subwords, SentencePiece's model instead (target.subwords.model likewise)
    train.source.ids.npy            int32, all sentences end to end, without <sos> and <eos>
    train.source.offsets.npy        int64, sentence i is ids[offsets[i]:offsets[i + 1]]
    train.source.txt                the raw text, one sentence per line
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.config.data import DataConfig
from transformer_cli.data.codec import SIDES, Codecs, codec_files
from transformer_cli.data.manifest import read_manifest
from transformer_cli.data.mapped_lines import MappedLines
from transformer_cli.errors import DataError, FileError
from transformer_cli.system.reading import say_once
from transformer_cli.system.sums import SUMMED, check_file

log = logging.getLogger(__name__)

_REMAKE = "delete the folder and run `tfm prepare` again"


@dataclass(frozen=True)
class Side:
    """The encoded sentences of one side of a split."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @staticmethod
    def of(sentences: Sequence[Sequence[int]]) -> "Side":
        """Make a side from lists of ids, one per sentence."""
        ids = np.array([index for sentence in sentences for index in sentence], dtype=np.int32)
        return Side(ids, np.cumsum([0, *map(len, sentences)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each sentence, <sos> and <eos> not counted."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class EncodedSplit:
    """Both sides of a split, sentence by sentence."""

    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Dataset:
    """An opened dataset; its arrays are mapped only when `split` is called."""

    folder: Path
    manifest: dict[str, Any]
    codecs: Codecs

    @staticmethod
    def open(folder: Path) -> "Dataset":
        """Open a folder. Raises DataError if it is missing, of another format version, or unlike its manifest."""
        manifest = read_manifest(folder)
        try:
            data = DataConfig.model_validate(manifest["settings"])
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{folder / 'manifest.json'}: damaged settings: {reason}; {_REMAKE}") from None
        if "files" not in manifest:
            say_once(log, f"{folder}: an older tfm prepared it, without sums of its files: damage may go unnoticed")
        try:
            for name in codec_files(data) if "files" in manifest else ():
                check_file(folder / name, manifest["files"])
            codecs = Codecs.load(folder, data)
        except (FileError, DataError) as error:
            raise DataError(f"{error}; {_REMAKE}") from None
        for side, codec in zip(SIDES, (codecs.source, codecs.target), strict=True):
            if len(codec) != manifest["vocabulary"][side]:
                raise _damaged(folder / codec.files(side)[0], f"{len(codec)} tokens", manifest["vocabulary"][side])
        return Dataset(folder, manifest, codecs)

    @property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits, a hash of everything that shaped the files."""
        return str(self.manifest["fingerprint"])

    @property
    def test_splits(self) -> list[str]:
        """The names of the test sets, in their order."""
        return [name for name in self.manifest["splits"] if name not in ("train", "valid")]

    def split(self, name: str) -> EncodedSplit:
        """Map a split's arrays. Raises DataError for an unknown split or arrays that do not match the manifest."""
        counts = self._counts(name)
        codecs = (self.codecs.source, self.codecs.target)
        return EncodedSplit(
            *(
                self._side(self.folder / f"{name}.{side}", counts["sentences"], counts[side]["tokens"], len(codec))
                for side, codec in zip(SIDES, codecs, strict=True)
            )
        )

    def text(self, name: str, side: str) -> list[str]:
        """Returns the raw lines of one side of a split. Raises DataError as `split` does."""
        path, sentences = self._text(name, side)
        try:
            lines = path.read_bytes().decode("utf-8").split("\n")[:-1]  # read_text would also end lines at "\r"
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read: {error}; {_REMAKE}") from None
        if len(lines) != sentences:
            raise _damaged(path, f"{len(lines)} lines", sentences)
        return lines

    def lines(self, name: str, side: str) -> MappedLines:
        """Map the raw lines of one side of a split, which `text` reads. Raises DataError as `split` does."""
        path, sentences = self._text(name, side)
        try:
            lines = MappedLines.open(path)
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be mapped: {error}; {_REMAKE}") from None
        if len(lines) != sentences:
            raise _damaged(path, f"{len(lines)} lines", sentences)
        return lines

    def _counts(self, name: str) -> dict[str, Any]:
        splits: dict[str, dict[str, Any]] = self.manifest["splits"]
        if name not in splits:
            raise DataError(f"{self.folder}: no split {name!r}; it has {', '.join(splits)}")
        return splits[name]

    def _text(self, name: str, side: str) -> tuple[Path, int]:
        """Returns the file of a split's raw lines, whose sum is right, and how many there are."""
        sentences = self._counts(name)["sentences"]
        path = self.folder / f"{name}.{side}.txt"
        _check(path, self.manifest)
        return path, sentences

    def _side(self, stem: Path, sentences: int, tokens: int, n_ids: int) -> Side:
        """Map the arrays of one side, after their sums. n_ids: how many different ids the codec has."""
        path, places = (stem.with_name(f"{stem.name}.{kind}.npy") for kind in ("ids", "offsets"))
        ids, offsets = _mapped(path, self.manifest, np.int32), _mapped(places, self.manifest, np.int64)
        if len(ids) != tokens or len(offsets) != sentences + 1:
            raise _damaged(path, f"{len(offsets) - 1} sentences of {len(ids)} tokens", f"{sentences} of {tokens}")
        if offsets[0] != 0 or offsets[-1] != tokens or (np.diff(offsets) < 0).any():
            raise DataError(f"{places}: damaged: it should rise from 0 to {tokens}; {_REMAKE}")
        is_summed = "files" in self.manifest and ids.nbytes <= SUMMED  # a sum says more than bounds
        if not is_summed and len(ids) and not 0 <= ids.min() <= ids.max() < n_ids:
            raise DataError(f"{path}: damaged: its ids should go from 0 to {n_ids - 1}; {_REMAKE}")
        return Side(ids, offsets)


def _damaged(path: Path, found: str, expected: object) -> DataError:
    return DataError(f"{path}: {found}, but the manifest says {expected}; {_REMAKE}")


def _mapped(path: Path, manifest: Mapping[str, Any], kind: type[np.generic]) -> NDArray[Any]:
    """Map a one-dimensional array of a type, if its sum is right. Raises DataError."""
    _check(path, manifest)
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r")
    except Exception as error:  # of a damaged header NumPy says so with errors of many kinds
        raise DataError(f"{path}: cannot be mapped: {' '.join(str(error).split())}; {_REMAKE}") from None
    if array.dtype != kind or array.ndim != 1:
        raise DataError(f"{path}: damaged: {array.ndim} dimensions of {array.dtype}; {_REMAKE}")
    return array


def _check(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raises DataError unless a file has the sum that the manifest knows; older manifests know none."""
    try:
        if "files" in manifest:
            check_file(path, manifest["files"])
    except FileError as error:
        raise DataError(f"{error}; {_REMAKE}") from None
