"""What a dataset's manifest says, and which dataset fits a config. Knows settings and sums, nothing of arrays."""

import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from transformer_cli.config.data import DataConfig, FilePair
from transformer_cli.config.section import Shapes, fields_that_shape
from transformer_cli.data.codec import SIDES, codec_sums
from transformer_cli.errors import DataError, FileError
from transformer_cli.system.files import sha256
from transformer_cli.system.reading import look_up
from transformer_cli.system.sums import read_sealed

FORMAT_VERSION = 1

log = logging.getLogger(__name__)


def settings(data: DataConfig) -> dict[str, Any]:
    """Returns the settings that shape a dataset; those that are not in use are left out.

    So a dataset stays valid when tfm learns of other corpora and other kinds of tokens.
    """
    shaping = fields_that_shape(DataConfig, Shapes.DATASET, Shapes.CODEC)
    values = data.model_dump(mode="json", include={**shaping, "files": True})
    unused = {"files", "captions"} - {data.corpus}
    unused |= {"tokens", "subwords"} if data.tokens == "words" else {"min_freq"}
    return {key: value for key, value in values.items() if key not in unused} | {"lowercase": data.lowercased}


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
        manifest, version = _read_manifest(folder)
    except FileError as error:
        remedy = "delete it and run `tfm prepare` again" if folder.exists() else "run `tfm prepare`"
        raise DataError(f"{folder}: not a dataset: {error}; {remedy}") from None
    if version != FORMAT_VERSION:
        raise DataError(f"{folder}: format version {version}, this tfm reads {FORMAT_VERSION}; run `tfm prepare` again")
    return manifest


def _read_manifest(folder: Path) -> tuple[dict[str, Any], int]:
    """Returns a manifest and its format version; all that this module looks up in it is there. Raises FileError."""
    path = folder / "manifest.json"
    manifest = read_sealed(path)
    try:
        version = look_up(manifest, "format_version", int)
        if version == FORMAT_VERSION:
            look_up(manifest, "fingerprint", str)
            look_up(manifest, "settings", dict)
            for side in SIDES:
                look_up(manifest, f"vocabulary.{side}", int)
            for counts in look_up(manifest, "splits", dict).values():
                look_up(counts, "sentences", int)
                for side in SIDES:
                    look_up(counts, f"{side}.tokens", int)
    except ValueError as error:
        raise FileError(f"{path}: damaged: {error}") from None
    return manifest, version


def find_dataset(data: DataConfig, data_dir: Path, codec_dir: Path | None = None) -> Path:
    """Returns the folder of the pinned fingerprint, else the newest one prepared with these settings from this text.

    codec_dir: with data.codec, the folder of the run that it names (None: data.codec is a folder); not read if a
    fingerprint is pinned. Raises DataError if there is no such folder.
    """
    wanted = shape(settings(data))
    given: dict[str, str] | None = None  # any: the fingerprint says which
    if data.fingerprint is None:
        given = codec_sums(codec_dir or Path(data.codec), data) if data.codec else {}
    found, damaged = [], []
    for folder in sorted(data_dir.glob(f"{data.corpus}.{data.source}-{data.target}-*")):
        try:
            manifest, version = _read_manifest(folder)
        except FileError as error:
            damaged.append(str(error))
            continue
        if version != FORMAT_VERSION:
            continue
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
        if damaged:
            which += f" (left out: {'; '.join(damaged)})"
        raise DataError(
            f"{data_dir}/: no dataset {data.corpus} {data.source}→{data.target} with {which}; "
            f"run `tfm prepare` with {remedy}"
        )
    if damaged and data.fingerprint is None:  # one of them may be what is wanted
        log.warning("%s; it is left out: delete the folder and run `tfm prepare` again", "; ".join(damaged))
    return max(found, key=lambda folder: folder.stat().st_mtime_ns)
