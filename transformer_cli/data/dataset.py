"""A prepared dataset on disk: memory-mapped ids and offsets. Refuses files that do not match the manifest.

data/multi30k.de-en-1a2b3c4d/
    manifest.json                   what it was made from, and its counts
    source.vocab.txt                the codecs: one token per line (target.vocab.txt likewise),
    target.joins.json                   and the rules that turn target tokens into plain text;
    source.subwords.model               for subwords, SentencePiece's model instead (target.subwords.model likewise)
    train.source.ids.npy            int32, all sentences end to end, without <sos> and <eos>
    train.source.offsets.npy        int64, sentence i is ids[offsets[i]:offsets[i + 1]]
    train.source.txt                the raw text, one sentence per line
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_cli.config.data import DataConfig, FilePair
from transformer_cli.data.codec import SIDES, Codecs, codec_sums
from transformer_cli.data.mapped_lines import MappedLines
from transformer_cli.errors import DataError
from transformer_cli.files import sha256

FORMAT_VERSION = 1
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
            codecs = Codecs.load(folder, DataConfig.model_validate(manifest["settings"]))
        except DataError as error:
            raise DataError(f"{error}; {_REMAKE}") from None
        except (ValueError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{folder / 'manifest.json'}: damaged settings: {reason}; {_REMAKE}") from None
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
        return EncodedSplit(*(self._side(name, side, counts["sentences"], counts[side]["tokens"]) for side in SIDES))

    def text(self, name: str, side: str) -> list[str]:
        """Returns the raw lines of one side of a split. Raises DataError as `split` does."""
        sentences = self._counts(name)["sentences"]
        path = self.folder / f"{name}.{side}.txt"
        try:
            lines = path.read_bytes().decode("utf-8").split("\n")[:-1]  # read_text would also end lines at "\r"
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read: {error}; {_REMAKE}") from None
        if len(lines) != sentences:
            raise _damaged(path, f"{len(lines)} lines", sentences)
        return lines

    def lines(self, name: str, side: str) -> MappedLines:
        """Map the raw lines of one side of a split, which `text` reads. Raises DataError as `split` does."""
        sentences = self._counts(name)["sentences"]
        path = self.folder / f"{name}.{side}.txt"
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

    def _side(self, name: str, side: str, sentences: int, tokens: int) -> Side:
        path = self.folder / f"{name}.{side}.ids.npy"
        try:
            ids = np.load(path, mmap_mode="r")
            offsets = np.load(self.folder / f"{name}.{side}.offsets.npy", mmap_mode="r")
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be mapped: {error}; {_REMAKE}") from None
        if len(ids) != tokens or len(offsets) != sentences + 1 or offsets[-1] != tokens:
            raise _damaged(path, f"{len(offsets) - 1} sentences of {len(ids)} tokens", f"{sentences} of {tokens}")
        return Side(ids, offsets)


def settings(data: DataConfig) -> dict[str, Any]:
    """Returns the settings that shape a dataset; those that are not in use are left out.

    So a dataset stays valid when tfm learns of other corpora and other kinds of tokens.
    """
    values = data.model_dump(mode="json", exclude={"fingerprint": True, "subwords": {"dropout"}})
    unused = {"files", "captions"} - {data.corpus}
    unused |= {"tokens", "subwords"} if data.tokens == "words" else {"min_freq"}
    return {key: value for key, value in values.items() if key not in unused | {"codec"}} | {
        "lowercase": data.lowercased
    }


def shape(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings in a manifest without the places of the user's files: what counts is what stands in them."""
    return {key: value for key, value in settings.items() if key != "files"}


def is_text_of(manifest: Mapping[str, Any], files: Mapping[str, FilePair]) -> bool:
    """Whether a dataset was made from the user's own files, wherever they have been moved since.

    Their content decides. A file that is gone is taken for the one of the same name. Raises OSError if one of them
    cannot be read.
    """
    recorded, sums = manifest["settings"].get("files", {}), manifest["sources"]
    if recorded.keys() != files.keys():
        return False
    read = cache(sha256)  # a file may be both sides
    for split, pair in files.items():
        for side, path in (("source", pair.source), ("target", pair.target)):
            if path.is_file():
                is_same = read(path) == sums.get(f"{split}.{side}")
            else:
                is_same = path.name == Path(recorded[split][side]).name
            if not is_same:
                return False
    return True


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a dataset's manifest. Raises DataError if the folder holds no dataset of this format version."""
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        found = manifest["format_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = "delete it and run `tfm prepare` again" if folder.exists() else "run `tfm prepare`"
        raise DataError(f"{folder}: not a dataset: {error}; {remedy}") from None
    if found != FORMAT_VERSION:
        raise DataError(f"{folder}: format version {found}, this tfm reads {FORMAT_VERSION}; run `tfm prepare` again")
    return manifest


def find_dataset(data: DataConfig, data_dir: Path, codec_dir: Path | None = None) -> Path:
    """Returns the folder of the pinned fingerprint, else the newest one prepared with these settings from this text.

    codec_dir: with data.codec, the folder of the run that it names (None: data.codec is a folder); not read if a
    fingerprint is pinned. Raises DataError if there is no such folder.
    """
    wanted = shape(settings(data))
    given: dict[str, str] | None = None  # any: the fingerprint says which
    if data.fingerprint is None:
        given = codec_sums(codec_dir or Path(data.codec), data) if data.codec else {}
    prefix = f"{data.corpus}.{data.source}-{data.target}-"
    found = []
    for folder in data_dir.glob(f"{prefix}*"):
        try:
            manifest = read_manifest(folder)
        except DataError:
            continue  # a dataset of an older format is not what we look for
        if data.fingerprint not in (None, manifest["fingerprint"]) or shape(manifest["settings"]) != wanted:
            continue
        if data.fingerprint is None and data.files and not is_text_of(manifest, data.files):
            continue
        if given in (None, manifest.get("codec", {})):
            found.append(folder)
    if not found:
        which = "these settings" + (" and this text" if data.files else "")
        remedy = "the same --config and --set"
        if data.fingerprint:
            which, remedy = f"fingerprint {data.fingerprint}", "the run's config.yaml as --config"
        raise DataError(
            f"{data_dir}/: no dataset {data.corpus} {data.source}→{data.target} with {which}; "
            f"run `tfm prepare` with {remedy}"
        )
    return max(found, key=lambda folder: folder.stat().st_mtime_ns)


def _damaged(path: Path, found: str, expected: object) -> DataError:
    return DataError(f"{path}: {found}, but the manifest says {expected}; {_REMAKE}")
