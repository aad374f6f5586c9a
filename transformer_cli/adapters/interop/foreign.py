"""What the readers of other programs' models share: the model that they return, and their errors. Knows no format."""

import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from transformer_cli.errors import DataError, FileError
from transformer_cli.system.files import preview, read_bytes, read_json
from transformer_cli.text.subwords import SubwordModel

UNK, EOS = "<unk>", "</s>"  # as Marian and its converters call them
LanguageCodes = tuple[str | None, str | None]
"""codes of the source and target languages; None if unknown"""
_CODE = "([a-z]{2,3}(?:[-_][A-Z][A-Za-z]{1,7})?)"
_BY_NAME = re.compile(f"(?:.*-)?{_CODE}-{_CODE}")  # de-en, opus-mt-de-en, opus-mt-tc-big-de-en
_OPUS_MT = re.compile("(?:^|[-_./])opus-mt-")
_BY_README = tuple(
    re.compile(rf"(?m)^[^\w\n]*{side} languages?(?:\(s\))?:\W*([a-z]{{2,3}})\W*$") for side in ("source", "target")
)

T = TypeVar("T")


@dataclass(frozen=True)
class ForeignVocabulary:
    """One side's tokens in the other program."""

    model: bytes
    """the SentencePiece model that splits text into tokens"""
    tokens: list[str]
    """in the order of the embedding's rows"""


@dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """A model that another program has trained, as tfm's settings and weights."""

    path: Path
    """the file with the weights"""
    model_settings: Mapping[str, Any]
    """the settings under `model` except tie_embeddings, which follows from the weights"""
    decoding: Mapping[str, Any]
    """the settings under `decoding`"""
    vocabularies: tuple[ForeignVocabulary, ForeignVocabulary]
    """source and target"""
    tensors: dict[str, Tensor]
    """the weights under tfm's names, matrices (out, in); queries, keys and values separate, as …attention.q.weight"""
    start_row: int = -1
    """the embedding row with which every target begins (-1: zeros)"""
    pad_row: int | None = None
    """the row of <pad>, if there is one"""
    languages: LanguageCodes = (None, None)
    """as far as the files name them"""
    symbols: tuple[str, ...] = ()
    """source tokens that are never split"""


def unsupported(path: Path, key: str, value: object, why: str) -> DataError:
    """Returns the error for a setting that tfm does not support."""
    return DataError(f"{path}: {key}: {preview(value)} cannot be imported: {why}")


def refuse_unsupported(path: Path, found: Mapping[str, Any], supported: Mapping[str, tuple[object, ...]]) -> None:
    """Raises DataError for the first setting with an unsupported value. supported: the allowed values by key."""
    for key, values in supported.items():
        if key in found and found[key] not in values:
            raise unsupported(path, key, found[key], f"tfm computes {' or '.join(map(preview, values))} only")


def refuse_compressed(path: Path) -> None:
    """Raises DataError if an archive could unpack to more than its own size: a few bytes may become terabytes."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    if any(each.compress_type for each in entries) or sum(each.file_size for each in entries) > path.stat().st_size:
        raise DataError(f"{path}: its entries are compressed or overlap, which no trainer writes; download it again")


@contextmanager
def as_data_error(path: Path) -> Iterator[None]:
    """Raises any error of a library in the block, such as one for a damaged file, as a DataError."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise DataError(f"{path}: cannot be read: {reason}; download it again") from None


def read_file(path: Path, reader: Callable[[Path], T], remedy: str = "download the whole folder again") -> T:
    """Returns what `reader`, a function of `system.files`, returns for a file. Raises DataError with a remedy."""
    try:
        return reader(path)
    except FileError as error:
        raise DataError(error.with_remedy(remedy, remedy)) from None


def read_vocabulary(path: Path, tokens: list[str] | None = None) -> ForeignVocabulary:
    """Read a SentencePiece model. Raises DataError.

    tokens: the vocabulary, one for each row of the embedding (None: the model's pieces).
    """
    model = read_file(path, read_bytes, "give the SentencePiece models: vocab.spm, or source.spm and target.spm")
    pieces = SubwordModel.from_bytes(model, path)
    return ForeignVocabulary(model, pieces.all_tokens() if tokens is None else tokens)


def read_json_object(path: Path, *, is_optional: bool = False) -> dict[str, Any]:
    """Returns the object in a JSON file, or {} if the file is optional and missing. Raises DataError."""
    value = {} if is_optional and not path.exists() else read_file(path, read_json)
    if not isinstance(value, dict):
        raise DataError(f"{path}: not a JSON object, but {preview(value)}")
    return value


def find_languages(folder: Path, *names: object) -> LanguageCodes:
    """Returns the languages in a model's name, such as opus-mt-de-en, or otherwise in its README.

    names: further names of the model, which come before the folder's.
    """
    for name in (*names, folder_name(folder), folder.resolve().name):
        found = _BY_NAME.fullmatch(name) if isinstance(name, str) else None
        if found and (found.start(1) == 0 or _OPUS_MT.search(found.string, 0, found.start(1))):
            return found[1], found[2]
    readme = folder / "README.md"
    text = read_bytes(readme).decode(errors="replace") if readme.is_file() else ""
    if found := re.search(rf"opus-mt-{_CODE}-{_CODE}\b", text):
        return found[1], found[2]
    source, target = (pattern.search(text) for pattern in _BY_README)
    return source and source[1], target and target[1]


def folder_name(folder: Path) -> str:
    """Returns the name of a folder; of a link, the link's own name."""
    return os.path.basename(os.path.abspath(folder))


def first_known(*codes: LanguageCodes) -> LanguageCodes:
    """Returns the first code of each side that is not None or empty."""
    source, target = (next((code for code in side if code), None) for side in zip(*codes, strict=True))
    return source, target


def tokens_by_id(path: Path, ids: Sequence[tuple[str, object]]) -> list[str]:
    """Returns tokens in the order of their ids. Raises DataError unless the ids are 0, 1, 2, …, without gaps."""
    by_id = {number if isinstance(number, int) else -1: token for token, number in ids}
    if not by_id or sorted(by_id) != [*range(len(ids))] or len({*by_id.values()}) < len(ids):
        raise DataError(f"{path}: its ids are not 0, 1, 2, …, one for each token; download it again")
    return [by_id[number] for number in range(len(by_id))]
