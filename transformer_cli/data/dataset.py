"""A dataset on disk: its manifest, its text, and its ids and offsets, which are written chunk by chunk, and mapped.

Refuses files that do not match the manifest.

data/multi30k.de-en-1a2b3c4d/
    manifest.json                   what it was made from, and its counts
    SHA256SUMS                      the sums of all other files
    source.vocab.txt                the codecs: one token per line (target.vocab.txt likewise),
    target.detokenizer.json                   and the rules that turn target tokens into plain text;
    source.subwords.model               for subwords, SentencePiece's model instead (target.subwords.model likewise)
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

from transformer_cli.config.schema import Affects, DataConfig, fields_affecting
from transformer_cli.errors import DataError, FileError
from transformer_cli.system import progress
from transformer_cli.system.files import decode_utf8, read_verified_json, sha256_of_file, verify_file
from transformer_cli.text.codec import SIDES, Codecs, codec_checksums, codec_files
from transformer_cli.text.vocabulary import N_SOS_EOS, UNK

FORMAT_VERSION = 3
IDS_PER_BLOCK = 1 << 20  # ids held in memory while they are counted or renumbered

Pair = tuple[str, str]
Rows = NDArray[np.int64]
"""Which sentences of a split, (rows,), in some order"""
WriteChunk = Callable[[Sequence[NDArray[np.int32]], Sequence[NDArray[np.int64]]], None]
"""Writes a chunk: of each side, its ids (tokens,), all sentences end to end, and lengths (sentences,)"""
Opened = TypeVar("Opened")
_PREPARE_AGAIN = "delete the folder and run `tfm prepare` again"


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

    def rows_within(self, max_length: int | None) -> Rows:
        """Returns the sentences of which both sides fit in max_length positions, <sos> and <eos> included."""
        longer = np.maximum(self.source.lengths, self.target.lengths)
        return np.arange(len(self)) if max_length is None else np.flatnonzero(longer + N_SOS_EOS <= max_length)


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
            raise DataError(
                f"{folder}: not settings of this tfm: {' '.join(str(error).split())}; {_PREPARE_AGAIN}"
            ) from None
        for name in codec_files(data):
            _open_checked(folder / name, lambda path: path)
        return Dataset(folder, manifest, Codecs.load(folder, data))

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
        self._count_sentences(name)
        paths = [[self.folder / f"{name}.{side}.{kind}.npy" for kind in ("ids", "offsets")] for side in SIDES]
        load = partial(np.load, mmap_mode="r")
        return EncodedSplit(*(Side(*(_open_checked(path, load) for path in of_side)) for of_side in paths))

    def text(self, name: str, side: str) -> list[str]:
        """Returns the raw lines of one side of a split. Raises DataError as `split` does."""
        sentences = self._count_sentences(name)
        path = self.folder / f"{name}.{side}.txt"
        *lines, _ = _open_checked(path, lambda path: decode_utf8(path.read_bytes(), path)).split("\n")
        if len(lines) != sentences:
            raise DataError(f"{path}: {len(lines)} lines, but the manifest says {sentences}; {_PREPARE_AGAIN}")
        return lines

    def _count_sentences(self, name: str) -> int:
        splits = self.manifest["splits"]
        if name not in splits:
            raise DataError(f"{self.folder}: no split {name!r}; it has {', '.join(splits)}")
        return int(splits[name]["sentences"])


def _open_checked(path: Path, open_: Callable[[Path], Opened]) -> Opened:
    """Open a file that is as it was written. Raises DataError if it is not."""
    try:
        verify_file(path)
        return open_(path)
    except (OSError, ValueError) as error:  # it may be too large to be summed here
        raise DataError(f"{path}: cannot be mapped: {' '.join(str(error).split())}; {_PREPARE_AGAIN}") from None
    except FileError as error:
        raise DataError(f"{error}; {_PREPARE_AGAIN}") from None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a dataset's manifest. Raises DataError if the folder holds no dataset of this format version."""
    try:
        manifest = read_verified_json(folder / "manifest.json")
    except FileError as error:
        remedy = "delete it and run `tfm prepare` again" if folder.exists() else "run `tfm prepare`"
        raise DataError(f"{folder}: not a dataset: {error}; {remedy}") from None
    version = manifest["format_version"]
    if version != FORMAT_VERSION:
        raise DataError(f"{folder}: format version {version}, this tfm reads {FORMAT_VERSION}; run `tfm prepare` again")
    return manifest


def find_dataset(data: DataConfig, data_dir: Path, codec_dir: Path | None = None) -> Path:
    """Returns the folder of the pinned fingerprint, else the newest one prepared with these settings from this text.

    codec_dir: with data.tokenizer_from, the folder of the run that it names; not read if a fingerprint is pinned.
    Raises DataError if there is no such folder.
    """
    wanted = without_paths(dataset_settings(data))
    assert data.fingerprint or bool(codec_dir) == bool(data.tokenizer_from), "`find_tokenizer_run` finds the run"
    given = codec_checksums(codec_dir, data) if codec_dir and not data.fingerprint else {}

    def is_wanted(manifest: Mapping[str, Any]) -> bool:
        if without_paths(manifest["settings"]) != wanted:
            return False
        if data.fingerprint:
            return bool(manifest["fingerprint"] == data.fingerprint)
        return manifest.get("codec", {}) == given and (not data.files or is_made_from(manifest, data, read))

    found, damaged, read = [], [], cache(sha256_of_file)  # several datasets may have the same settings
    for folder in sorted(data_dir.glob(f"{data.corpus}.{data.source}-{data.target}-*")):
        try:
            if is_wanted(read_manifest(folder)):
                found.append(folder)
        except DataError as error:
            damaged.append(str(error))
    if data.corpus == "imported":
        remedy = "give a file of sentences and one of references, or train on the text of `tfm prepare FILE --like RUN`"
        raise DataError(f"an imported run has no dataset: {remedy}")
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
    """Returns the settings that shape a dataset; those that are not in use are left out.

    So a dataset stays valid when tfm learns of other corpora and other kinds of tokens.
    """
    shaping = fields_affecting(DataConfig, Affects.DATASET, Affects.CODEC)
    values = data.model_dump(mode="json", include={**shaping, "files": True})
    unused = {"files", "captions"} - {data.corpus}
    unused |= {"tokens", "subwords"} if data.tokens == "words" else {"min_freq"}
    optional = ("max_words", "columns", "clean", "max_chars", "held_out", "to")
    if not data.subwords.user_defined_symbols:
        del values["subwords"]["user_defined_symbols"]
    unused |= {key for key in optional if getattr(data, key) == DataConfig.model_fields[key].default}
    return {key: value for key, value in values.items() if key not in unused} | {"lowercase": data.lowercased}


def without_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings in a manifest without the places of the user's files: what counts is what stands in them."""
    return {key: value for key, value in settings.items() if key != "files"}


def is_made_from(manifest: Mapping[str, Any], data: DataConfig, read: Callable[[Path], str] = sha256_of_file) -> bool:
    """Whether a dataset was made from the user's own files, wherever they have been moved since.

    Their content decides; a file that is gone is taken for the one of the same name. Raises OSError.
    """
    recorded, given = (dict(each.texts) for each in (DataConfig.model_validate(manifest["settings"]), data))
    sums, read = manifest["sources"], cache(read)  # a file may be both sides
    return recorded.keys() == given.keys() and all(
        read(path) == sums[name] if path.is_file() else recorded[name].name == path.name for name, path in given.items()
    )


@contextmanager
def split_writer(folder: Path, name: str, size: int) -> Iterator[WriteChunk]:
    """Write a split of `size` pairs; its files are whole when the block ends."""
    stems = [f"{folder / name}.{side}" for side in SIDES]
    all_lengths = [[np.zeros(1, np.int64)] for _ in SIDES]
    with ExitStack() as opened:
        id_files = [opened.enter_context(open(f"{stem}.ids.npy", "wb")) for stem in stems]
        bar = opened.enter_context(progress.bar(f"prepare {name}", size, " sentences"))
        for file in id_files:
            _write_header(file, 0)

        def add(ids: Sequence[NDArray[np.int32]], lengths: Sequence[NDArray[np.int64]]) -> None:
            for side in range(len(SIDES)):
                id_files[side].write(ids[side].tobytes())
                all_lengths[side].append(lengths[side])
            bar.update(len(lengths[0]))

        yield add
        for stem, file, found in zip(stems, id_files, all_lengths, strict=True):
            offsets = np.cumsum(np.concatenate(found))
            np.save(f"{stem}.offsets.npy", offsets)
            file.seek(0)
            _write_header(file, int(offsets[-1]))


def _write_header(file: IO[bytes], n_ids: int) -> None:
    """Write the header of the ids. NumPy pads it so that that of a larger number takes the same place."""
    header = {"descr": np.dtype(np.int32).str, "fortran_order": False, "shape": (n_ids,)}
    np.lib.format.write_array_header_1_0(file, header)


def id_blocks(path: Path, mode: Literal["r", "r+"] = "r") -> Iterator[NDArray[np.int32]]:
    """Yield the ids in a file part by part; with mode r+, what is put into a part is written to the file."""
    ids = np.load(path, mmap_mode=mode)
    for start in range(0, len(ids), IDS_PER_BLOCK):
        yield ids[start : start + IDS_PER_BLOCK]


def count_split(folder: Path, name: str) -> dict[str, Any]:
    """Returns the counts of a split that was written, as the manifest keeps them."""
    counts: dict[str, Any] = {}
    for side in SIDES:
        offsets = np.load(folder / f"{name}.{side}.offsets.npy")
        n_unknown = sum(int(np.count_nonzero(block == UNK)) for block in id_blocks(folder / f"{name}.{side}.ids.npy"))
        tokens, longest = int(offsets[-1]), int(np.diff(offsets).max())
        counts["sentences"] = len(offsets) - 1
        counts[side] = {"tokens": tokens, "unknown_rate": n_unknown / max(1, tokens), "longest": longest}
    return counts
