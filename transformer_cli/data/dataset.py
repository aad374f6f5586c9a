"""A dataset on disk: manifest, text, ids and offsets. Arrays are written in chunks, and read as memory maps.

Files that do not match the manifest or their checksums are refused.

data/multi30k.de-en-1a2b3c4d/
    manifest.json                   settings, checksums of the original text, and counts
    SHA256SUMS                      the checksums of all other files
    source.vocab.txt                words: the vocabulary, one token per line (target.vocab.txt likewise)
    target.detokenizer.json         words: how to join target tokens to plain text
    source.subwords.model           subwords: SentencePiece's model (target.subwords.model likewise)
    train.source.ids.npy            int32, all sentences end to end, without <sos> and <eos>
    train.source.offsets.npy        int64, sentence i is ids[offsets[i]:offsets[i + 1]]
    train.source.txt                the raw text, one sentence per line
    left-out.tsv.gz                 what cleaning left out: rule, file, line or unit, source, target
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from transformer_cli.config.schema import MAX_LINE_CHARS, Affects, DataConfig, fields_affecting
from transformer_cli.errors import DataError, FileError
from transformer_cli.system import progress
from transformer_cli.system.files import as_file_error, read_text, read_verified_json, sha256_of_file, verify_file
from transformer_cli.text.codec import SIDES, Codecs, codec_checksums, codec_files
from transformer_cli.text.vocabulary import N_SOS_EOS, UNK

FORMAT_VERSION = 3
MAX_BYTES_PER_LINE = 4 * MAX_LINE_CHARS + 1  # of raw text, with the line end
MIN_WARNED_OVERLAP = 0.01  # share of a text's sources or references in the training text; less may be by chance
IDS_PER_BLOCK = 1 << 20  # ids that are in memory at once while all are counted or renumbered

Pair = tuple[str, str]
Rows = NDArray[np.int64]
"""Indices of sentences of a split, (rows,), in any order"""
WriteChunk = Callable[[Sequence[NDArray[np.int32]], Sequence[NDArray[np.int64]]], None]
"""Writes some sentences, given each side's ids (tokens,), end to end, and each side's lengths (sentences,)"""
Opened = TypeVar("Opened")
_PREPARE_AGAIN = "delete the folder and run `tfm prepare` again"
_IF_MISSING = "copy it from where the dataset was prepared; if it is lost for good, " + _PREPARE_AGAIN


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
        """The number of tokens of each sentence, without <sos> and <eos>."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class EncodedSplit:
    """The encoded sentence pairs of a split."""

    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source)

    def rows_within(self, max_length: int | None) -> Rows:
        """Returns the rows of the pairs whose sides both fit in max_length positions, <sos> and <eos> included."""
        lengths = np.maximum(self.source.lengths, self.target.lengths)
        return np.arange(len(self)) if max_length is None else np.flatnonzero(lengths + N_SOS_EOS <= max_length)


@dataclass(frozen=True)
class Dataset:
    """An opened dataset; `split` memory-maps its arrays."""

    folder: Path
    manifest: dict[str, Any]
    codecs: Codecs

    @staticmethod
    def open(folder: Path) -> "Dataset":
        """Open a folder. Raises DataError if it is missing, damaged or of another format version."""
        manifest = read_manifest(folder)
        try:
            data = DataConfig.model_validate(manifest["settings"])
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{folder}: not settings of this tfm: {reason}; {_PREPARE_AGAIN}") from None
        for name in codec_files(data):
            _open_checked(folder / name, lambda path: path)
        return Dataset(folder, manifest, Codecs.load(folder, data))

    @property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits: a hash of the text, the settings and the tokenizer's version."""
        return str(self.manifest["fingerprint"])

    @property
    def test_splits(self) -> list[str]:
        """The names of the test sets, in their order."""
        return [name for name in self.manifest["splits"] if name not in ("train", "valid")]

    def split(self, name: str) -> EncodedSplit:
        """Memory-map a split's arrays. Raises DataError if it is unknown or differs from the manifest."""
        self._count_sentences(name)
        paths = [[self.folder / f"{name}.{side}.{kind}.npy" for kind in ("ids", "offsets")] for side in SIDES]
        load = partial(np.load, mmap_mode="r")
        return EncodedSplit(*(Side(*(_open_checked(path, load) for path in of_side)) for of_side in paths))

    def text(self, name: str, side: str) -> list[str]:
        """Returns the raw lines of one side of a split. Raises DataError as `split` does."""
        sentences = self._count_sentences(name)
        path = self.folder / f"{name}.{side}.txt"
        *lines, _ = _open_checked(path, partial(read_text, max_bytes=sentences * MAX_BYTES_PER_LINE)).split("\n")
        if len(lines) != sentences:
            raise DataError(f"{path}: {len(lines)} lines, but the manifest says {sentences}; {_PREPARE_AGAIN}")
        return lines

    def _count_sentences(self, name: str) -> int:
        splits = self.manifest["splits"]
        if name not in splits:
            raise DataError(f"{self.folder}: no split {name!r}; it has {', '.join(splits)}")
        return int(splits[name]["sentences"])


def _open_checked(path: Path, open_: Callable[[Path], Opened]) -> Opened:
    """Verify a file's checksum and open it. Raises DataError if it is damaged."""
    try:
        verify_file(path)
        return open_(path)
    except OSError as error:
        raise DataError(as_file_error(error, path).with_remedy(_PREPARE_AGAIN, _IF_MISSING)) from None
    except ValueError as error:  # large files are not verified, so damage shows only now
        raise DataError(f"{path}: cannot be read: {' '.join(str(error).split())}; {_PREPARE_AGAIN}") from None
    except FileError as error:
        raise DataError(error.with_remedy(_PREPARE_AGAIN, _IF_MISSING)) from None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a dataset's manifest. Raises DataError if there is no intact manifest of this format version."""
    try:
        manifest = read_verified_json(folder / "manifest.json")
    except FileError as error:
        if_missing = _IF_MISSING if folder.is_dir() else "run `tfm prepare`"
        raise DataError(f"{folder}: not a dataset: {error.with_remedy(_PREPARE_AGAIN, if_missing)}") from None
    version = manifest["format_version"]
    if version != FORMAT_VERSION:
        raise DataError(f"{folder}: format version {version}, this tfm reads {FORMAT_VERSION}; run `tfm prepare` again")
    return manifest


def find_dataset(data: DataConfig, data_dir: Path, codec_dir: Path | None = None, *, any_target: bool = False) -> Path:
    """Returns the folder of the dataset with data.fingerprint, else the newest with these settings and this text.

    codec_dir: with data.tokenizer_from, the folder of the run that it names; not read with data.fingerprint.
    any_target: whatever its `to` is, which `Run.for_target` changes. Raises DataError if there is no such dataset.
    """
    assert data.fingerprint or bool(codec_dir) == bool(data.tokenizer_from), "`find_tokenizer_run` finds the run"
    checksums = codec_checksums(codec_dir, data) if codec_dir and not data.fingerprint else {}

    def compared(settings: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in without_paths(settings).items() if not (any_target and key == "to")}

    def matches(folder: Path, manifest: Mapping[str, Any]) -> bool:
        if compared(manifest["settings"]) != settings:
            return False
        if data.fingerprint:
            return bool(manifest["fingerprint"] == data.fingerprint)
        codec = manifest.get("codec") or (codec_checksums(folder, data) if checksums else {})  # given, or its own
        return codec == checksums and (not data.files or is_made_from(manifest, data, sha256))

    settings = compared(dataset_settings(data))
    found, damaged, sha256 = [], [], cache(sha256_of_file)  # reads a file once, however many datasets it may belong to
    for folder in sorted(data_dir.glob(f"{data.corpus}.{data.source}-{data.target}-*")):
        try:
            if matches(folder, read_manifest(folder)):
                found.append(folder)
        except (DataError, FileError) as error:
            damaged.append(str(error))
    if data.corpus == "imported":
        remedy = "give a file of sentences and one of references, or train on the text of `tfm prepare FILE --like RUN`"
        raise DataError(f"an imported run has no dataset; {remedy}")
    if not found:
        which = f"these settings{' and this text' if data.files else ''}"
        remedy = f"the same --config and --set{f', and --like {data.tokenizer_from}' if data.tokenizer_from else ''}"
        if data.fingerprint:
            which, remedy = f"fingerprint {data.fingerprint}", "the run's config.yaml as --config"
        left_out = f" (left out: {'; '.join(damaged)})" if damaged else ""
        raise DataError(
            f"{data_dir}/: no dataset {data.corpus} {data.source}→{data.target} with {which}{left_out}; "
            f"{'call prepare(config, pairs={…})' if data.corpus == 'pairs' else 'run `tfm prepare`'} with {remedy}"
        )
    return max(found, key=lambda folder: folder.stat().st_mtime_ns)


def dataset_settings(data: DataConfig) -> dict[str, Any]:
    """Returns the settings on which a dataset depends, as its manifest has them.

    Unused ones are left out, so that a dataset stays valid when tfm gets settings for other corpora or tokens.
    """
    used = fields_affecting(DataConfig, Affects.DATASET, Affects.CODEC)
    values = data.model_dump(mode="json", include={**used, "files": True})
    optional = ("tokens", "joiner", "max_words", "columns", "clean", "max_chars", "held_out", "to", "both_directions")
    unused = {key for key in optional if getattr(data, key) == DataConfig.model_fields[key].default}
    if not data.subwords.user_defined_symbols:
        del values["subwords"]["user_defined_symbols"]
    used = {key: value for key, value in values.items() if data.uses(key) and key not in unused}
    return used | {"lowercase": data.lowercased}


def without_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a manifest's settings without file paths: datasets are identified by content."""
    return {key: value for key, value in settings.items() if key != "files"}


def is_made_from(manifest: Mapping[str, Any], data: DataConfig, sha256: Callable[[Path], str] = sha256_of_file) -> bool:
    """Whether a dataset was made from the files that `data` names. Raises OSError.

    The files' content decides, not their folders; a file that is gone only has to have the same name.
    """
    recorded, now = (dict(each.texts) for each in (DataConfig.model_validate(manifest["settings"]), data))
    checksums, sha256 = manifest["sources"], cache(sha256)  # one file may hold both sides
    return recorded.keys() == now.keys() and all(
        sha256(path) == checksums[name] if path.is_file() else recorded[name].name == path.name
        for name, path in now.items()
    )


@contextmanager
def split_writer(folder: Path, name: str, size: int) -> Iterator[WriteChunk]:
    """Yields a function that writes a split of `size` pairs, some at a time; the files are complete after the block."""
    stems = [f"{folder / name}.{side}" for side in SIDES]
    all_lengths = [[np.zeros(1, np.int64)] for _ in SIDES]
    with ExitStack() as opened:
        id_files = [opened.enter_context(open(f"{stem}.ids.npy", "wb")) for stem in stems]
        bar = opened.enter_context(progress.bar(f"prepare {name}", size, " sentences"))
        for file in id_files:
            _write_header(file, 0)

        def write(ids: Sequence[NDArray[np.int32]], lengths: Sequence[NDArray[np.int64]]) -> None:
            for side in range(len(SIDES)):
                id_files[side].write(ids[side].tobytes())
                all_lengths[side].append(lengths[side])
            bar.update(len(lengths[0]))

        yield write
        for stem, file, lengths in zip(stems, id_files, all_lengths, strict=True):
            offsets = np.cumsum(np.concatenate(lengths))
            np.save(f"{stem}.offsets.npy", offsets)
            file.seek(0)
            _write_header(file, int(offsets[-1]))


def _write_header(file: IO[bytes], n_ids: int) -> None:
    """Write the header of a file of ids. NumPy pads it, so it can be overwritten when the number of ids is known."""
    header = {"descr": np.dtype(np.int32).str, "fortran_order": False, "shape": (n_ids,)}
    np.lib.format.write_array_header_1_0(file, header)


def id_blocks(path: Path, mode: Literal["r", "r+"] = "r") -> Iterator[NDArray[np.int32]]:
    """Yield the ids in a file, block by block; with mode r+, changes of a block are written to the file."""
    ids = np.load(path, mmap_mode=mode)
    for start in range(0, len(ids), IDS_PER_BLOCK):
        yield ids[start : start + IDS_PER_BLOCK]


def count_split(folder: Path, name: str) -> dict[str, Any]:
    """Returns the counts of a written split, for the manifest."""
    counts: dict[str, Any] = {}
    for side in SIDES:
        offsets = np.load(folder / f"{name}.{side}.offsets.npy")
        n_unknown = sum(int(np.count_nonzero(block == UNK)) for block in id_blocks(folder / f"{name}.{side}.ids.npy"))
        tokens, longest = int(offsets[-1]), int(np.diff(offsets).max())
        counts["sentences"] = len(offsets) - 1
        counts[side] = {"tokens": tokens, "unknown_rate": n_unknown / max(1, tokens), "longest": longest}
    return counts
