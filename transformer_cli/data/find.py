"""Which dataset on disk a config means, by the settings and the text that it was made from."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from transformer_cli.config.schema import DataConfig, Shapes, fields_that_shape
from transformer_cli.data.codec import codec_sums
from transformer_cli.data.dataset import read_manifest
from transformer_cli.errors import DataError
from transformer_cli.system.files import sha256


def find_dataset(data: DataConfig, data_dir: Path, codec_dir: Path | None = None) -> Path:
    """Returns the folder of the pinned fingerprint, else the newest one prepared with these settings from this text.

    codec_dir: with data.codec, the folder of the run that it names; not read if a fingerprint is pinned.
    Raises DataError if there is no such folder.
    """
    wanted = shape(settings(data))
    given: dict[str, str] | None = None  # any: the fingerprint says which
    if data.fingerprint is None:
        assert bool(codec_dir) == bool(data.codec), "runs.prepare finds the run"
        given = codec_sums(codec_dir, data) if codec_dir else {}
    found, damaged = [], []
    for folder in sorted(data_dir.glob(f"{data.corpus}.{data.source}-{data.target}-*")):
        try:
            manifest = read_manifest(folder)
        except DataError as error:
            damaged.append(str(error))
            continue
        if data.fingerprint not in (None, manifest["fingerprint"]) or shape(manifest["settings"]) != wanted:
            continue
        if data.fingerprint is None and data.files and not is_text_of(manifest, data):
            continue
        if given in (None, manifest.get("codec", {})):
            found.append(folder)
    if not found:
        which = f"these settings{' and this text' if data.files else ''}"
        remedy = "the same --config and --set"
        if data.fingerprint:
            which, remedy = f"fingerprint {data.fingerprint}", "the run's config.yaml as --config"
        left_out = f" (left out: {'; '.join(damaged)})" if damaged else ""
        raise DataError(
            f"{data_dir}/: no dataset {data.corpus} {data.source}→{data.target} with {which}{left_out}; "
            f"run `tfm prepare` with {remedy}"
        )
    return max(found, key=lambda folder: folder.stat().st_mtime_ns)


def settings(data: DataConfig) -> dict[str, Any]:
    """Returns the settings that shape a dataset; those that are not in use are left out.

    So a dataset stays valid when tfm learns of other corpora and other kinds of tokens.
    """
    shaping = fields_that_shape(DataConfig, Shapes.DATASET, Shapes.CODEC)
    values = data.model_dump(mode="json", include={**shaping, "files": True})
    unused = {"files", "captions"} - {data.corpus}
    unused |= {"tokens", "subwords"} if data.tokens == "words" else {"min_freq"}
    optional = ("max_words", "columns", "clean", "held_out")
    unused |= {key for key in optional if getattr(data, key) == DataConfig.model_fields[key].default}
    return {key: value for key, value in values.items() if key not in unused} | {"lowercase": data.lowercased}


def shape(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings in a manifest without the places of the user's files: what counts is what stands in them."""
    return {key: value for key, value in settings.items() if key != "files"}


def is_text_of(manifest: Mapping[str, Any], data: DataConfig) -> bool:
    """Whether a dataset was made from the user's own files, wherever they have been moved since.

    Their content decides; a file that is gone is taken for the one of the same name. Raises OSError.
    """
    recorded, given = (dict(each.texts) for each in (DataConfig.model_validate(manifest["settings"]), data))
    sums, read = manifest["sources"], cache(sha256)  # a file may be both sides
    return recorded.keys() == given.keys() and all(
        read(path) == sums[name] if path.is_file() else recorded[name].name == path.name for name, path in given.items()
    )
