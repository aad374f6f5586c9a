"""A prepared dataset: what it gives, what it refuses, and which one is found."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aligned import AlignedFiles
from sealed import edit_sealed, reseal
from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.data.dataset import Dataset, dataset_settings, find_dataset, read_manifest
from transformer_cli.data.make_dataset import make_dataset
from transformer_cli.errors import DataError
from transformer_cli.text.vocabulary import UNK

WRONG_SETTINGS = ({"source": 5}, {"corpus": "nowhere"})
TEXT = {"train": "a dog.\na dog, a man\n", "valid": "a man.\n", "test_b": "a\nb\n", "test_a": "b\n"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared dataset; not to be written to."""
    folder = tmp_path_factory.mktemp("made")
    files = {}
    for split, text in TEXT.items():
        (folder / split).write_text(text)
        files[split] = {"source": folder / split, "target": folder / split}
    data = DataConfig.model_validate({"corpus": "files", "source": "en", "min_freq": 1, "files": files})
    return make_dataset(Config(data=data), AlignedFiles(data), data_dir=folder / "data").folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(made, tmp_path / "data" / made.name))


def data_config(folder: Path, **changes: Any) -> DataConfig:
    return DataConfig.model_validate({**read_manifest(folder)["settings"], **changes})


def add_version(folder: Path, name: str, *, age_s: float, **changes: Any) -> Path:
    """A copy of a dataset beside it, so many seconds old, with changes to its manifest."""
    copy = Path(shutil.copytree(folder, folder.parent / name))
    edit_sealed(copy / "manifest.json", lambda manifest: manifest.update(changes))
    now = folder.stat().st_mtime
    os.utime(copy, (now - age_s, now - age_s))
    return copy


def test_dataset_split_has_ids_by_sentence(made: Path) -> None:
    dataset = Dataset.open(made)
    split = dataset.split("train")
    assert len(split) == len(split.source) == len(split.target) == 2
    assert split.source.lengths.tolist() == [3, 5]
    words = [dataset.codecs.source.tokens(split.source[row].tolist()) for row in range(2)]
    assert words == [["a", "dog", "."], ["a", "dog", ",", "a", "man"]]
    assert isinstance(split.source.ids, np.memmap)
    assert not split.source.ids.flags.writeable


def test_dataset_has_text_test_splits_and_codecs(made: Path) -> None:
    dataset = Dataset.open(made)
    assert dataset.text("train", "target") == ["a dog.", "a dog, a man"]
    assert dataset.test_splits == ["test_b", "test_a"]
    assert dataset.folder == made
    assert made.name.endswith(f"-{dataset.fingerprint}")
    codec = dataset.codecs.target
    assert codec.decode([UNK] * 5, unk_replacements=["b", ".", "b", ",", "b"]) == "b. b, b"


@pytest.mark.parametrize("corpus", ["multi30k", "captions"])
@pytest.mark.parametrize(("tokens", "own"), [("words", {"min_freq"}), ("subwords", {"tokens", "subwords"})])
def test_dataset_settings_leave_unused_ones_out(corpus: str, tokens: str, own: set[str]) -> None:
    asked = {"corpus": corpus, "tokens": tokens, "fingerprint": "12345678", "tokenizer_from": "runs/other"}
    found = dataset_settings(DataConfig.model_validate(asked))
    common = {"corpus", "source", "target", "lowercase", "joint_vocabulary", "skip_empty"}
    assert set(found) == common | own | ({corpus} - {"multi30k"})
    assert found["lowercase"] is (tokens == "words")
    assert found.get("subwords", {}).keys() == ({"vocab_size", "algorithm"} if tokens == "subwords" else set())


@pytest.mark.parametrize("ask", [lambda d: d.split("tset"), lambda d: d.text("tset", "source")])
def test_dataset_unknown_split_lists_known_ones(made: Path, ask: Callable[[Dataset], Any]) -> None:
    with pytest.raises(DataError, match=f"^{made}: no split 'tset'; it has train, valid, test_b, test_a$"):
        ask(Dataset.open(made))


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", "5"])
def test_open_dataset_refuses_another_folder(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=rf"^{tmp_path}: not a dataset: .*run `tfm prepare`"):
        Dataset.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format_version": 1}, ": format version 1, this tfm reads 3; run `tfm prepare` again"),
        *(({"settings": wrong}, ".*; delete the folder and run `tfm prepare` again") for wrong in WRONG_SETTINGS),
    ],
)
def test_open_dataset_refuses_an_invalid_manifest(folder: Path, change: dict[str, Any], said: str) -> None:
    edit_sealed(folder / "manifest.json", lambda manifest: manifest.update(change))
    with pytest.raises(DataError, match=rf"^{folder}{said}$"):
        Dataset.open(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 lines, but the manifest says 2"),
        (b"a\n\xff\n", "line 2: byte 0xff is not UTF-8"),
        (b"a dog.\na dog", "1 lines, but the manifest says 2"),
    ],
)
def test_dataset_text_with_other_length_is_refused(folder: Path, content: bytes, message: str) -> None:
    path = folder / "train.source.txt"
    path.write_bytes(content)
    reseal(folder)
    with pytest.raises(DataError, match=f"^{path}: {message}; delete the folder and run"):
        Dataset.open(folder).text("train", "source")


def test_find_dataset_skips_a_damaged_manifest(folder: Path) -> None:
    data = data_config(folder)
    other = add_version(folder, "files.en-en-00000000", age_s=-60)
    (other / "manifest.json").write_text("{}")
    assert find_dataset(data, folder.parent) == folder
    shutil.rmtree(folder)
    said = rf"no dataset files en→en with these settings and this text \(left out: {other}: not a dataset"
    with pytest.raises(DataError, match=said):
        find_dataset(data, folder.parent)


def test_find_dataset_takes_the_newest(folder: Path) -> None:
    os.utime(folder, (99, 99))
    data = data_config(folder)
    assert find_dataset(data, folder.parent) == folder
    older = add_version(folder, "files.en-en-00000000", age_s=60, fingerprint="00000000")
    newer = add_version(folder, "files.en-en-11111111", age_s=-60, fingerprint="11111111")
    assert find_dataset(data, folder.parent) == newer
    prepared = make_dataset(Config(data=data), AlignedFiles(data), data_dir=folder.parent)  # which makes it the newest
    assert (prepared.folder, prepared.created) == (folder, False)
    assert find_dataset(data, folder.parent) == folder
    assert find_dataset(data_config(folder, fingerprint="00000000"), folder.parent) == older


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"min_freq": 2}, "en→en with these settings and this text"),
        ({"source": "de"}, "de→en with these settings and this text"),
        ({"to": "en"}, "en→en with these settings and this text"),  # unless any target is taken
        ({"fingerprint": "12345678"}, "en→en with fingerprint 12345678"),
    ],
)
def test_find_dataset_other_settings_find_nothing(folder: Path, changes: dict[str, Any], what: str) -> None:
    with pytest.raises(DataError, match=f"^{folder.parent}/: no dataset files {what}; run `tfm prepare` with the "):
        find_dataset(data_config(folder, **changes), folder.parent)
    assert find_dataset(data_config(folder, to="en"), folder.parent, any_target=True) == folder


def test_find_dataset_skips_other_formats_and_folders(folder: Path, tmp_path: Path) -> None:
    data = data_config(folder)
    add_version(folder, "files.en-en-00000000", age_s=-60, format_version=0)
    (folder.parent / "files.en-en-empty").mkdir()
    assert find_dataset(data, folder.parent) == folder
    with pytest.raises(DataError, match="no dataset files en→en with these settings"):
        find_dataset(data, tmp_path / "nowhere")
